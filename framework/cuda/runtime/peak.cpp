#include "lamina/cuda/runtime/peak.h"

#include "lamina/cuda/runtime/cublas.h"

namespace lamina::cuda {

void square_product(int device, const float* a, const float* b, float* c, int n, void* workspace, Stream stream) {
  const GemmArguments arguments = {.m = n, .n = n, .k = n, .a = a, .lda = n, .b = b, .ldb = n, .c = c, .ldc = n};
  Cublas::on_device(device)->gemm(arguments, Precision::fp32, workspace, square_product_workspace, stream);
}

}  // namespace lamina::cuda
