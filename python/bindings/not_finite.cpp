#include "not_finite.h"

#include <nanobind/stl/string.h>

#include "lamina/plan/not_finite.h"
#include "options.h"

namespace lamina::python {
namespace {

namespace nb = nanobind;

PyObject* category = nullptr;

}  // namespace

std::string NotFinite::found(const Plan& plan, std::span<const Tensor> outputs) {
  return in_pythons_words(detail::not_finite(plan, outputs, said_, 1 << 16));
}

void NotFinite::warn(const std::string& text) {
  nb::module_::import_("lamina._warnings").attr("warn")(text, nb::handle(category));
}

void bind_not_finite(nb::module_& m) {
  // Of the module by the name that it has at hand: stubs are made of it outside the package.
  const std::string name = nb::cast<std::string>(m.attr("__name__")) + ".NotFiniteWarning";
  category = PyErr_NewExceptionWithDoc(
      name.c_str(), "An answer has numbers that are NaN or infinite: said once of each output of a plan.",
      PyExc_RuntimeWarning, nullptr);
  m.attr("NotFiniteWarning") = nb::borrow(category);
}

}  // namespace lamina::python
