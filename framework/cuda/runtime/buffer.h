#pragma once

#include <cstddef>
#include <utility>

#include "lamina/tensor/device_memory.h"

namespace lamina::cuda {

/// Device memory that frees itself. Move-only.
class Buffer {
 public:
  Buffer() = default;
  /// Throws Error saying how much was asked for and how much was free.
  Buffer(int device, std::size_t bytes)
      : device_(Device::cuda(device)),
        data_(bytes == 0 ? nullptr : detail::device_allocate(device_, bytes)),
        bytes_(bytes) {}
  /// A copy of `bytes` of host memory.
  Buffer(int device, const void* host, std::size_t bytes) : Buffer(device, bytes) {
    if (bytes != 0) detail::copy_bytes(data_, device_, host, Device::cpu(), bytes);
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) detail::device_free(device_, data_);
  }

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device device_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace lamina::cuda
