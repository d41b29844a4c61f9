#pragma once

#include <cstddef>
#include <memory>

#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {

struct FreeMemory {
  Device device;
  void operator()(void* memory) const noexcept { detail::device_free(device, memory); }
};

/// Device memory that frees itself. Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error saying how much was asked for and how much was free.
  Buffer(int device, std::size_t bytes)
      : data_(bytes == 0 ? nullptr : detail::device_allocate(Device::cuda(device), bytes), {Device::cuda(device)}),
        bytes_(bytes) {}
  /// A copy of `bytes` of host memory.
  Buffer(int device, const void* host, std::size_t bytes) : Buffer(device, bytes) {
    if (bytes != 0) detail::copy_bytes(data(), Device::cuda(device), host, Device::cpu(), bytes);
  }

  void* data() const { return data_.get(); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data());
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<void, FreeMemory> data_;
  std::size_t bytes_ = 0;
};

}  // namespace lamina::cuda
