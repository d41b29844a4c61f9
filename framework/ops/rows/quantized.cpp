#include "lamina/ops/rows/quantized.h"

#include <algorithm>

#include "lamina/ops/parts.h"
#include "lamina/tensor/matrices.h"

namespace lamina::detail {
namespace {

/// One for each of `count`, of those that there are: as many, or one.
template <class T>
Tensor for_each(const Expansion& e, const Tensor& some, std::int64_t count) {
  if (some.numel() != 1 && some.numel() != count) e.refuse("expected 1 or ", count, " scales, got ", some.numel());
  Tensor result({count}, dtype_of<T>);
  const std::span<const T> from = some.values<T>();
  const std::span<T> to = result.values<T>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[from.size() == 1 ? 0 : i];
  return result;
}

}  // namespace

EightBitWeights in_i8(const Expansion& e, const Tensor& given, const Tensor& scale, const Tensor& zero_point,
                      bool turned) {
  const Tensor values = turned ? transposed(given) : given;
  const std::int64_t out = values.shape()[0];
  EightBitWeights result = {.weight = values, .scale = for_each<float>(e, scale, out)};
  Tensor zeros = for_each<std::int32_t>(e, zero_point, out);
  if (values.dtype() == DType::u8) {
    result.weight = Tensor(values.shape(), DType::i8);
    const std::span<const std::uint8_t> from = values.values<std::uint8_t>();
    const std::span<std::int8_t> to = result.weight.values<std::int8_t>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<std::int8_t>(from[i] - 128);
    for (std::int32_t& zero : zeros.values<std::int32_t>()) zero -= 128;
  }
  const auto is_zero = [](std::int32_t zero) { return zero == 0; };
  if (!std::ranges::all_of(zeros.values<std::int32_t>(), is_zero)) result.zero_point = zeros;
  return result;
}

Tensor meaning(const EightBitWeights& eight) {
  Tensor result(eight.weight.shape());
  const std::span<const std::int8_t> from = eight.weight.values<std::int8_t>();
  const std::span<float> to = result.values<float>();
  const auto out = static_cast<std::size_t>(eight.weight.shape()[0]), row = from.size() / std::max<std::size_t>(1, out);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int32_t zero = eight.zero_point.defined() ? eight.zero_point.values<std::int32_t>()[i / row] : 0;
    to[i] = static_cast<float>(from[i] - zero) * eight.scale.values<float>()[i / row];
  }
  return result;
}

int less_weights_zero_points(Expansion& e, const EightBitWeights& eight, int axis,
                             const std::function<int(const EightBitWeights&)>& sums_of) {
  if (!eight.zero_point.defined()) return sums_of(eight);
  Shape shape = eight.weight.shape();
  const std::int64_t filters = shape[0];
  shape.set(0, filters + 1);
  EightBitWeights more = {.weight = Tensor(shape, DType::i8), .scale = Tensor({filters + 1}), .whole = eight.whole};
  std::ranges::fill(more.weight.values<std::int8_t>(), std::int8_t{1});
  std::ranges::copy(eight.weight.values<std::int8_t>(), more.weight.values<std::int8_t>().begin());
  std::ranges::fill(more.scale.values<float>(), 1.0f);
  const int sums = sums_of(more), along = e.axis_of(axis, e.rank(sums));
  std::vector<std::int64_t> extents(e.shape(sums).rank(), 1);
  extents[static_cast<std::size_t>(along)] = filters;
  const int zeros = e.constant_node(eight.zero_point.view(to_shape(extents)));
  const int surplus = e.pointwise(Pointwise::mul, {e.slice(sums, along, filters, filters + 1), zeros});
  return e.pointwise(Pointwise::sub, {e.slice(sums, along, 0, filters), surplus});
}

EightBitWeights eight_bits(const Expansion& e, int weight, int bias, bool turned) {
  const Codes* const codes = e.codes(weight);
  if (codes == nullptr || codes->values.dtype() == DType::i32 || codes->values.shape().rank() == 0) return {};
  const int rank = static_cast<int>(codes->values.shape().rank());
  if (turned && rank != 2) return {};
  if (codes->scale.numel() != 1 && codes->axis != (turned ? 1 : 0)) return {};
  EightBitWeights result = in_i8(e, codes->values, codes->scale, codes->zero_point, turned);
  const Codes* const whole = bias < 0 ? nullptr : e.codes(bias);
  const std::int64_t out = result.weight.shape()[0];
  if (whole != nullptr && whole->values.dtype() == DType::i32 && whole->values.numel() == out) {
    result.bias = whole->values.view({out});
    result.bias_scale = for_each<float>(e, whole->scale, out);
  }
  return result;
}

}  // namespace lamina::detail
