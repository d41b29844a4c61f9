#include "lamina/cuda/runtime/launch.h"

#include <atomic>

#include "lamina/cuda/runtime/check.h"
#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {
namespace {

/// Whether the current device overlaps kernels.
bool device_overlaps() {
  constexpr int devices = 64;
  static std::atomic<int> known[devices];  // 0: not asked yet, 1: no, 2: yes
  int device = 0;
  check(cudaGetDevice(&device));
  const auto ask = [device] { return device_attribute(device, cudaDevAttrComputeCapabilityMajor) >= 9; };
  if (device >= devices) return ask();
  std::atomic<int>& answer = known[device];
  if (answer.load() == 0) answer.store(ask() ? 2 : 1);
  return answer.load() == 2;
}

}  // namespace

void launch_kernel(const void* kernel, const Launch& how, Stream stream, void** arguments) {
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  attributes[1].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim.x = static_cast<unsigned>(how.cluster);
  attributes[2].val.clusterDim.y = attributes[2].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = how.grid;
  config.blockDim = how.block;
  config.dynamicSmemBytes = how.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  if (how.overlaps && device_overlaps()) config.numAttrs = how.cluster > 1 ? 3 : 2;
  check(cudaLaunchKernelExC(&config, kernel, arguments));
}

void reserve_shared_memory(int device, const void* kernel, int bytes, int carveout) {
  if (detail::DryRun::active()) return;
  const DeviceGuard guard(device);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, carveout));
}

}  // namespace lamina::cuda
