#include "result.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "dlpack.h"
#include "gil.h"
#include "lamina/base/error.h"
#include "lent.h"

namespace lamina::python {
namespace {

/// What a lent tensor's borrower has to give back.
template <class Managed>
struct Loan {
  Managed managed{};
  Result result;
  std::array<std::int64_t, Shape::max_rank> strides{};
};

dlpack::Type type_of(DType type) {
  using enum DType;
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  const auto code = [&]() -> std::uint8_t {
    switch (type) {
      case boolean: return dlpack::boolean;
      case bf16: return dlpack::bfloat;
      case f16:
      case f32:
      case f64: return dlpack::floating;
      case i8:
      case i16:
      case i32:
      case i64: return dlpack::signed_int;
      case u8:
      case u16:
      case u32:
      case u64: return dlpack::unsigned_int;
    }
    return 0;
  };
  return {code(), bits, 1};
}

dlpack::Device device_of(Device device) { return {device.is_cpu() ? dlpack::cpu : dlpack::cuda, device.index}; }

template <class Managed>
nb::object lend(const Result& result, const char* name) {
  auto loan = std::make_unique<Loan<Managed>>();
  loan->result = result;
  const Shape& shape = loan->result.tensor.shape();
  std::int64_t stride = 1;
  for (auto i = static_cast<int>(shape.rank()); i-- > 0;) {
    loan->strides[static_cast<std::size_t>(i)] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  Managed& managed = loan->managed;
  managed.context = loan.get();
  managed.deleter = [](Managed* m) { delete static_cast<Loan<Managed>*>(m->context); };
  managed.array = {.data = loan->result.tensor.raw(),
                   .device = device_of(result.tensor.device()),
                   .rank = static_cast<std::int32_t>(shape.rank()),
                   .type = type_of(result.tensor.dtype()),
                   .shape = const_cast<std::int64_t*>(shape.begin()),  // the protocol's struct has no const
                   .strides = loan->strides.data(),
                   .byte_offset = 0};
  if constexpr (requires { managed.version; }) {
    managed.version = {1, 0};
    managed.flags = result.read_only ? dlpack::read_only : 0;
  }
  // A capsule that was taken has another name then, and its borrower calls the deleter.
  PyObject* capsule = PyCapsule_New(&managed, name, [](PyObject* c) {
    const char* own = std::is_same_v<Managed, dlpack::Managed> ? "dltensor" : "dltensor_versioned";
    if (PyCapsule_IsValid(c, own) == 0) return;
    auto* taken = static_cast<Managed*>(PyCapsule_GetPointer(c, own));
    taken->deleter(taken);
  });
  if (capsule == nullptr) throw nb::python_error();
  (void)loan.release();
  return nb::steal(capsule);
}

nb::object to_dlpack(const Result& self, nb::object stream, nb::object max_version, nb::object device,
                     nb::object copy) {
  const dlpack::Device here = device_of(self.tensor.device());
  if (!device.is_none() && !device.equal(nb::make_tuple(here.type, here.index))) {
    throw nb::buffer_error("lamina.Tensor: it can be lent on its own device only");
  }
  if (!copy.is_none() && nb::cast<bool>(copy)) throw nb::buffer_error("lamina.Tensor: it is lent, not copied");
  if (self.ready != nullptr) {
    // None is the default stream, -1 wants no order at all.
    const auto number = stream.is_none() ? 1 : nb::cast<std::intptr_t>(stream);
    if (number != -1) self.ready->hold(number == 1 ? nullptr : reinterpret_cast<void*>(number));
  } else if (self.tensor.device().is_cpu() && !stream.is_none() && nb::cast<std::intptr_t>(stream) != -1) {
    throw nb::buffer_error("lamina.Tensor: it is on the CPU, where stream has to be None");
  }
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  if (!versioned && self.read_only) throw nb::buffer_error("lamina.Tensor: read-only memory needs DLPack 1.0");
  return versioned ? lend<dlpack::VersionedManaged>(self, "dltensor_versioned")
                   : lend<dlpack::Managed>(self, "dltensor");
}

nb::dict cuda_array_interface(const Result& self) {
  if (self.tensor.device().is_cpu()) throw nb::attribute_error("lamina.Tensor: not on a GPU");
  const dlpack::Type type = type_of(self.tensor.dtype());
  constexpr std::string_view kinds = "iuf?V?b";  // by the type's code; CUDA's interface has no bfloat16
  if (type.code == dlpack::bfloat) throw nb::attribute_error("lamina.Tensor: bfloat16 goes by __dlpack__ only");
  nb::dict result;
  result["shape"] = to_python(self.tensor.shape());
  result["typestr"] = detail::concat(type.bits == 8 ? '|' : '<', kinds[type.code], type.bits / 8);
  result["data"] = nb::make_tuple(reinterpret_cast<std::uintptr_t>(self.tensor.raw()), self.read_only);
  result["strides"] = nb::none();
  result["version"] = 3;
  result["stream"] = self.ready == nullptr ? nb::none() : nb::object(nb::int_(dlpack::stream_number(self.stream)));
  return result;
}

nb::object to_numpy(const Result& self) {
  Result host = {.tensor = self.tensor, .read_only = self.read_only && self.tensor.device().is_cpu()};
  if (self.tensor.device().is_cuda()) {
    const WithoutGil release;
    if (self.ready != nullptr) self.ready->synchronize();
    host.tensor = self.tensor.to(Device::cpu());
  }
  if (host.tensor.dtype() == DType::bf16) host = {.tensor = host.tensor.to(DType::f32)};  // NumPy has no bf16
  return to_python(std::move(host));
}

/// As other libraries have it, not of memory of a GPU: that takes a copy, which is asked for.
nb::object as_array(const Result& self, nb::handle dtype, nb::handle copy) {
  if (self.tensor.device().is_cuda()) throw nb::type_error("lamina.Tensor: it is on a GPU; t.numpy() copies it");
  const nb::object array = to_numpy(self);
  if (dtype.is_none() && copy.is_none()) return array;
  const bool copied = !copy.is_none() && nb::cast<bool>(copy);
  return nb::module_::import_("numpy").attr(copied ? "array" : "asarray")(array, dtype);
}

DType dtype_named(const std::string& text) {
  const auto type = find_dtype(text);
  if (!type) detail::fail("dtype: expected f32, u8, i64, ..., got \"", text, '"');
  return *type;
}

/// An array's memory, which stays lent as long as the tensor lives.
Result tensor_of(nb::handle array) {
  std::shared_ptr<Lent> lent(new Lent(array, "array", Lent::Access::read), [](Lent* p) {
    const WithGil gil;
    if (gil.held()) delete p;
  });
  const Tensor& tensor = lent->tensor();
  const bool read_only = lent->read_only();
  void* data = const_cast<void*>(tensor.raw());  // read_only says whether it may be written to
  return {.tensor = Tensor::borrow(data, tensor.shape(), tensor.dtype(), tensor.device(), lent),
          .read_only = read_only};
}

void copy_into(Result& self, nb::handle array) {
  if (self.read_only) detail::fail("copy_into: ", self.tensor.description(), " is read-only");
  const Lent lent(array, "copy_into", Lent::Access::read);
  const WithoutGil release;
  if (self.ready != nullptr) self.ready->synchronize();
  self.tensor.copy_from(lent.tensor());
}

}  // namespace

nb::tuple to_python(const Shape& shape) {
  nb::list extents;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      extents.append(extent == batch ? "N" : extent == open ? "?" : "...");
    } else {
      extents.append(extent);
    }
  }
  return nb::tuple(extents);
}

nb::tuple to_python(std::span<const Shape> shapes) {
  nb::list list;
  for (const Shape& shape : shapes) list.append(to_python(shape));
  return nb::tuple(list);
}

nb::object to_python(Result result) {
  Tensor tensor = result.tensor;
  const bool read_only = result.read_only;
  nb::object owner = nb::cast(std::move(result));
  if (tensor.device().is_cuda() || tensor.dtype() == DType::bf16) return owner;
  // Not numpy.from_dlpack, whose arrays are read-only before NumPy 2.1.
  const dlpack::Type type = type_of(tensor.dtype());
  const std::vector<std::size_t> extents(tensor.shape().begin(), tensor.shape().end());
  const nb::dlpack::dtype elements = {type.code, type.bits, type.lanes};
  const auto array = [&]<class... Options>() {
    return nb::cast(
        nb::ndarray<nb::numpy, Options...>(tensor.raw(), extents.size(), extents.data(), owner, nullptr, elements));
  };
  return read_only ? array.template operator()<nb::ro>() : array.template operator()<>();
}

void bind_result(nb::module_& m) {
  nb::class_<Result>(
      m, "Tensor",
      "What a plan computes on a GPU: torch.from_dlpack(t), cupy.asarray(t) or jax's from_dlpack share its "
      "memory,\nand the stream that they use it on waits for the plan. t.numpy() copies it to the host.")
      .def_prop_ro(
          "shape", [](const Result& self) { return to_python(self.tensor.shape()); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro(
          "dtype", [](const Result& self) { return std::string(name(self.tensor.dtype())); },
          "The type of the elements: \"f32\", \"f16\", \"bf16\", ...")
      .def_prop_ro(
          "device", [](const Result& self) { return to_string(self.tensor.device()); }, "cpu, cuda:0, ...")
      .def("numpy", &to_numpy, nb::sig("def numpy(self) -> typing.Any"),
           "The elements as a NumPy array; copied, when they are computed, from a GPU. Those of bf16 become float32.")
      .def("__array__", &as_array, nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __array__(self, dtype: typing.Any = None, copy: bool | None = None) -> typing.Any"))
      .def("__dlpack__", &to_dlpack, nb::kw_only(), nb::arg("stream") = nb::none(), nb::arg("max_version") = nb::none(),
           nb::arg("dl_device") = nb::none(), nb::arg("copy") = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, "
                   "dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> typing.Any"))
      .def(
          "__dlpack_device__",
          [](const Result& self) {
            const dlpack::Device device = device_of(self.tensor.device());
            return nb::make_tuple(device.type, device.index);
          },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def_prop_ro("__cuda_array_interface__", &cuda_array_interface,
                   nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"))
      .def("__repr__", [](const Result& self) { return "lamina.Tensor(" + self.tensor.description() + ')'; });
}

void bind_tensors(nb::module_& m) {
  m.def("tensor_of", &tensor_of, nb::arg("array"), nb::sig("def tensor_of(array: typing.Any) -> Tensor"));
  m.def(
      "new_tensor",
      [](const std::vector<std::int64_t>& shape, const std::string& dtype, const std::string& device) {
        return Result{.tensor = Tensor(Shape(shape), dtype_named(dtype), parse_device(device))};
      },
      nb::arg("shape"), nb::arg("dtype"), nb::arg("device"), "Whose elements are not set.");
  m.def(
      "tensor_at",
      [](std::uintptr_t address, const std::vector<std::int64_t>& shape, const std::string& dtype,
         const std::string& device) {
        return Result{.tensor = Tensor::borrow(reinterpret_cast<void*>(address), Shape(shape), dtype_named(dtype),
                                               parse_device(device))};
      },
      nb::arg("address"), nb::arg("shape"), nb::arg("dtype"), nb::arg("device"), "Memory that somebody else keeps.");
  m.def(
      "address_of", [](const Result& tensor) { return reinterpret_cast<std::uintptr_t>(tensor.tensor.raw()); },
      nb::arg("tensor"));
  m.def("copy_into", &copy_into, nb::arg("tensor"), nb::arg("array"),
        nb::sig("def copy_into(tensor: Tensor, array: typing.Any) -> None"));
  m.def(
      "synchronize",
      [](const std::string& device, std::uintptr_t stream) {
        const Device place = parse_device(device);
        if (place.is_cpu()) return;
        const WithoutGil release;
        cuda::synchronize(place.index, reinterpret_cast<cuda::Stream>(stream));
      },
      nb::arg("device"), nb::arg("stream") = 0, "Waits for what was enqueued on a stream.");
}

}  // namespace lamina::python
