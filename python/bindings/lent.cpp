#include "lent.h"

#include <nanobind/stl/pair.h>

#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::python {
namespace {

using detail::fail;

/// The type that a format of the struct module names; nothing for those that Lamina has not.
std::optional<DType> type_of_format(char code, Py_ssize_t size) {
  constexpr std::string_view signed_codes = "bhilqn", unsigned_codes = "BHILQN";
  constexpr DType signed_types[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  constexpr DType unsigned_types[] = {DType::u8, DType::u16, DType::u32, DType::u64};
  const auto log2 = static_cast<std::size_t>(std::countr_zero(static_cast<std::size_t>(size)));
  if (code == '?') return DType::boolean;
  if (code == 'e') return DType::f16;
  if (code == 'f') return DType::f32;
  if (code == 'd') return DType::f64;
  if (log2 > 3) return std::nullopt;
  if (signed_codes.find(code) != std::string_view::npos) return signed_types[log2];
  if (unsigned_codes.find(code) != std::string_view::npos) return unsigned_types[log2];
  return std::nullopt;
}

DType type_of_buffer(const Py_buffer& buffer, std::string_view what) {
  const std::string_view format = buffer.format == nullptr ? "B" : buffer.format;
  constexpr std::string_view native = std::endian::native == std::endian::little ? "<" : ">!";
  std::string_view code = format;
  if (code.size() == 2 && (native.find(code[0]) != std::string_view::npos || code[0] == '@' || code[0] == '=')) {
    code.remove_prefix(1);
  }
  if (code.size() == 2 && std::string_view("<>!").find(code[0]) != std::string_view::npos) {
    fail(what, ": the array has the byte order of another machine (\"", format,
         "\"); convert it: x.astype(x.dtype.newbyteorder(\"=\"))");
  }
  const auto type = code.size() == 1 ? type_of_format(code[0], buffer.itemsize) : std::nullopt;
  if (!type) {
    constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"Zf", "complex64"}, {"Zd", "complex128"}, {"O", "object"}};
    const auto* const known = std::ranges::find(names, format, &std::pair<std::string_view, std::string_view>::first);
    fail(what, ": expected an array of numbers or bools, got elements of ",
         known == std::end(names) ? detail::concat("format \"", format, '"') : std::string(known->second));
  }
  return *type;
}

DType type_of_dlpack(dlpack::Type type, std::string_view what) {
  struct Row {
    int code, bits;
    DType type;
  };
  constexpr Row rows[] = {{dlpack::floating, 32, DType::f32},     {dlpack::floating, 16, DType::f16},
                          {dlpack::bfloat, 16, DType::bf16},      {dlpack::unsigned_int, 8, DType::u8},
                          {dlpack::signed_int, 64, DType::i64},   {dlpack::signed_int, 32, DType::i32},
                          {dlpack::floating, 64, DType::f64},     {dlpack::boolean, 8, DType::boolean},
                          {dlpack::signed_int, 8, DType::i8},     {dlpack::signed_int, 16, DType::i16},
                          {dlpack::unsigned_int, 16, DType::u16}, {dlpack::unsigned_int, 32, DType::u32},
                          {dlpack::unsigned_int, 64, DType::u64}};
  for (const Row& row : rows) {
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.type;
  }
  fail(what, ": elements of DLPack type ", int{type.code}, " with ", int{type.bits}, " bits are not known to Lamina");
}

/// Of what is no lender, the CPU.
dlpack::Device dlpack_device(nb::handle object, std::string_view what) {
  if (!nb::hasattr(object, "__dlpack_device__")) return {dlpack::cpu, 0};
  const nb::object device = asked(what, [&] { return nb::object(object.attr("__dlpack_device__")()); });
  std::pair<int, int> numbers;
  if (!nb::try_cast(device, numbers)) {
    fail(what, ": expected two numbers of __dlpack_device__, got ", nb::repr(device).c_str());
  }
  return {numbers.first, numbers.second};
}

Device device_of_dlpack(dlpack::Device device, std::string_view what) {
  if (device.type == dlpack::cpu || device.type == dlpack::cuda_host) return Device::cpu();
  if (device.type == dlpack::cuda || device.type == dlpack::cuda_managed) return Device::cuda(device.index);
  fail(what, ": the array is on a device of DLPack type ", device.type, "; expected the CPU or CUDA");
}

Shape shape_of(const std::int64_t* extents, int rank, std::string_view what) {
  if (rank < 0 || static_cast<std::size_t>(rank) > Shape::max_rank) {
    fail(what, ": expected at most ", Shape::max_rank, " dimensions, got ", rank);
  }
  return Shape(std::span(extents, static_cast<std::size_t>(rank)));
}

/// Whether the elements lie row by row without gaps; strides in units of `unit`.
template <class Stride>
bool is_contiguous(const Shape& shape, const Stride* strides, std::int64_t unit) {
  if (strides == nullptr || shape.numel() == 0) return true;
  std::int64_t expected = unit;
  for (auto i = static_cast<int>(shape.rank()); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

}  // namespace

bool on_host(nb::handle array, std::string_view what) { return dlpack_device(array, what).type != dlpack::cuda; }

Lent::Lent(nb::handle object, std::string_view what, Access access, cuda::Stream stream) {
  // The destructor does not run if this throws.
  try {
    const bool dlpack = nb::hasattr(object, "__dlpack__");
    if (PyObject_CheckBuffer(object.ptr()) != 0 && borrow_buffer(object, what, access)) return;
    if (dlpack) {
      borrow_dlpack(object, what, access, stream);
    } else {
      const std::string text = detail::concat(what, ": expected an array (of NumPy, PyTorch, or with __dlpack__), got ",
                                              nb::type_name(object.type()).c_str());
      throw nb::type_error(text.c_str());
    }
  } catch (...) {
    release();
    throw;
  }
}

Lent::Lent(Lent&& other) noexcept
    : tensor_(std::move(other.tensor_)),
      buffer_(std::exchange(other.buffer_, {})),
      managed_(std::exchange(other.managed_, nullptr)),
      versioned_(std::exchange(other.versioned_, nullptr)) {}

Lent::~Lent() { release(); }

void Lent::release() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
  if (versioned_ != nullptr && versioned_->deleter != nullptr) versioned_->deleter(versioned_);
}

void Lent::require_usable(std::string_view what, bool contiguous, bool read_only, Access access) const {
  if (!contiguous) {
    fail(what, ": the array ", tensor_.description(),
         " is not contiguous, and Lamina does not copy behind your back: give it numpy.ascontiguousarray(x), or "
         "x.contiguous() in PyTorch");
  }
  if (read_only && access == Access::write) fail(what, ": the array is read-only, results cannot be written to it");
  if (tensor_.numel() != 0 && reinterpret_cast<std::uintptr_t>(tensor_.raw()) % size_of(tensor_.dtype()) != 0) {
    fail(what, ": the array's memory is not aligned to its elements of ", size_of(tensor_.dtype()),
         " bytes; give it a copy");
  }
}

bool Lent::borrow_buffer(nb::handle object, std::string_view what, Access access) {
  // Always read-only: a refusal of ours says more than the exporter's.
  if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_FULL_RO) != 0) {
    buffer_.obj = nullptr;
    const nb::python_error error;
    if (dlpack_device(object, what).type != dlpack::cpu) return false;
    fail(what, ": the array cannot be read: ", error.what());
  }
  const DType type = type_of_buffer(buffer_, what);
  static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
  const Shape shape = shape_of(reinterpret_cast<const std::int64_t*>(buffer_.shape), buffer_.ndim, what);
  tensor_ = Tensor::borrow(buffer_.buf, shape, type);
  require_usable(what, is_contiguous(shape, buffer_.strides, buffer_.itemsize), buffer_.readonly != 0, access);
  return true;
}

void Lent::borrow_dlpack(nb::handle object, std::string_view what, Access access, cuda::Stream stream) {
  const dlpack::Device device = dlpack_device(object, what);
  nb::kwargs arguments = nb::borrow<nb::kwargs>(nb::dict());
  if (device.type == dlpack::cuda) arguments["stream"] = dlpack::stream_number(stream);
  arguments["max_version"] = nb::make_tuple(1, 0);
  const auto lend = [&] { return nb::object(object.attr("__dlpack__")(**arguments)); };
  const nb::object capsule = asked(what, [&] {
    try {
      return lend();
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;
      nb::del(arguments["max_version"]);  // older than the versions
      return lend();
    }
  });
  const dlpack::Array* array = nullptr;
  bool read_only = false;
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned") != 0) {
    versioned_ = static_cast<dlpack::VersionedManaged*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    if (versioned_->version.major != 1) fail(what, ": DLPack ", versioned_->version.major, " is not known to Lamina");
    array = &versioned_->array;
    read_only = (versioned_->flags & dlpack::read_only) != 0;
  } else if (PyCapsule_IsValid(capsule.ptr(), "dltensor") != 0) {
    managed_ = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    array = &managed_->array;
  } else {
    fail(what, ": __dlpack__ returned no DLPack capsule");
  }
  const Shape shape = shape_of(array->shape, array->rank, what);
  const DType type = type_of_dlpack(array->type, what);
  tensor_ = Tensor::borrow(static_cast<std::byte*>(array->data) + array->byte_offset, shape, type,
                           device_of_dlpack(array->device, what));
  require_usable(what, is_contiguous(shape, array->strides, 1), read_only, access);
}

}  // namespace lamina::python
