#include "lamina/cuda/runtime/check.h"

#include <string_view>

#include "lamina/base/error.h"

namespace lamina::cuda {

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  // A failed launch or allocation leaves its code behind for the next caller to trip over: take it away.
  // (An error that broke the context stays, and every later call reports it.)
  (void)cudaGetLastError();
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  detail::fail(status == cudaErrorMemoryAllocation ? ErrorKind::out_of_memory : ErrorKind::failed,
               "CUDA: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ") at ", file, ':', where.line());
}

void check_launch(std::source_location where) { check(cudaGetLastError(), where); }

int device_attribute(int device, cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

DeviceGuard::DeviceGuard(int device) {
  check(cudaGetDevice(&previous_));
  if (device != previous_) check(cudaSetDevice(device));
}

DeviceGuard::~DeviceGuard() { (void)cudaSetDevice(previous_); }

}  // namespace lamina::cuda
