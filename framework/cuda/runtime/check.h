#pragma once

#include <cuda_runtime.h>

#include <source_location>

namespace lamina::cuda {

/// Throws Error, naming the call's place and CUDA's own words, unless `status` is success.
void check(cudaError_t status, std::source_location where = std::source_location::current());

/// To be called right after a kernel launch: reports a launch that was refused.
void check_launch(std::source_location where = std::source_location::current());

/// One property of a device. Throws Error if it cannot be asked.
int device_attribute(int device, cudaDeviceAttr which);

/// Makes `device` current for a scope and restores the previous one.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace lamina::cuda
