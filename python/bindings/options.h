#pragma once

#include <nanobind/nanobind.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/images/preprocess.h"
#include "lamina/plan/plan.h"

namespace lamina::python {

namespace nb = nanobind;

/// A value of Python's as a T. Strictly: True is no number and 1.5 no integer, but NumPy's integers are some. Throws
/// TypeError: "batch: expected an integer, got 1.5".
template <class T>
T as(nb::handle value, std::string_view what, std::string_view type) {
  T result{};
  constexpr bool integer = std::is_integral_v<T> && !std::is_same_v<T, bool>;
  nb::object number = nb::borrow(value);
  if (integer && PyIndex_Check(value.ptr()) != 0) number = nb::steal(PyNumber_Index(value.ptr()));
  const bool truth = integer && PyBool_Check(value.ptr()) != 0;
  if (!truth && number.is_valid() && nb::try_cast<T>(number, result, std::is_floating_point_v<T>)) return result;
  PyErr_Clear();
  throw nb::type_error(detail::concat(what, ": expected ", type, ", got ", nb::repr(value).c_str()).c_str());
}

/// The constructor of a class that is made of nothing, which says so where it is given something: .def(OfNothing()).
struct OfNothing : nb::def_visitor<OfNothing> {
  template <class Class, class... Extra>
  void execute(Class& of, const Extra&... /*extra*/) {
    using T = typename Class::Type;
    of.def(
        "__init__",
        [](T* self, const nb::args& more, const nb::kwargs& others) {
          const std::size_t given = more.size() + others.size();
          if (given > 0) throw nb::type_error(detail::concat("expected no arguments, got ", given).c_str());
          new (self) T();
        },
        nb::sig("def __init__(self) -> None"));
  }
};

/// A message in which "OpenOptions::key", as the library says it, is "key" here.
std::string in_pythons_words(std::string text);

/// Python's class of Errors of that kind.
nb::handle error_class(ErrorKind kind);

/// The options of a compilation from keyword arguments: the fields of CompileOptions by their names, the device that of
/// the description, or "auto", if it is not given. `preprocess`, which may be null, is what photos=True means. Throws
/// TypeError for a field that there is not, naming the nearest, and for a value of another type.
CompileOptions options_from(const nb::kwargs& fields, const Preprocess* preprocess);

/// A tuple or list of extents; "N" is the batch, "?" one that is left open, ("...",) any number of them.
Shape shape_from(nb::handle extents);

}  // namespace lamina::python
