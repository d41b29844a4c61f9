// Normalisations: elements less their mean, over their spread.

#include <algorithm>
#include <cmath>

#include "lamina/layers/batch_norm2d.h"
#include "lamina/layers/local_response_norm.h"
#include "lamina/layers/softmax.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// [N, C, ...] as [N, C, H, W], which layers for pictures take; rank 1 is [N] of one channel.
int as_image(Expansion& e, int x) {
  const Shape shape = e.shape(x);
  const int rank = e.rank(x);
  if (rank < 1) e.refuse("expected an operand [N, C, ...], got ", shape);
  if (rank == 4) return x;
  if (rank == 1) return e.reshape(x, {shape[0], 1, 1, 1});
  return e.reshape(x, {shape[0], shape[1], count_of(shape, 2, rank), 1});
}

/// By x's own mean and variance, as in training: so exporters write weights that are standardised. In double precision,
/// rounded once.
int by_own_statistics(Expansion& e, int x, double eps) {
  if (!e.known(x).defined()) e.refuse("training_mode: Lamina does not train, and normalises so what is constant only");
  const Shape shape = e.shape(x);
  if (shape.rank() < 1) e.refuse("expected an operand [N, C, ...], got ", shape);
  const std::int64_t channels = shape.rank() > 1 ? shape[1] : 1,
                     inner = shape.rank() > 2 ? count_of(shape, 2, e.rank(x)) : 1;
  for (const int i : {1, 2}) {
    if (e.shape(e.input(i)) != Shape{channels})
      e.refuse("expected operand ", i + 1, " of shape [", channels, "], got ", e.shape(e.input(i)));
  }
  const std::vector<double> scale = e.numbers(1), bias = e.numbers(2);
  std::vector<double> values = to_numbers(e.known(x)), mean(scale.size()), variance(scale.size());
  const auto count = static_cast<double>(values.size() / std::max<std::size_t>(scale.size(), 1));
  const auto each = [&](const auto& f) {
    for (std::size_t i = 0, row = 0; i < values.size(); ++row) {
      for (std::int64_t k = 0; k < inner; ++k) f(values[i++], row % scale.size());
    }
  };
  each([&](double value, std::size_t c) { mean[c] += value / count; });
  each([&](double& value, std::size_t c) {
    value -= mean[c];
    variance[c] += value * value / count;
  });
  each([&](double& value, std::size_t c) { value = value / std::sqrt(variance[c] + eps) * scale[c] + bias[c]; });
  return constant_of(e, values, shape, e.dtype(x));
}

int batch_normalization(Expansion& e) {
  const int x = e.input(0);
  const double eps = e.attributes().number("epsilon", 1e-5);
  e.attributes().number("momentum", 0.9);
  if (e.attributes().integer("output", 0) != 0) e.refuse("only training has further outputs");
  if (e.attributes().boolean("training_mode", false)) return by_own_statistics(e, x, eps);
  const Shape shape = e.shape(x);  // what a node is added behind may move
  const bool rows = shape.rank() == 2;
  const int image = rows ? as_f32(e, x) : as_image(e, as_f32(e, x));
  BatchNorm2d norm({.channels = to_int(e, e.shape(image)[1]), .eps = eps});
  norm.set_parameter("weight", known_f32(e, 1));
  norm.set_parameter("bias", known_f32(e, 2));
  norm.set_parameter("running_mean", known_f32(e, 3));
  norm.set_parameter("running_var", known_f32(e, 4));
  if (rows) {  // as what linear layers take in
    const auto [scale, shift] = norm.coefficients();
    const auto row = [&](const std::vector<double>& numbers) {
      return constant_of(e, numbers, {shape[1]}, DType::f32);
    };
    const int scaled = e.pointwise(Pointwise::mul, {image, row(scale)});
    return e.cast(e.pointwise(Pointwise::add, {scaled, row(shift)}), e.dtype(x));
  }
  return e.cast(e.reshape(e.add(std::move(norm), {image}), shape), e.dtype(x));
}

/// A factor for each channel, or a summand: part of the problem if it is known, else `apply`d behind it.
int by_channel(Expansion& e, Pointwise apply, int x, int i, Tensor& part) {
  if (!e.has(i)) return x;
  const int operand = e.input(i);
  const std::int64_t channels = e.shape(x)[1];
  if (e.shape(operand) != Shape{channels})
    e.refuse("expected operand ", i + 1, " of shape [", channels, "], got ", e.shape(operand));
  if (e.known(operand).defined() && apply == Pointwise::identity) {
    part = known_f32(e, i);
    return x;
  }
  std::vector<std::int64_t> extents(e.shape(x).rank() - 1, 1);
  extents[0] = channels;
  return e.pointwise(apply, {x, as_f32(e, e.reshape(operand, to_shape(extents)))});
}

/// x [N, C, ...] by groups of channels, then a scale and a shift of each channel.
int grouped(Expansion& e, std::int64_t groups) {
  const int x = as_f32(e, e.input(0)), rank = e.rank(x);
  const double eps = e.attributes().number("epsilon", 1e-5);
  const Shape shape = e.shape(x);
  if (rank < 2) e.refuse("expected an operand [N, C, ...], got ", shape);
  if (groups == 0) groups = shape[1];
  if (groups < 1 || shape[1] % groups != 0) e.refuse("expected groups that divide ", shape[1], " channels");
  const std::int64_t inner = count_of(shape, 2, rank);
  NormProblem problem = {.length = shape[1] / groups * inner, .eps = eps, .inner = inner, .channels = shape[1]};
  if (problem.length < 1) e.refuse("there is nothing to normalise in ", shape);
  const bool known = (!e.has(1) || e.known(e.input(1)).defined()) && (!e.has(2) || e.known(e.input(2)).defined());
  if (known) {
    by_channel(e, Pointwise::identity, x, 1, problem.scale);
    by_channel(e, Pointwise::identity, x, 2, problem.shift);
    const auto is_all = [](const Tensor& numbers, float number) {
      return !numbers.defined() || std::ranges::all_of(numbers.values<float>(), [=](float v) { return v == number; });
    };
    if (is_all(problem.scale, 1) && is_all(problem.shift, 0)) problem.scale = problem.shift = {};
  }
  int y = e.solve(std::move(problem), shape, DType::f32, {x});
  if (!known) {
    Tensor none;
    y = by_channel(e, Pointwise::mul, y, 1, none);
    y = by_channel(e, Pointwise::add, y, 2, none);
  }
  return e.cast(y, e.dtype(e.input(0)));
}

int instance_normalization(Expansion& e) { return grouped(e, 0); }

int group_normalization(Expansion& e) {
  e.attributes().integer("stash_type", 1);
  const std::int64_t groups = e.attributes().long_integer("num_groups", -1);
  if (groups < 1) e.refuse("expected num_groups of 1 or more");
  return grouped(e, groups);
}

/// Whether an operand is known and has an element for each of the last dimensions that are normalised.
bool is_row(const Expansion& e, int i, std::int64_t length, const Shape& shape, int axis) {
  if (!e.has(i)) return true;
  const Tensor& value = e.known(e.input(i));
  if (!value.defined() || value.numel() != length) return false;
  const std::span<const std::int64_t> own = value.shape().extents();
  const auto normalised = shape.extents().subspan(static_cast<std::size_t>(axis));
  return own.size() >= normalised.size() && std::ranges::equal(own.last(normalised.size()), normalised);
}

/// The numbers that were computed on the way: the mean, and 1 / the spread.
int statistic(Expansion& e, int x, const std::vector<int>& axes, double eps, bool mean_wanted) {
  const int mean = e.reduce(Reduction::mean, x, axes, true);
  if (mean_wanted) return mean;
  const int difference = e.pointwise(Pointwise::sub, {x, mean});
  const int variance = e.reduce(Reduction::mean, e.pointwise(Pointwise::mul, {difference, difference}), axes, true);
  return e.pointwise(Pointwise::rsqrt, {e.pointwise(Pointwise::add, variance, eps)});
}

/// Of x in f32; the places of the operands that are its scale and its bias.
template <bool centred>
int layer_normalization(Expansion& e, int x, int scale, int bias) {
  const int rank = e.rank(x);
  const double eps = e.attributes().number("epsilon", 1e-5);
  e.attributes().integer("stash_type", 1);
  const int axis = e.axis_of(e.attributes().long_integer("axis", -1), rank);
  const Shape shape = e.shape(x);
  const int output = e.attributes().integer("output", 0);
  if (output != 0) {
    std::vector<int> axes;
    for (int d = axis; d < rank; ++d) axes.push_back(d);
    if (!centred || output < 0 || output > 2) e.refuse("there is no output ", output);
    return statistic(e, x, axes, eps, output == 1);
  }
  NormProblem problem = {.length = count_of(shape, axis, rank),
                         .eps = eps,
                         .kind = centred ? NormKind::centred : NormKind::root_mean_square};
  if (problem.length < 1) e.refuse("there is nothing to normalise in ", shape);
  const bool rows = is_row(e, scale, problem.length, shape, axis) && is_row(e, bias, problem.length, shape, axis);
  problem.channels = problem.length;
  const Shape row = {problem.length};
  if (rows && e.has(scale)) problem.scale = known_f32(e, scale).view(row);
  if (rows && e.has(bias)) problem.shift = known_f32(e, bias).view(row);
  int y = e.solve(std::move(problem), shape, DType::f32, {x});
  if (!rows && e.has(scale)) y = e.pointwise(Pointwise::mul, {y, as_f32(e, e.input(scale))});
  if (!rows && e.has(bias)) y = e.pointwise(Pointwise::add, {y, as_f32(e, e.input(bias))});
  if (e.shape(y) != shape) e.refuse("the scale or the bias does not broadcast to ", shape);
  return e.cast(y, e.dtype(e.input(0)));
}

template <bool centred>
int layer_normalization(Expansion& e) {
  return layer_normalization<centred>(e, as_f32(e, e.input(0)), 1, 2);
}

/// ONNX Runtime's: of a sum, of two or with a bias; output 3 is that sum.
template <bool centred>
int skip_layer_normalization(Expansion& e) {
  const int beta = centred ? 3 : e.count(), bias = centred ? 4 : 3;  // one has no beta
  int sum = e.pointwise(Pointwise::add, {as_f32(e, e.input(0)), as_f32(e, e.input(1))});
  if (e.has(bias)) sum = e.pointwise(Pointwise::add, {sum, as_f32(e, e.input(bias))});
  if (e.attributes().integer("output", 0) != 3) return layer_normalization<centred>(e, sum, 2, beta);
  e.attributes().number("epsilon", 1e-5);
  return e.cast(sum, e.dtype(e.input(0)));
}

/// x over its norm along an axis, 0 where all are 0.
int lp_normalization(Expansion& e) {
  const int x = as_f32(e, e.input(0)), p = e.attributes().integer("p", 2);
  const int axis = e.axis_of(e.attributes().long_integer("axis", -1), e.rank(x));
  if (p != 1 && p != 2) e.refuse("expected a p of 1 or 2, got ", p);
  const int norm = e.reduce(p == 1 ? Reduction::l1 : Reduction::l2, x, {axis}, true);
  const int divisor = e.pointwise(Pointwise::where,
                                  {e.pointwise(Pointwise::equal, norm, 0), constant_of(e, {1}, {}, DType::f32), norm});
  return e.cast(e.pointwise(Pointwise::div, {x, divisor}), e.dtype(e.input(0)));
}

int mean_variance_normalization(Expansion& e) {
  const int x = as_f32(e, e.input(0));
  const std::vector<int> axes = axes_of(e, e.attributes().integers("axes", {0, 2, 3}), e.rank(x));
  const int difference = e.pointwise(Pointwise::sub, {x, e.reduce(Reduction::mean, x, axes, true)});
  const int variance = e.reduce(Reduction::mean, e.pointwise(Pointwise::mul, {difference, difference}), axes, true);
  const int spread = e.pointwise(Pointwise::add, e.pointwise(Pointwise::sqrt, {variance}), 1e-9);
  return e.cast(e.pointwise(Pointwise::div, {difference, spread}), e.dtype(e.input(0)));
}

/// The channels in opposite order.
int mirrored(Expansion& e, int x) {
  Picks channels = places_of(e, 1, 0, e.shape(x)[1], e.shape(x)[1]);
  std::ranges::reverse(channels.places);
  return pick(e, x, {channels});
}

/// Of an even size, the one neighbour more is behind the channel; the layer has it before.
int lrn(Expansion& e) {
  const int x = e.input(0), size = e.attributes().integer("size", 0);
  const LocalResponseNorm norm({.size = size,
                                .alpha = e.attributes().number("alpha", 1e-4),
                                .beta = e.attributes().number("beta", 0.75),
                                .k = e.attributes().number("bias", 1)});
  const int image = as_image(e, as_f32(e, x));
  const int y = size % 2 != 0 ? e.add(norm, {image}) : mirrored(e, e.add(norm, {mirrored(e, image)}));
  return e.cast(e.reshape(y, e.shape(x)), e.dtype(x));
}

int softmax(Expansion& e, int x, int axis) { return e.add(Softmax(axis), {x}); }

int log_softmax(Expansion& e, int x, int axis) {
  return e.solve(SoftmaxProblem{.dim = axis, .kind = SoftmaxKind::log_softmax}, e.shape(x), DType::f32, {x});
}

/// 1 for the first of the largest along the axis, 0 for the others.
int hardmax(Expansion& e, int x, int axis) {
  const std::int64_t extent = e.shape(x)[axis];
  if (extent == 0) return x;
  const int largest = e.reduce(Reduction::arg_max, x, {axis}, true);
  return e.cast(e.pointwise(Pointwise::equal, {largest, places_along(e, axis, e.rank(x), extent)}), DType::f32);
}

/// `flatten`: as before operator set 13, all from the axis on is one.
template <int (*along)(Expansion& e, int x, int axis)>
int of_lines(Expansion& e) {
  const bool flatten = e.attributes().boolean("flatten", false);
  const std::int64_t wanted = e.attributes().long_integer("axis", flatten ? 1 : -1);
  const int operand = e.input(0);
  const Shape shape = e.shape(operand);
  const int rank = e.rank(operand);
  if (rank == 0) e.refuse("expected an operand of rank 1 or more");
  int x = as_f32(e, operand);
  int axis = flatten && wanted == rank ? rank : e.axis_of(wanted, rank);
  if (flatten) {
    x = e.reshape(x, {count_of(shape, 0, axis), count_of(shape, axis, rank)});
    axis = 1;
  }
  const int count = e.count_of(x, axis);
  if (count >= 0) x = e.filled(x, axis, e.least(DType::f32));  // which adds nothing to a sum, and is no maximum
  return e.cast(e.reshape(e.counted(along(e, x, axis), axis, count), shape), e.dtype(operand));
}

constexpr OpRow norm_rows[] = {{"BatchNormalization", batch_normalization},
                               {"GroupNormalization", group_normalization},
                               {"Hardmax", of_lines<hardmax>},
                               {"InstanceNormalization", instance_normalization},
                               {"LRN", lrn},
                               {"LayerNormalization", layer_normalization<true>},
                               {"LogSoftmax", of_lines<log_softmax>},
                               {"LpNormalization", lp_normalization},
                               {"MeanVarianceNormalization", mean_variance_normalization},
                               {"RMSNormalization", layer_normalization<false>},
                               {"SimplifiedLayerNormalization", layer_normalization<false>},
                               {"SkipLayerNormalization", skip_layer_normalization<true>},
                               {"SkipSimplifiedLayerNormalization", skip_layer_normalization<false>},
                               {"Softmax", of_lines<softmax>}};

}  // namespace

std::span<const OpRow> norm_ops() { return norm_rows; }

}  // namespace lamina::detail
