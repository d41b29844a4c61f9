#include "lamina/plan/not_finite.h"

#include <algorithm>

#include "lamina/base/error.h"

namespace lamina::detail {

std::string not_finite(const Plan& plan, std::span<const Tensor> outputs, std::vector<bool>& said, std::int64_t most) {
  const auto odd_of = [](const Tensor& output, std::int64_t count) {
    // Numbers that are not finite have an exponent of ones alone.
    const auto odd = [&]<class Word>(Word least) {
      const auto* const words = static_cast<const Word*>(output.raw());
      std::uint32_t sum = 0;  // no wider than the numbers themselves, so that compilers vectorise the loop
      for (std::int64_t i = 0; i < count; ++i) sum += static_cast<Word>(words[i] << 1) >= least;
      return sum;
    };
    if (output.dtype() == DType::f32) return odd(std::uint32_t{0xff000000u});
    return odd(static_cast<std::uint16_t>(output.dtype() == DType::f16 ? 0xf800u : 0xff00u));
  };
  std::string text;
  said.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    if (said[i] || !is_activation(output.dtype()) || !output.device().is_cpu()) continue;
    if (odd_of(output, std::min(output.numel(), most)) == 0) continue;
    said[i] = true;
    text += concat(text.empty() ? "" : "; ", plan.output_names()[i], ": ", odd_of(output, output.numel()), " of its ",
                   output.numel(), " numbers are NaN or infinite");
  }
  const Precision precision = plan.options().precision;
  if (text.empty() || precision == Precision::fp32) return text;
  return concat(text, " in ", name(precision), "; CompileOptions::precision fp32 may do");
}

}  // namespace lamina::detail
