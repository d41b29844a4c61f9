#include "lamina/cuda/conv2d/first_layer/pack.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "lamina/base/math.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda::first_layer {
namespace {

/// A weight's operands and what they stand for.
struct Operand {
  std::uint16_t high = 0, residual = 0;
  double value = 0;
};

/// `scaled` is the weight times the filter's power of two.
Operand operand(Precision precision, float scaled) {
  if (precision == Precision::bf16) {
    const bfloat16 high = to_bfloat16(scaled);
    return {high.bits, 0, to_float(high)};
  }
  const half high = to_half(scaled);
  if (row_of(precision).parts == 1) return {high.bits, 0, to_float(high)};
  const half residual = to_half((scaled - to_float(high)) * residual_scale);
  return {high.bits, residual.bits, to_float(high) + static_cast<double>(to_float(residual)) / residual_scale};
}

/// How far an operand may lie from its weight, relatively: half a unit in the last place of 11 significant bits, and
/// what two f16 hold.
double tolerance(Precision precision) { return row_of(precision).parts > 1 ? 0x1p-22 : 0x1.0001p-11; }

/// The power of two that brings a filter's largest weight into [2^14, 2^15), or nothing to do.
int filter_exponent(const float* weight, int count, bool scaled) {
  float largest = 0;
  for (int i = 0; i < count; ++i) largest = std::max(largest, std::abs(weight[i]));
  return scaled && largest > 0 && std::isfinite(largest) ? 14 - std::ilogb(largest) : 0;
}

/// The most weights that together never exceed half of the filter's sum of magnitudes.
int minority(const float* weight, int count) {
  std::vector<double> magnitude(weight, weight + count);
  double sum = 0;
  for (double& m : magnitude) sum += m = std::abs(m);
  std::sort(magnitude.begin(), magnitude.end(), std::greater<>());
  double part = 0;
  int taken = 0;
  while (taken < count && part + magnitude[static_cast<std::size_t>(taken)] <= sum / 2) {
    part += magnitude[static_cast<std::size_t>(taken++)];
  }
  return taken;
}

}  // namespace

Packed pack(const Plan& plan, const Steps& steps, Precision precision, const float* weight, const float* bias) {
  const Params& p = plan.params;
  const int taps = p.kernel_height * p.kernel_width, reduction = p.channels * taps;
  const auto padded = static_cast<std::size_t>(p.splits) * static_cast<std::size_t>(plan.filters);
  const bool scaled = storage_type(precision) == DType::f32;
  const int columns = plan.filters * (plan.split ? 2 : 1);
  Packed packed;
  packed.operands.resize(static_cast<std::size_t>(p.splits) * static_cast<std::size_t>(p.steps * columns) * 16);
  packed.scale.assign(padded, 1.0f);
  packed.bias.assign(padded, 0.0f);
  packed.exact.assign(padded * static_cast<std::size_t>(lamina::detail::round_up(reduction, exact_unroll)), 0.0f);
  packed.inexact.assign(padded, 0);
  packed.tolerated = scaled ? reduction : -1;
  for (int oc = 0; oc < p.out_channels; ++oc) {
    const auto f = static_cast<std::size_t>(oc);
    const float* filter = weight + std::int64_t{oc} * reduction;
    if (bias != nullptr) packed.bias[f] = bias[oc];
    const int exponent = filter_exponent(filter, reduction, scaled);
    // Beyond these the scale, or a scaled weight on the way, would leave f32's normal range.
    const bool extreme = std::abs(exponent) > 100;
    packed.inexact[f] = extreme;
    if (scaled && !extreme) packed.scale[f] = std::ldexp(1.0f / input_scale, -exponent);
    for (int k = 0; k < reduction; ++k) {
      const Operand o = operand(precision, scaled ? std::ldexp(filter[k], extreme ? 0 : exponent) : filter[k]);
      packed.exact[static_cast<std::size_t>(k) * padded + f] = scaled ? filter[k] : static_cast<float>(o.value);
      if (!scaled) continue;
      const double wanted = std::ldexp(static_cast<double>(filter[k]), exponent);
      if (!(std::abs(o.value - wanted) <= tolerance(precision) * std::abs(wanted))) packed.inexact[f] = 1;
    }
    if (scaled && packed.inexact[f] == 0) packed.tolerated = std::min(packed.tolerated, minority(filter, reduction));
    const int split = oc / plan.filters, column = filter_column(oc % plan.filters);
    const auto slot = [&](int step, int half_step, int col, int e) -> std::uint16_t& {
      const std::int64_t block = (std::int64_t{split} * p.steps + step) * 2 + half_step;
      return packed.operands[static_cast<std::size_t>((block * columns + col) * 8 + e)];
    };
    for (int s = 0; s < p.steps; ++s) {
      for (int h = 0; h < 2; ++h) {
        const Unit& unit = steps.unit[s][h];
        for (int e = 0; e < 8 && !unit.empty && packed.inexact[f] == 0; ++e) {
          const Tap tap = unit_tap(p.stride, e);
          const int kh = unit.kernel_row + tap.row, kw = unit.kernel_column + tap.column;
          if (tap.row < 0 || kh >= p.kernel_height || kw >= p.kernel_width) continue;
          const float w = filter[unit.channel * taps + kh * p.kernel_width + kw];
          const Operand o = operand(precision, scaled ? std::ldexp(w, exponent) : w);
          slot(s, h, column, e) = o.high;
          if (plan.split) slot(s, h, plan.filters + column, e) = o.residual;
        }
      }
    }
  }
  return packed;
}

}  // namespace lamina::cuda::first_layer
