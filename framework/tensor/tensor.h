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
/// Copying a Tensor copies a handle: both see the same elements. `clone` copies the elements. Views keep the
/// memory they look at alive, except those documented to live until a plan's next run.
class LAMINA_API Tensor {
 public:
  /// An undefined tensor: no memory, shape [0].
  Tensor() = default;

  /// Allocates without initialising; 64-byte aligned on the CPU. Throws Error when memory runs out.
  explicit Tensor(Shape shape, DType dtype = DType::f32, Device device = Device::cpu());

  static Tensor zeros(Shape shape, DType dtype = DType::f32, Device device = Device::cpu());

  /// A CPU tensor, not initialised, in page-locked memory: a GPU copies from and to it at the full rate of its bus. An
  /// ordinary one on a host without a GPU. Slow to make, so make it once and use it again and again. Throws Error when
  /// memory runs out.
  static Tensor pinned(Shape shape, DType dtype = DType::f32);

  /// A CPU tensor holding a copy of `values`. Throws Error unless there are exactly shape.numel() of them.
  template <class T>
  static Tensor from(std::span<const T> values, Shape shape) {
    return copy_of(values.data(), values.size(), dtype_of<T>, shape);
  }
  template <class T>
  static Tensor from(const std::vector<T>& values, Shape shape) {
    return from(std::span<const T>(values), shape);
  }

  /// A tensor over memory of the caller's, kept alive by `owner` (which may be null: then the caller does it).
  static Tensor borrow(void* data, Shape shape, DType dtype, Device device = Device::cpu(),
                       std::shared_ptr<void> owner = nullptr);

  bool defined() const { return data_ != nullptr; }
  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  std::int64_t numel() const { return numel_; }
  std::size_t bytes() const { return static_cast<std::size_t>(numel_) * size_of(dtype_); }

  /// The address of the first element, on whichever device it is.
  void* raw() { return data_; }
  const void* raw() const { return data_; }

  /// The elements, on the CPU. Throws Error if the tensor is elsewhere or holds another dtype.
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

  /// The same elements under another shape of equal size. Throws Error if the sizes differ.
  Tensor view(Shape shape) const;

  /// The same bytes as elements of another type. Throws Error unless they fill exactly that shape.
  Tensor reinterpret(Shape shape, DType dtype) const;

  /// Elements [begin, end) of the outermost dimension, without copying. Throws Error if out of range.
  Tensor slice(std::int64_t begin, std::int64_t end) const;

  /// The elements converted; itself if it already has that dtype. Floats round to nearest even; converting to an
  /// integer type throws Error if a value does not fit or is not whole.
  Tensor to(DType dtype) const;

  /// The elements on that device; itself if it is there already.
  Tensor to(Device device) const;

  /// A copy of the elements.
  Tensor clone() const;

  /// Copies the elements of `source` here, across devices if need be. Throws Error unless shape and dtype agree.
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

/// The description, then the elements, nested by dimension, with the middle left out when there are many.
LAMINA_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace lamina
