#pragma once

#include <vector>

#include "lamina/kernel/device_description.h"
#include "lamina/tensor/device_memory.h"

/// Devices, also such that need not be there: what the rule makes of a network on them is the same on every machine.
namespace lamina::test {

/// Those that are: a CPU, and the first GPU.
inline std::vector<Device> devices_here() {
  std::vector<Device> found = {Device::cpu()};
  if (detail::cuda_device_count() > 0) found.push_back(Device::cuda());
  return found;
}

/// As describe() says of an NVIDIA H200.
inline DeviceDescription h200() {
  return {.device = Device::cuda(),
          .architecture = 90,
          .wgmma = true,
          .multiprocessors = 132,
          .shared_bytes = 232448,
          .multiprocessor_shared_bytes = 233472,
          .reserved_shared_bytes = 1024,
          .clusters = {0, 132, 66, 39, 30, 22, 17, 15, 15}};
}

/// Like an NVIDIA A100: tensor cores, but no wgmma and no clusters.
inline DeviceDescription a100() {
  return {.device = Device::cuda(),
          .architecture = 80,
          .wgmma = false,
          .multiprocessors = 108,
          .shared_bytes = 166912,
          .multiprocessor_shared_bytes = 167936,
          .reserved_shared_bytes = 1024,
          .clusters = {0, 108}};
}

/// A newer device as if it were of compute capability 8.0: its plans are those of GPUs before Hopper, and run on it.
inline DeviceDescription as_ampere(const DeviceDescription& device) { return detail::limited_to(80, device); }

}  // namespace lamina::test
