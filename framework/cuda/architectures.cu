// What the device code of this build was compiled for: the compiler knows it only while it compiles a .cu file.

#include "lamina/cuda/architectures.h"

namespace lamina::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

std::vector<int> compiled_architectures() {
  std::vector<int> result;
  for (const int architecture : {__CUDA_ARCH_LIST__}) result.push_back(architecture / 10);
  return result;
}

bool kernels_load() {
  cudaFuncAttributes attributes{};
  const bool loaded = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  if (!loaded) (void)cudaGetLastError();
  return loaded;
}

}  // namespace lamina::cuda
