// Poolings over any number of dimensions by layers for two: the largest value, the mean and the sum over a box are
// those along one dimension after the other.

#include <algorithm>
#include <limits>
#include <optional>

#include "lamina/base/math.h"
#include "lamina/layers/pool2d.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/rows/windows.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// What becomes of a window: its largest value, its sum, or its mean by the elements that count.
enum class Pooling { largest, sum, mean, mean_with_padding };

Size2d size_of(const Expansion& e, std::int64_t height, std::int64_t width) {
  return {to_int(e, height), to_int(e, width)};
}

/// Whether the layer's windows, with the first padding on both sides, are these; a mean counts the padding.
bool fits_layer(const Window& w, Pooling pooling, bool ceil) {
  const bool alike = pooling == Pooling::largest || (w.begin == w.end && w.dilation == 1);
  return alike && w.begin <= w.extent() / 2 && window_count(w, w.begin, w.begin, ceil) == w.out;
}

std::optional<int> by_layer(Expansion& e, int x, const Window& h, const Window& w, Pooling pooling) {
  if (pooling == Pooling::sum) return std::nullopt;
  for (const bool ceil : {false, true}) {
    if (!fits_layer(h, pooling, ceil) || !fits_layer(w, pooling, ceil)) continue;
    const Size2d kernel = size_of(e, h.kernel, w.kernel), stride = size_of(e, h.stride, w.stride);
    const Size2d padding = size_of(e, h.begin, w.begin);
    if (pooling == Pooling::largest) {
      const Size2d dilation = size_of(e, h.dilation, w.dilation);
      return e.add(
          MaxPool2d({.kernel = kernel, .stride = stride, .padding = padding, .dilation = dilation, .ceil_mode = ceil}),
          {x});
    }
    return e.add(AvgPool2d({.kernel = kernel,
                            .stride = stride,
                            .padding = padding,
                            .ceil_mode = ceil,
                            .count_include_pad = pooling == Pooling::mean_with_padding}),
                 {x});
  }
  return std::nullopt;
}

/// The places that windows see, each window's own one after the other if they are dilated; `after`: windows without
/// padding over them.
Picks seen_places(const Expansion& e, int axis, const Window& w, bool apart, Window& after) {
  if (!apart) {
    after = {.in = w.reach(), .kernel = w.kernel, .stride = w.stride, .dilation = w.dilation, .out = w.out};
    return places_of(e, axis, -w.begin, w.reach(), w.in);
  }
  const auto length = checked_mul(w.out, w.kernel);
  if (!length || *length > longest_list) e.refuse("its windows of ", w.kernel, " are too large");
  after = {.in = *length, .kernel = w.kernel, .stride = w.kernel, .out = w.out};
  Picks result = {.axis = axis, .places = {}};
  for (std::int64_t o = 0; o < w.out; ++o) {
    for (std::int64_t t = 0; t < w.kernel; ++t) {
      const std::int64_t place = o * w.stride + t * w.dilation - w.begin;
      result.places.push_back(place >= 0 && place < w.in ? place : -1);
    }
  }
  return result;
}

/// The kernel's size over the number of elements of each window that count; of a sum, over 1.
std::vector<double> factors(const Window& w, Pooling pooling) {
  std::vector<double> result;
  const bool padding = pooling == Pooling::mean_with_padding;
  const std::int64_t first = padding ? -w.begin : 0, last = padding ? w.in + w.end : w.in;
  for (std::int64_t o = 0; o < w.out; ++o) {
    const std::int64_t at = o * w.stride - w.begin;
    // Elements t of the window with first <= at + t * dilation < last.
    const std::int64_t skipped = at < first ? ceil_div(first - at, w.dilation) : 0;
    const std::int64_t seen = at < last ? std::min(ceil_div(last - at, w.dilation), w.kernel) : 0;
    const auto counted = static_cast<double>(pooling == Pooling::sum ? 1 : std::max<std::int64_t>(seen - skipped, 0));
    result.push_back(counted == 0 ? 0 : static_cast<double>(w.kernel) / counted);
  }
  return result;
}

/// x [N, C, H, W]. Where the layer's padding is not what is wanted, a Move pads.
int pool_image(Expansion& e, int x, const Window& h, const Window& w, Pooling pooling) {
  if (h.kernel == 1 && h.stride == 1 && w.kernel == 1 && w.stride == 1 && h.in == h.out && w.in == w.out &&
      h.begin == 0 && w.begin == 0)
    return x;
  if (const auto pooled = by_layer(e, x, h, w, pooling)) return *pooled;
  const bool largest = pooling == Pooling::largest;
  const double fill = largest ? -std::numeric_limits<double>::infinity() : 0;
  Window height, width;
  const Picks rows = seen_places(e, 2, h, !largest && h.dilation > 1, height);
  const Picks columns = seen_places(e, 3, w, !largest && w.dilation > 1, width);
  const int padded = pick(e, x, {rows, columns}, fill);
  const auto pooled = by_layer(e, padded, height, width, largest ? pooling : Pooling::mean);
  if (!pooled) e.refuse("its windows do not fit ", e.shape(padded));
  if (largest) return *pooled;
  std::vector<double> scales;
  const std::vector<double> of_columns = factors(w, pooling);
  for (const double row : factors(h, pooling)) {
    for (const double column : of_columns) scales.push_back(row * column);
  }
  if (std::ranges::all_of(scales, [&](double scale) { return scale == scales[0]; }))
    return scales[0] == 1 ? *pooled : e.pointwise(Pointwise::mul, *pooled, scales[0]);
  return e.pointwise(Pointwise::mul, {*pooled, constant_of(e, scales, {1, 1, h.out, w.out}, DType::f32)});
}

/// x [N, C, ...] of f32: the last two dimensions together, then each that is before them by itself.
int pool(Expansion& e, int x, const std::vector<Window>& windows, Pooling pooling) {
  const std::size_t count = windows.size();
  const Shape from = e.shape(x);
  std::vector<std::int64_t> to = extents_of(from);
  const Window last = windows[count - 1];
  const Window before = count > 1 ? windows[count - 2] : Window();
  const std::int64_t planes = count > 1 ? count_of(from, 1, static_cast<int>(count)) : from[1];
  x = e.reshape(x, {from[0], planes, before.in, last.in});
  x = pool_image(e, x, before, last, pooling);
  to[count + 1] = last.out;
  if (count > 1) to[count] = before.out;
  for (std::size_t d = count - std::min<std::size_t>(count, 2); d-- > 0;) {
    const Shape now = to_shape(to);
    const auto axis = static_cast<int>(d) + 2;
    const std::int64_t rest = count_of(now, axis + 1, static_cast<int>(now.rank()));
    x = e.reshape(x, {from[0], count_of(now, 1, axis), windows[d].in, rest});
    x = pool_image(e, x, windows[d], {.in = rest, .out = rest}, pooling);
    to[d + 2] = windows[d].out;
  }
  return e.reshape(x, to_shape(to));
}

int max_pool(Expansion& e) {
  const int x = e.input(0);
  const DType dtype = e.dtype(x);
  if (e.attributes().integer("output", 0) != 0) e.lacks("its second output, Indices,");
  e.attributes().integer("storage_order", 0);  // of the indices
  const bool ceil = e.attributes().boolean("ceil_mode", false);
  const std::vector<Window> windows = read_windows(e, e.shape(x), {}, ceil);
  // f32 holds every whole number of 8 bits.
  const bool bytes = dtype == DType::i8 || dtype == DType::u8;
  return e.cast(pool(e, bytes ? e.cast(x, DType::f32) : as_f32(e, x), windows, Pooling::largest), dtype);
}

int average_pool(Expansion& e) {
  const int x = e.input(0);
  const bool ceil = e.attributes().boolean("ceil_mode", false);
  const bool padding = e.attributes().boolean("count_include_pad", false);
  const std::vector<Window> windows = read_windows(e, e.shape(x), {}, ceil);
  return e.cast(pool(e, as_f32(e, x), windows, padding ? Pooling::mean_with_padding : Pooling::mean), e.dtype(x));
}

int lp_pool(Expansion& e) {
  const int x = as_f32(e, e.input(0)), p = e.attributes().integer("p", 2);
  const bool ceil = e.attributes().boolean("ceil_mode", false);
  if (p < 1) e.refuse("expected a p of 1 or more, got ", p);
  const std::vector<Window> windows = read_windows(e, e.shape(x), {}, ceil);
  const int magnitude = p == 2 ? e.pointwise(Pointwise::mul, {x, x}) : e.pointwise(Pointwise::abs, {x});
  const int sum = pool(e, p > 2 ? e.pointwise(Pointwise::pow, magnitude, p) : magnitude, windows, Pooling::sum);
  const int root = p == 1   ? sum
                   : p == 2 ? e.pointwise(Pointwise::sqrt, {sum})
                            : e.pointwise(Pointwise::pow, sum, 1.0 / p);
  return e.cast(root, e.dtype(e.input(0)));
}

/// One extent of the output for each spatial dimension.
std::vector<std::int64_t> output_size(Expansion& e, const Shape& x) {
  if (x.rank() < 3) e.refuse("expected an operand [N, C, ...] with spatial dimensions, got ", x);
  std::vector<std::int64_t> size = e.attributes().integers("output_size", {});
  if (size.size() == 1) size.resize(x.rank() - 2, size[0]);
  if (size.size() != x.rank() - 2) e.refuse("expected ", x.rank() - 2, " numbers as output_size, got ", size.size());
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (size[d] < 1 || size[d] > longest_list) e.refuse("cannot have an output_size of ", size[d]);
    if (x.extents()[d + 2] < 1 || x.extents()[d + 2] > longest_list) e.refuse("cannot be of an operand ", x);
  }
  return size;
}

int adaptive_average(Expansion& e) {
  const int operand = e.input(0);
  const Shape from = e.shape(operand);
  const std::vector<std::int64_t> size = output_size(e, from);
  std::vector<std::int64_t> to = extents_of(from);
  int x = as_f32(e, operand);
  for (std::size_t d = size.size(); d-- > 0;) {
    // Two dimensions at a time as long as there are two.
    const bool two = d + 1 == size.size() && d > 0;
    const std::size_t first = two ? d - 1 : d;
    const Shape now = to_shape(to);
    const int axis = static_cast<int>(first) + 2;
    const std::int64_t rest = count_of(now, axis + 1, static_cast<int>(now.rank()));
    x = e.reshape(x, {from[0], count_of(now, 1, axis), now[axis], rest});
    x = e.add(AdaptiveAvgPool2d({to_int(e, size[first]), to_int(e, two ? size[d] : rest)}), {x});
    for (std::size_t done = first; done <= d; ++done) to[done + 2] = size[done];
    d = first;
  }
  return e.cast(e.reshape(x, to_shape(to)), e.dtype(operand));
}

/// Where windows are of different sizes, the last element of a shorter one is seen again.
int adaptive_max(Expansion& e) {
  const int operand = e.input(0);
  const Shape from = e.shape(operand);
  const std::vector<std::int64_t> size = output_size(e, from);
  std::vector<Picks> picks;
  std::vector<Window> windows;
  if (e.attributes().integer("output", 0) != 0) e.lacks("its second output, the indices,");
  for (std::size_t d = 0; d < size.size(); ++d) {
    const std::int64_t in = from.extents()[d + 2], out = size[d];
    if (in % out == 0) {
      windows.push_back({.in = in, .kernel = in / out, .stride = in / out, .out = out});
      continue;
    }
    const auto first = [&](std::int64_t i) { return i * in / out; };
    const auto end = [&](std::int64_t i) { return ceil_div((i + 1) * in, out); };
    std::int64_t longest = 0;
    for (std::int64_t i = 0; i < out; ++i) longest = std::max(longest, end(i) - first(i));
    if (longest * out > longest_list) e.refuse("its windows are too large");
    Picks one = {.axis = static_cast<int>(d) + 2, .places = {}};
    for (std::int64_t i = 0; i < out; ++i) {
      for (std::int64_t t = 0; t < longest; ++t) one.places.push_back(std::min(first(i) + t, end(i) - 1));
    }
    picks.push_back(std::move(one));
    windows.push_back({.in = out * longest, .kernel = longest, .stride = longest, .out = out});
  }
  int x = as_f32(e, operand);
  if (!picks.empty()) x = pick(e, x, picks);
  return e.cast(pool(e, x, windows, Pooling::largest), e.dtype(operand));
}

constexpr OpRow pool_rows[] = {{"AdaptiveAvgPool", adaptive_average},
                               {"AdaptiveMaxPool", adaptive_max},
                               {"AveragePool", average_pool},
                               {"LpPool", lp_pool},
                               {"MaxPool", max_pool}};

}  // namespace

std::span<const OpRow> pool_ops() { return pool_rows; }

}  // namespace lamina::detail
