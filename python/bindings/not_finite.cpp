#include "not_finite.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "lamina/base/error.h"
#include "lamina/graph/scores.h"

namespace lamina::python {
namespace {

namespace nb = nanobind;

PyObject* category = nullptr;

/// Numbers with all bits of the exponent set are NaN or infinite: one more carries into the sign.
template <class Word>
bool begins_finite(const Tensor& numbers, unsigned exponent) {
  const auto* words = static_cast<const Word*>(numbers.raw());
  const auto count = static_cast<std::size_t>(std::min<std::int64_t>(numbers.numel(), 1 << 16));
  const unsigned one = exponent & (0 - exponent);
  Word carried = 0;
  for (std::size_t i = 0; i < count; ++i) carried |= static_cast<Word>((words[i] & exponent) + one);
  return carried <= exponent;
}

bool begins_finite(const Tensor& numbers) {
  if (!numbers.device().is_cpu()) return true;
  if (numbers.dtype() == DType::f32) return begins_finite<std::uint32_t>(numbers, 0x7F800000);
  if (numbers.dtype() == DType::f16) return begins_finite<std::uint16_t>(numbers, 0x7C00);
  return numbers.dtype() != DType::bf16 || begins_finite<std::uint16_t>(numbers, 0x7F80);
}

std::string not_finite(std::span<const std::string> names, std::span<const Tensor> outputs) {
  const Tensor numbers = outputs[0].to(DType::f32);
  const auto odd = std::ranges::count_if(numbers.values<float>(), [](float value) { return !std::isfinite(value); });
  return detail::concat(names[0], ": ", odd, " of its ", numbers.numel(), " numbers are NaN or infinite");
}

}  // namespace

std::string NotFinite::found(const Plan& plan, std::span<const Tensor> outputs) {
  std::string text;
  said_.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (said_[i] || begins_finite(outputs[i])) continue;
    said_[i] = true;
    text += (text.empty() ? "" : "; ") + not_finite(plan.output_names().subspan(i, 1), outputs.subspan(i, 1));
  }
  const Precision precision = plan.options().precision;
  if (text.empty() || precision == Precision::fp32) return text;
  return detail::concat(text, " in ", name(precision), "; precision=\"fp32\" may do");
}

void NotFinite::warn(const std::string& text) {
  if (PyErr_WarnEx(category, text.c_str(), 1) != 0) throw nb::python_error();
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
