// Factors and summands of channels in front of a convolution. Known ones become part of its weights and its bias;
// factors that differ from image to image it multiplies by as it reads. A number by which another convolution
// multiplies its results counts as a factor, too.

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "lamina/compile/dataflow.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/elementwise.h"
#include "lamina/tensor/matrices.h"

namespace lamina::detail {
namespace {

/// (factor scale + own) x + shift. Scale, own and shift are a number for each channel; factor is a value [N, C, 1, 1]
/// or, if there is none, 1.
struct Affine {
  int x = none, factor = none;
  std::vector<double> scale, own, shift;
};

bool is_all(const std::vector<double>& values, double number) {
  return std::ranges::all_of(values, [=](double value) { return value == number; });
}

class FactorsInFront : Dataflow {
 public:
  using Dataflow::Dataflow;

  void take() {
    for (Operation& op : program_.operations) pass_on(op);
    for (Operation& op : program_.operations) take(op);
    finish();
  }

 private:
  /// A known value as a number for each channel of an image; nothing if it is not known.
  std::optional<std::vector<double>> known_of(int value, std::int64_t channels) const {
    const Tensor& known = program_.value(value).constant;
    if (!known.defined() || known.dtype() != DType::f32) return std::nullopt;
    const std::span<const float> values = known.values<float>();
    if (values.size() == 1) return std::vector(static_cast<std::size_t>(channels), static_cast<double>(values[0]));
    const Shape& of = known.shape();
    const bool fits = of.numel() == channels && extent_of(of, -3) == channels;
    return fits ? std::optional(std::vector<double>(values.begin(), values.end())) : std::nullopt;
  }

  /// An operation that multiplies and adds as an Affine of one of its inputs, x. It may add x itself, too.
  std::optional<Affine> affine_of(const Operation& op) const {
    const PointwiseChain& chain = *chain_of(*op.module);
    std::vector<int> inputs = op.inputs;
    if (shape(inputs[0]) != shape(op.output) && chain == PointwiseChain{{.function = Pointwise::mul, .operand = 1}})
      std::swap(inputs[0], inputs[1]);
    if (shape(inputs[0]) != shape(op.output)) return std::nullopt;
    const std::int64_t channels = shape(op.output)[1];
    const std::vector<double> one(static_cast<std::size_t>(channels), 1.0), zero(one.size());
    Affine a = {.x = inputs[0], .scale = one, .own = zero, .shift = zero};
    for (const PointwiseStep& step : chain) {
      if (step.second >= 0) return std::nullopt;
      const int operand = step.operand < 0 ? none : inputs[static_cast<std::size_t>(step.operand)];
      const auto numbers =
          operand == none ? std::optional(std::vector<double>(one.size(), step.a)) : known_of(operand, channels);
      if (step.function == Pointwise::mul && numbers) {
        for (std::vector<double>* const part : {&a.scale, &a.own, &a.shift})
          std::ranges::transform(*part, *numbers, part->begin(), std::multiplies());
      } else if (step.function == Pointwise::mul && a.factor == none && is_all(a.own, 0) && is_all(a.shift, 0)) {
        if (shape(operand) != Shape{shape(a.x)[0], channels, 1, 1}) return std::nullopt;
        a.factor = operand;
      } else if (step.function == Pointwise::add && operand == a.x) {
        for (double& value : a.own) ++value;
      } else if ((step.function == Pointwise::add || step.function == Pointwise::sub) && numbers) {
        const double sign = step.function == Pointwise::add ? 1 : -1;
        for (std::size_t c = 0; c < one.size(); ++c) a.shift[c] += sign * (*numbers)[c];
      } else {
        return std::nullopt;
      }
    }
    return a;
  }

  static Affine times(double factor, std::int64_t channels) {
    const auto count = static_cast<std::size_t>(channels);
    return {.scale = std::vector(count, factor), .own = std::vector(count, 0.0), .shift = std::vector(count, 0.0)};
  }

  /// Weights and bias of a convolution that takes the affine function in. The weights are multiplied if all factors are
  /// known. Both are undefined if a number would not be finite.
  static std::pair<Tensor, Tensor> multiplied(const ConvProblem& conv, const Affine& a) {
    const ConvGeometry& g = conv.geometry;
    const std::int64_t all = conv.weight.numel(), filters = g.out_channels;
    const auto inputs = static_cast<std::size_t>(g.group_in_channels()),
               outputs = static_cast<std::size_t>(g.group_out_channels());
    const std::size_t taps = static_cast<std::size_t>(all / filters) / inputs;
    std::vector<double> factors(a.scale.size(), 1.0);
    if (a.factor == none) std::ranges::transform(a.scale, a.own, factors.begin(), std::plus());
    const auto multiply = [&](Tensor& to) {
      const float* from = conv.weight.values<float>().data();
      float *at = to.values<float>().data(), *bias = at + all;
      bool finite = true;
      for (std::size_t o = 0; o < static_cast<std::size_t>(filters); ++o) {
        double sum = conv.bias.defined() ? static_cast<double>(conv.bias.values<float>()[o]) : 0;
        for (std::size_t c = o / outputs * inputs, end = c + inputs; c < end; ++c) {
          for (std::size_t tap = 0; tap < taps; ++tap, ++from, ++at) {
            sum += static_cast<double>(*from) * a.shift[c];
            *at = static_cast<float>(static_cast<double>(*from) * factors[c]);
            finite &= std::isfinite(*at);
          }
        }
        *bias = static_cast<float>(sum);
        finite &= std::isfinite(*bias++);
      }
      return finite;
    };
    const Packing how =
        Packing("factors in front", g.groups).with(std::span(std::as_const(factors))).with(std::span(a.shift));
    const Tensor both = derived_finite(how, {conv.weight, conv.bias}, {all + filters}, multiply);
    if (!both.defined()) return {};
    return {both.slice(0, all).view(conv.weight.shape()), both.slice(all, all + filters)};
  }

  /// Networks without norms multiply the results of a function by a number (Brock et al., "High-Performance Large-Scale
  /// Image Recognition Without Normalization", 2021). If only convolutions read the results, they take the number over:
  /// the function that is left may be one that kernels have inlined. The stored results are smaller then, so they stay
  /// in f16's range.
  void pass_on(Operation& op) {
    constexpr double most = 8;  // f16's smallest results lose three bits by it
    const auto conv = op.module == nullptr ? std::nullopt : convolution(op, op.inputs.size());
    if (!conv || conv->epilogue.pool || conv->epilogue.chain.size() < 2 || is_coded(op.output)) return;
    const PointwiseStep& last = conv->epilogue.chain.back();
    if (last.function != Pointwise::mul || last.operand >= 0 || !(last.a > 1 && last.a <= most)) return;
    const std::vector<int> all = convolutions_of(op.output);
    std::vector<Operation> longer;
    for (const int reader : all) {
      const auto next = convolution(operation(reader), operation(reader).inputs.size());
      auto [weight, bias] = multiplied(*next, times(last.a, next->geometry.in_channels));
      if (!weight.defined()) return;
      if (!next->bias.defined()) bias = {};
      longer.push_back(operation(reader));
      longer.back().module =
          dynamic_cast<const Conv2d&>(*longer.back().module).with_factors(std::move(weight), std::move(bias), false);
    }
    Operation shorter = op;
    shorter.module = dynamic_cast<const Conv2d&>(*op.module).without_last_function();
    if (longer.empty() || !has_paying_kernel(shorter)) return;
    for (std::size_t i = 0; i < all.size(); ++i) replace(operation(all[i]), std::move(longer[i]));
    replace(op, std::move(shorter));
  }

  /// Makes a convolution of (factor scale + own) x + shift one of x. The known numbers go into weights and bias,
  /// computed in double precision and rounded once; it multiplies by the other factors as it reads. With padding there
  /// must be no shift, because padded zeros are not shifted.
  void take(Operation& op) {
    const auto conv = op.module == nullptr ? std::nullopt : convolution(op, op.inputs.size());
    Operation* const before = conv ? only_for(op.inputs[0]) : nullptr;
    if (before == nullptr || before->view || chain_of(*before->module) == nullptr) return;
    const ConvGeometry& g = conv->geometry;
    const auto a = affine_of(*before);
    const bool shifts = a && !is_all(a->shift, 0), known = a && a->factor == none;
    if (!a || (shifts && g.is_padded())) return;
    auto [weight, bias] = multiplied(*conv, *a);
    if (!weight.defined()) return;
    if (!conv->bias.defined() && !shifts) bias = {};
    Operation longer = op;
    longer.module = dynamic_cast<const Conv2d&>(*op.module).with_factors(weight, bias, !known);
    longer.inputs[0] = a->x;
    const bool plain = known || (is_all(a->scale, 1) && is_all(a->own, 0));
    const Shape image = shape(before->output);
    if (!known) longer.inputs.insert(longer.inputs.begin() + 1, plain ? a->factor : before->output);
    if (!plain) program_.value(before->output).shape = shape(a->factor);
    if (!has_paying_kernel(longer)) {
      program_.value(before->output).shape = image;
      return;
    }
    if (plain) {
      longer.name = before->name, longer.fused = before->fused;
      take_names(longer, op);
    } else {
      const auto numbers = [&](const std::vector<double>& values) {
        const Shape shape = {static_cast<std::int64_t>(values.size()), 1, 1};
        return new_value(before->name, shape, Tensor::from(values, shape).to(DType::f32));
      };
      const auto step = [](Pointwise function) {
        return std::make_shared<Elementwise>(PointwiseChain{{.function = function, .operand = 1}});
      };
      const Shape of = shape(a->factor);
      const int scale = numbers(a->scale), own = numbers(a->own);
      const int product = insert(*before, operation_of(before->name, step(Pointwise::mul), {a->factor, scale}, of));
      replace(*before, step(Pointwise::add), {product, own}, of);
    }
    replace(op, std::move(longer));
  }
};

}  // namespace

void take_factors(Program& program, const CompileOptions& options) { FactorsInFront(program, options).take(); }

}  // namespace lamina::detail
