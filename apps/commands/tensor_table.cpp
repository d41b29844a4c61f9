#include "commands/tensor_table.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lamina/base/text_table.h"

namespace lamina::app {

std::vector<std::string> Statistics::cells() const {
  if (finite == 0) return {"", "", odd > 0 ? "all non-finite" : "empty"};
  std::string text = fmt::format("{:.4g}", mean());
  if (odd > 0) text += fmt::format(" ({} non-finite)", odd);
  return {fmt::format("{:.4g}", low), fmt::format("{:.4g}", high), text};
}

std::optional<Statistics> statistics(const Weights& weights, const TensorInfo& info) {
  Tensor tensor;
  try {
    tensor = weights.at(info.name).to(DType::f64);
  } catch (const Error&) {
    return std::nullopt;
  }
  Statistics result;
  for (const double value : tensor.values<double>()) {
    if (!std::isfinite(value)) {
      ++result.odd;
      continue;
    }
    ++result.finite;
    result.low = std::min(result.low, value);
    result.high = std::max(result.high, value);
    result.sum += value;
  }
  return result;
}

void print_tensors(const Weights& weights) {
  detail::TextTable table({"tensor", "dtype", "shape", "bytes", "min", "max", "mean"});
  std::uint64_t bytes = 0;
  for (const TensorInfo& info : weights.entries()) {
    const auto known = statistics(weights, info);
    const std::vector<std::string> s = known ? known->cells() : std::vector<std::string>{"", "", "(listed only)"};
    table.add({info.name, info.dtype, fmt::format("[{}]", fmt::join(info.shape, ", ")),
               detail::format_count(static_cast<std::int64_t>(info.bytes)), s[0], s[1], s[2]});
    bytes += info.bytes;
  }
  table.add_total({"total", "", "", detail::format_count(static_cast<std::int64_t>(bytes)), "", "", ""});
  fmt::print("{}", table.to_string());
}

}  // namespace lamina::app
