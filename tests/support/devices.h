#pragma once

#include "lamina/kernel/device_description.h"

/// Devices that need not be there: what the rule makes of a network on them is the same on every machine.
namespace lamina::test {

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
