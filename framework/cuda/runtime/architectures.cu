// What the device code of this build was compiled for: the compiler knows it only while it compiles a .cu file.

#include <algorithm>

#include "lamina/cuda/runtime/architectures.h"
#include "lamina/cuda/runtime/check.h"

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

bool compiled_for_90a() {
#ifdef LAMINA_COMPILED_FOR_90A  // by framework/cuda/runtime/CMakeLists.txt
  return true;
#else
  return false;
#endif
}

int clusters_at_once(int size, int shared_bytes) {
  check(cudaFuncSetAttribute(probe_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(size);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(size));
  config.blockDim = dim3(256);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  check(cudaOccupancyMaxActiveClusters(&count, probe_kernel, &config));
  return count;
}

bool kernels_load() {
  cudaFuncAttributes attributes{};
  const bool loaded = cudaFuncGetAttributes(&attributes, probe_kernel) == cudaSuccess;
  if (!loaded) (void)cudaGetLastError();
  return loaded;
}

}  // namespace lamina::cuda
