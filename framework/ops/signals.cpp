// Fourier transforms, which are products with a matrix, and windows.

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lamina/ops/parts.h"
#include "lamina/ops/rows/products.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

struct Transform {
  std::int64_t length = 0;
  bool inverse = false, onesided = false;
};

/// Of `taken` elements of `parts` each, one or two, what every output's parts take: [taken * parts, outputs * 2], of an
/// inverse of one side [.., outputs].
Tensor matrix_of(const Transform& t, std::int64_t taken, std::int64_t parts, std::int64_t outputs, std::int64_t wide) {
  Tensor matrix = Tensor::zeros({taken * parts, outputs * wide});
  const std::span<float> values = matrix.values<float>();
  const auto length = static_cast<double>(t.length);
  for (std::int64_t row = 0; row < taken * parts; ++row) {
    const std::int64_t place = row / parts;
    const bool twice = wide == 1 && place > 0 && 2 * place != t.length;  // it stands for its mirror image too
    for (std::int64_t column = 0; column < outputs * wide; ++column) {
      const auto turns = static_cast<double>(place * (column / wide) % t.length) / length;
      const double angle = (t.inverse ? 2 : -2) * std::numbers::pi * turns;
      const bool imaginary = row % parts != 0, into_imaginary = column % wide != 0;
      const double factor = imaginary == into_imaginary ? std::cos(angle)
                            : imaginary                 ? -std::sin(angle)
                                                        : std::sin(angle);
      values[static_cast<std::size_t>(row * outputs * wide + column)] =
          static_cast<float>(factor * (twice ? 2 : 1) / (t.inverse ? length : 1));
    }
  }
  return matrix;
}

/// Along an axis of x [..., 1 or 2].
int transform(Expansion& e, int x, int axis, const Transform& t) {
  const Shape from = e.shape(x);
  const int last = e.rank(x) - 1;
  if (axis >= last || from[last] < 1 || from[last] > 2) e.refuse("expected an operand [..., 1 or 2], got ", from);
  const bool real = t.inverse && t.onesided;
  const std::int64_t side = t.length / 2 + 1, outputs = t.onesided && !real ? side : t.length, wide = real ? 1 : 2;
  const std::int64_t taken = std::min(from[axis], real ? side : t.length);
  if (t.length < 1 || taken < 1 || t.length > longest_list || 4 * taken > longest_list / outputs)
    e.refuse("cannot transform ", from[axis], " elements by a length of ", t.length);
  std::vector<int> order;
  for (int d = 0; d < last; ++d) {
    if (d != axis) order.push_back(d);
  }
  order.insert(order.end(), {axis, last});
  const int turned = e.permute(e.slice(x, axis, 0, taken), order);
  std::vector<std::int64_t> to = extents_of(e.shape(turned));
  const int rows = e.reshape(turned, {from.numel() / (from[axis] * from[last]), taken * from[last]});
  const int matrix = e.constant_node(matrix_of(t, taken, from[last], outputs, wide));
  to[static_cast<std::size_t>(last) - 1] = outputs, to[static_cast<std::size_t>(last)] = wide;
  std::vector<int> back(order.size());
  for (std::size_t d = 0; d < order.size(); ++d) back[static_cast<std::size_t>(order[d])] = static_cast<int>(d);
  return e.cast(e.permute(e.reshape(matmul(e, rows, matrix), to_shape(to)), back), e.dtype(e.input(0)));
}

int dft(Expansion& e) {
  const int x = as_f32(e, e.input(0)), axis = e.axis_of(e.has(2) ? e.integers(2).at(0) : -2, e.rank(x));
  Transform t = {.inverse = e.attributes().boolean("inverse", false),
                 .onesided = e.attributes().boolean("onesided", false)};
  const std::int64_t extent = e.shape(x)[axis];
  t.length = e.has(1) ? e.integers(1).at(0) : t.inverse && t.onesided ? 2 * (extent - 1) : extent;
  return transform(e, x, axis, t);
}

/// Frames of a signal [N, L] or [N, L, 1 or 2], each times a window.
int stft(Expansion& e) {
  int x = as_f32(e, e.input(0));
  if (e.rank(x) == 2) x = e.reshape(x, {e.shape(x)[0], e.shape(x)[1], 1});
  const Shape from = e.shape(x);
  const std::int64_t step = e.integers(1).at(0);
  const std::int64_t length = e.has(3) ? e.integers(3).at(0) : e.has(2) ? e.shape(e.input(2)).numel() : 0;
  if (from.rank() != 3 || step < 1 || length < 1 || length > from[1])
    e.refuse("cannot take frames of ", length, ", ", step, " apart, of a signal ", from);
  const Shape to = {from[0], 1 + (from[1] - length) / step, length, from[2]};
  int frames = e.move(x,
                      {.axes = {{.extent = to[0], .stride = from[1] * from[2]},
                                {.extent = to[1], .stride = std::min(step, from[1]) * from[2]},
                                {.extent = to[2], .stride = from[2]},
                                {.extent = to[3], .stride = 1}}},
                      to);
  if (e.has(2)) {
    if (e.shape(e.input(2)) != Shape{length}) e.refuse("expected a window [", length, "], got ", e.shape(e.input(2)));
    frames = e.pointwise(Pointwise::mul, {frames, e.reshape(as_f32(e, e.input(2)), {length, 1})});
  }
  return transform(e, frames, 2, {.length = length, .onesided = e.attributes().boolean("onesided", true)});
}

/// a - b cos(2 pi i / n) + c cos(4 pi i / n); n is the size, or one less where it is not one of several periods.
template <int a, int b, int c, int of>
int window(Expansion& e) {
  const std::int64_t size = e.integers(0).at(0);
  if (size < 1 || size > longest_list) e.refuse("cannot have a window of ", size);
  const bool periodic = e.attributes().boolean("periodic", true);
  const auto period = static_cast<double>(std::max<std::int64_t>(periodic ? size : size - 1, 1));
  std::vector<double> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values.push_back((a - b * std::cos(angle) + c * std::cos(2 * angle)) / of);
  }
  const DType dtype = onnx_dtype(e.op(), e.attributes().integer("output_datatype", 1));
  return e.cast(e.constant_node(Tensor::from(values, {size})), dtype);
}

constexpr OpRow signal_rows[] = {{"BlackmanWindow", window<42, 50, 8, 100>},
                                 {"DFT", dft},
                                 {"HammingWindow", window<25, 21, 0, 46>},
                                 {"HannWindow", window<1, 1, 0, 2>},
                                 {"STFT", stft}};

}  // namespace

std::span<const OpRow> signal_ops() { return signal_rows; }

}  // namespace lamina::detail
