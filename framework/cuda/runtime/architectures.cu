// What the device code of this build was compiled for: the compiler knows it only while it compiles a .cu file.

#include <algorithm>

#include "lamina/cuda/runtime/architectures.h"

namespace lamina::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

std::vector<int> compiled_architectures() {
  std::vector<int> result;
  for (const int architecture : {__CUDA_ARCH_LIST__}) result.push_back(architecture / 10);
#ifdef LAMINA_CUDA_80_FOR_86_89  // by cmake/LaminaCuda.cmake; the list has only the architectures of PTX
  result.insert(result.end(), {86, 89});
  std::sort(result.begin(), result.end());
#endif
  return result;
}

bool kernels_load() {
  cudaFuncAttributes attributes{};
  const bool loaded = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  if (!loaded) (void)cudaGetLastError();
  return loaded;
}

}  // namespace lamina::cuda
