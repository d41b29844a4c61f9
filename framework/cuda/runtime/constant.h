#pragma once

#include <cstddef>
#include <memory>

#include "lamina/cuda/runtime/buffer.h"

namespace lamina::cuda {

/// Device memory that holds what some host memory held, for reading only. All Constants of one device and one content
/// are one copy, found by a 128-bit hash of the bytes, freed with the last of them: Plans of the same network, whatever
/// their batch or thread, share their packed weights without knowing of each other. Cheap to copy.
class Constant {
 public:
  Constant() = default;
  /// Throws Error saying how much device memory was asked for and how much was free. May be called from any thread.
  Constant(int device, const void* host, std::size_t bytes);

  const void* data() const { return memory_ == nullptr ? nullptr : memory_->data(); }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }
  std::size_t bytes() const { return memory_ == nullptr ? 0 : memory_->bytes(); }

 private:
  std::shared_ptr<const Buffer> memory_;
};

}  // namespace lamina::cuda
