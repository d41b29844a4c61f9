#include "lamina/tensor/tensor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <new>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/tensor/device_memory.h"

namespace lamina {
namespace {

// One cache line, and the widest vector register.
constexpr std::align_val_t alignment{64};

std::size_t bytes_for(const Shape& shape, DType dtype) {
  const auto bytes = detail::checked_mul<std::int64_t>(shape.numel(), static_cast<std::int64_t>(size_of(dtype)));
  if (!bytes) detail::fail("tensor ", shape, " of ", dtype, " has more bytes than 64 bits can count");
  return static_cast<std::size_t>(*bytes);
}

constexpr std::uintptr_t huge_page = std::uintptr_t{2} << 20;

/// Advice about the whole pages of that memory. May be refused.
[[maybe_unused]] void advise(void* memory, std::size_t bytes, std::uintptr_t page, int advice) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t begin = detail::round_up(address, page), end = (address + bytes) / page * page;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

/// Under large tensors, pages of 2 MiB where the system has them on request: filling fresh memory is otherwise mostly
/// waiting for one small page after the other.
void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  advise(memory, bytes, huge_page, MADV_HUGEPAGE);
#endif
}

/// Large tensors that are about to be freed go back to the system at once. The heap would keep them between those that
/// live, and a plan's weights are packed while the model's go one by one.
void give_back([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef __linux__
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  if (bytes >= huge_page) advise(memory, bytes, page, MADV_DONTNEED);
#endif
}

std::shared_ptr<void> allocate(std::size_t bytes, Device device) {
  // An empty tensor still gets an address, so that `defined` tells it from an undefined one.
  const std::size_t size = bytes == 0 ? 1 : bytes;
  if (device.is_cuda())
    return {detail::device_allocate(device, size), [device](void* p) { detail::device_free(device, p); }};
  void* memory = ::operator new(size, alignment, std::nothrow);
  if (memory == nullptr)
    detail::fail(ErrorKind::out_of_memory, "out of memory: asked for ", bytes, " bytes on the CPU");
  prefer_huge_pages(memory, size);
  return {memory, [size](void* p) {
            give_back(p, size);
            ::operator delete(p, alignment);
          }};
}

}  // namespace

Tensor::Tensor(Shape shape, DType dtype, Device device)
    : owner_(allocate(bytes_for(shape, dtype), device)),
      data_(owner_.get()),
      shape_(shape),
      numel_(shape.numel()),
      dtype_(dtype),
      device_(device) {}

Tensor Tensor::zeros(Shape shape, DType dtype, Device device) {
  Tensor host(shape, dtype);
  std::memset(host.raw(), 0, host.bytes());
  return host.to(device);
}

Tensor Tensor::pinned(Shape shape, DType dtype) {
  if (detail::cuda_device_count() == 0) return Tensor(shape, dtype);
  const std::shared_ptr<void> memory = detail::allocate_pinned(bytes_for(shape, dtype));
  return borrow(memory.get(), shape, dtype, Device::cpu(), memory);
}

Tensor Tensor::borrow(void* data, Shape shape, DType dtype, Device device, std::shared_ptr<void> owner) {
  bytes_for(shape, dtype);  // refuses sizes that overflow
  Tensor result;
  result.owner_ = std::move(owner);
  result.data_ = data;
  result.shape_ = shape;
  result.numel_ = shape.numel();
  result.dtype_ = dtype;
  result.device_ = device;
  return result;
}

Tensor Tensor::copy_of(const void* values, std::size_t count, DType dtype, Shape shape) {
  Tensor result(shape, dtype);
  if (count != static_cast<std::size_t>(result.numel_))
    detail::fail("tensor ", shape, ": expected ", result.numel_, " values, got ", count);
  if (count != 0) std::memcpy(result.data_, values, result.bytes());
  return result;
}

void Tensor::require(DType dtype) const {
  if (dtype != dtype_) detail::fail("expected a tensor of ", dtype, ", got ", description());
  if (!device_.is_cpu()) detail::fail("expected a tensor on the cpu, got ", description(), "; move it there");
}

Tensor Tensor::view(Shape shape) const {
  if (shape.numel() != numel_) detail::fail("cannot view ", description(), " as ", shape);
  Tensor result = *this;
  result.shape_ = shape;
  return result;
}

Tensor Tensor::reinterpret(Shape shape, DType dtype) const {
  if (bytes_for(shape, dtype) != bytes()) detail::fail("cannot read ", description(), " as ", dtype, ' ', shape);
  Tensor result = *this;
  result.shape_ = shape;
  result.numel_ = shape.numel();
  result.dtype_ = dtype;
  return result;
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  if (shape_.rank() == 0) detail::fail("cannot slice a scalar");
  if (begin < 0 || begin > end || end > shape_[0])
    detail::fail("cannot take [", begin, ", ", end, ") of ", description());
  Tensor result = *this;
  result.shape_.set(0, end - begin);
  result.numel_ = result.shape_.numel();
  const std::int64_t row = shape_[0] == 0 ? 0 : numel_ / shape_[0];
  result.data_ = static_cast<std::byte*>(data_) + static_cast<std::size_t>(begin * row) * size_of(dtype_);
  return result;
}

Tensor Tensor::to(Device device) const {
  if (device == device_) return *this;
  Tensor result(shape_, dtype_, device);
  detail::copy_bytes(result.data_, device, data_, device_, bytes());
  return result;
}

Tensor Tensor::clone() const {
  Tensor result(shape_, dtype_, device_);
  result.copy_from(*this);
  return result;
}

void Tensor::copy_from(const Tensor& source) {
  if (source.shape_ != shape_ || source.dtype_ != dtype_)
    detail::fail("cannot copy ", source.description(), " into ", description());
  if (device_.is_cpu() && source.device_.is_cpu()) {
    if (bytes() != 0) std::memmove(data_, source.data_, bytes());
  } else {
    detail::copy_bytes(data_, device_, source.data_, source.device_, bytes());
  }
}

std::string Tensor::description() const {
  return defined() ? detail::concat(dtype_, ' ', shape_, " on ", device_) : "an undefined tensor";
}

}  // namespace lamina
