#include "lamina/plan/not_finite.h"

#include <algorithm>
#include <bit>

#include "lamina/base/error.h"

namespace lamina::detail {

std::string not_finite(const Plan& plan, std::span<const Tensor> outputs, std::vector<bool>& said, std::int64_t most) {
  const auto odd_of = [](const Tensor& output, std::int64_t count) {
    const auto first = Tensor::borrow(const_cast<void*>(output.raw()), {count}, output.dtype()).to(DType::f32);
    std::uint32_t odd = 0;  // as wide as what is looked at: compilers make vectors of it
    // An exponent of ones alone.
    for (const float value : first.values<float>()) odd += std::bit_cast<std::uint32_t>(value) << 1 >= 0xff000000u;
    return odd;
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
