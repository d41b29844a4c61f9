#include "lamina/cuda/tensor_core/has_code.h"

namespace lamina::cuda {

bool has_code(const void* kernel) {
  cudaFuncAttributes attributes{};
  if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.sharedSizeBytes == 0;
}

}  // namespace lamina::cuda
