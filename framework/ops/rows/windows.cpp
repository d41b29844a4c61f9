#include "lamina/ops/rows/windows.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/ops/parts.h"

namespace lamina::detail {
namespace {

struct Padding {
  std::int64_t begin = 0, end = 0;
};

/// Outputs of ceil(in / stride), the padding that this takes on both sides.
Padding same_padding(const Window& w, bool upper) {
  const std::int64_t out = ceil_div(w.in, w.stride);
  const std::int64_t total = std::max<std::int64_t>((out - 1) * w.stride + w.extent() - w.in, 0);
  return upper ? Padding{total / 2, total - total / 2} : Padding{total - total / 2, total / 2};
}

}  // namespace

std::int64_t window_count(const Window& w, std::int64_t begin, std::int64_t end, bool ceil) {
  const std::int64_t room = w.in + begin + end - w.extent();
  if (room < 0) return ceil && -room < w.stride && begin + w.in > 0 ? 1 : 0;
  const std::int64_t whole = room / w.stride + 1;
  const bool more = ceil && room % w.stride != 0 && whole * w.stride < w.in + begin;
  return more ? whole + 1 : whole;
}

std::vector<std::int64_t> spatial_numbers(Expansion& e, std::string_view name, std::size_t count, std::int64_t fallback,
                                          std::int64_t least) {
  const std::vector<std::int64_t> none(count, fallback);
  std::vector<std::int64_t> values = e.attributes().integers(name, none);
  if (values.empty()) values = none;
  if (values.size() != count) e.refuse("expected ", count, " numbers as ", name, ", got ", values.size());
  for (const std::int64_t value : values) {
    if (value < least || value > largest_window) e.refuse("cannot have ", name, " of ", value);
  }
  return values;
}

std::string read_auto_pad(Expansion& e) {
  std::string text = e.attributes().text("auto_pad", "NOTSET");
  if (text.empty()) return "NOTSET";
  require_one_of(e, "auto_pad", text, {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"});
  return text;
}

std::vector<Window> read_windows(Expansion& e, const Shape& x, std::vector<std::int64_t> kernel, bool ceil) {
  if (x.rank() < 3) e.refuse("expected an operand [N, C, ...] with spatial dimensions, got ", x);
  const std::size_t count = x.rank() - 2;
  if (!kernel.empty() || e.attributes().has("kernel_shape")) {
    const std::vector<std::int64_t> stated = e.attributes().integers("kernel_shape", kernel);
    if (kernel.empty()) kernel = stated;
    if (stated != kernel && !stated.empty()) e.refuse("kernel_shape is not that of the weights");
  }
  if (kernel.size() != count) e.refuse("expected a kernel of ", count, " dimensions, got ", kernel.size());
  const auto strides = spatial_numbers(e, "strides", count, 1, 1);
  const auto dilations = spatial_numbers(e, "dilations", count, 1, 1);
  const auto pads = spatial_numbers(e, "pads", 2 * count, 0, 0);
  const std::string automatic = read_auto_pad(e);
  const bool upper = automatic == "SAME_UPPER", same = upper || automatic == "SAME_LOWER";

  std::vector<Window> windows;
  for (std::size_t d = 0; d < count; ++d) {
    Window w = {.in = x.extents()[d + 2], .kernel = kernel[d], .stride = strides[d], .dilation = dilations[d]};
    if (w.kernel < 1 || w.kernel > largest_window) e.refuse("cannot have a kernel of ", w.kernel);
    if (w.in < 1) e.refuse("there is nothing in an operand ", x);
    if (w.in > std::int64_t{1} << 40) e.refuse("an operand ", x, " is too large");
    const Padding padding = same                   ? same_padding(w, upper)
                            : automatic == "VALID" ? Padding{}
                                                   : Padding{pads[d], pads[d + count]};
    w.begin = padding.begin;
    w.end = padding.end;
    w.out = window_count(w, w.begin, w.end, ceil && !same && automatic != "VALID");
    if (w.out < 1)
      e.refuse("a kernel of ", w.extent(), " is larger than the padded extent ", w.in + w.begin + w.end, " (operand ",
               x, ')');
    windows.push_back(w);
  }
  return windows;
}

}  // namespace lamina::detail
