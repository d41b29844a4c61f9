#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/tensor/device.h"
#include "lamina/tensor/dtype.h"
#include "lamina/tensor/shape.h"

namespace lamina {

/// A dense, contiguous, row-major array of one dtype on one device. Images are NCHW.
///
/// A Tensor is a handle: a copy of it shares the elements, and `clone` copies them. A view keeps its memory alive. Only
/// views that are documented to live until a plan's next run do not.
class LAMINA_API Tensor {
 public:
  /// An undefined tensor: no memory, shape [0].
  Tensor() = default;

  /// Allocates without initialising, 64-byte aligned on the CPU. Throws Error if there is not enough memory.
  explicit Tensor(Shape shape, DType dtype = DType::f32, Device device = Device::cpu());

  static Tensor zeros(Shape shape, DType dtype = DType::f32, Device device = Device::cpu());

  /// A CPU tensor in page-locked memory, not initialised. A GPU copies from and to it at the full rate of its bus. On a
  /// host without a GPU it is an ordinary tensor. It is slow to make, so make it once and use it again and again.
  /// Throws Error if there is not enough memory.
  static Tensor pinned(Shape shape, DType dtype = DType::f32);

  /// A CPU tensor with a copy of `values`. Throws Error unless there are exactly shape.numel() values.
  template <class T>
  static Tensor from(std::span<const T> values, Shape shape) {
    return copy_of(values.data(), values.size(), dtype_of<T>, shape);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, Shape shape) {
    return from(std::span<const T>(values), shape);
  }

  /// A tensor over your memory, without a copy. `owner` keeps the memory alive; if it is null, you do.
  static Tensor borrow(void* data, Shape shape, DType dtype, Device device = Device::cpu(),
                       std::shared_ptr<void> owner = nullptr);

  bool defined() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  std::int64_t numel() const { return numel_; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel_) * size_of(dtype_); }

  /// The address of the first element, on the tensor's device.
  void* raw() { return data_; }
  const void* raw() const { return data_; }

  /// The elements of a CPU tensor. Throws Error if the tensor is on another device or has another dtype.
  template <class T>
  std::span<T> values() {
    require(dtype_of<T>);
    return {static_cast<T*>(data_), static_cast<std::size_t>(numel_)};
  }
  template <class T>
  std::span<const T> values() const {
    require(dtype_of<T>);
    return {static_cast<const T*>(data_), static_cast<std::size_t>(numel_)};
  }

  /// The same elements with another shape. Throws Error if the number of elements differs.
  Tensor view(Shape shape) const;

  /// The same bytes as elements of another type. Throws Error unless they fill the shape exactly.
  Tensor reinterpret(Shape shape, DType dtype) const;

  /// Elements [begin, end) of the outermost dimension, without a copy. Throws Error if they are out of range.
  Tensor slice(std::int64_t begin, std::int64_t end) const;

  /// The elements converted to that dtype; the tensor itself if it has that dtype already. Floats round to nearest
  /// even. Conversion to an integer type throws Error if a value does not fit or is not whole.
  Tensor to(DType dtype) const;

  /// The elements on that device; the tensor itself if it is there already.
  Tensor to(Device device) const;

  /// A copy of the elements.
  Tensor clone() const;

  /// Copies the elements of `source` into this tensor, also from another device. Throws Error unless shape and dtype
  /// are equal.
  void copy_from(const Tensor& source);

  /// "f32 [8, 3, 224, 224] on cpu"
  std::string description() const;

 private:
  static Tensor copy_of(const void* values, std::size_t count, DType dtype, Shape shape);
  void require(DType dtype) const;

  std::shared_ptr<void> owner_;
  void* data_ = nullptr;
  Shape shape_{0};
  std::int64_t numel_ = 0;
  DType dtype_ = DType::f32;
  Device device_;
};

/// The description, then the elements, nested by dimension. If there are many, the middle ones are left out.
LAMINA_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace lamina
