#pragma once

#include <cstddef>

#include "lamina/tensor/constants.h"

namespace lamina::cuda {

/// Device memory that holds what some host memory held, for reading only: a block of the store, so that Plans of the
/// same network, whatever their batch or thread, share their packed weights without knowing of each other. Cheap to
/// copy.
class Constant {
 public:
  Constant() = default;
  /// Throws Error saying how much device memory was asked for and how much was free. May be called from any thread.
  Constant(int device, const void* host, std::size_t bytes) {
    if (bytes == 0) return;
    const Shape shape = {static_cast<std::int64_t>(bytes)};
    memory_ = detail::constant(Tensor::borrow(const_cast<void*>(host), shape, DType::u8), Device::cuda(device));
  }

  const void* data() const { return memory_.raw(); }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data());
  }

 private:
  Tensor memory_;
};

}  // namespace lamina::cuda
