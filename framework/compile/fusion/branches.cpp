// Linear branches of one value that are added: convolutions of several windows, batch norms, factors of the channels,
// and the value itself, as RepVGG, MobileOne, RepViT and FastViT have them while they are trained. They are one
// convolution (Ding et al., "RepVGG: Making VGG-style ConvNets Great Again", 2021), whose weights are summed in double
// precision and rounded once.

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/compile/dataflow.h"
#include "lamina/layers/absorption.h"
#include "lamina/layers/batch_norm2d.h"

namespace lamina::detail {
namespace {

/// A channel's number; there may be one number for all channels.
double of_channel(const std::vector<double>& numbers, std::size_t channel) {
  return numbers[numbers.size() == 1 ? 0 : channel];
}

/// An addition or a difference of two values of one shape.
struct TwoTerms {
  int first, second;
  double sign;
};

/// A value as a sum of branches that all read one value.
struct Sum {
  int source = none;   ///< the value that the branches read; none: no sum was found
  int carrier = none;  ///< the branch that is a convolution with every tap of the others
  int branches = 1, depth = 0;
};

/// The tap of `wide` at the place of a tap of `narrow`, along one side; -1: there is none.
int same_place(int tap, int padding, int dilation, int wide_taps, int wide_padding, int wide_dilation) {
  const int place = tap * dilation - padding + wide_padding;
  return place >= 0 && place % wide_dilation == 0 && place / wide_dilation < wide_taps ? place / wide_dilation : -1;
}
int same_row(const ConvGeometry& g, int tap, const ConvGeometry& wide) {
  return same_place(tap, g.padding_height, g.dilation_height, wide.kernel_height, wide.padding_height,
                    wide.dilation_height);
}
int same_column(const ConvGeometry& g, int tap, const ConvGeometry& wide) {
  return same_place(tap, g.padding_width, g.dilation_width, wide.kernel_width, wide.padding_width, wide.dilation_width);
}

/// Whether a convolution of geometry `wide` can compute what one of geometry `g` does. It must have no tap that no
/// branch has: a weight of zero there would make NaN of an infinite pixel.
bool covers(const ConvGeometry& wide, const ConvGeometry& g) {
  bool taps = true;
  for (int r = 0; r < g.kernel_height; ++r) taps = taps && same_row(g, r, wide) >= 0;
  for (int s = 0; s < g.kernel_width; ++s) taps = taps && same_column(g, s, wide) >= 0;
  return taps && g.in_channels == wide.in_channels && g.out_channels == wide.out_channels &&
         g.groups % wide.groups == 0 && g.stride_height == wide.stride_height && g.stride_width == wide.stride_width &&
         g.out_height == wide.out_height && g.out_width == wide.out_width;
}

/// The convolution that gives the value itself.
ConvGeometry identity(const ConvGeometry& like) {
  ConvGeometry g = like;
  g.out_channels = g.groups = g.in_channels, g.out_height = g.in_height, g.out_width = g.in_width;
  g.kernel_height = g.kernel_width = g.stride_height = g.stride_width = g.dilation_height = g.dilation_width = 1;
  g.padding_height = g.padding_width = 0;
  return g;
}

class Branches : Dataflow {
 public:
  using Dataflow::Dataflow;

  void merge() {
    sums_.resize(program_.values.size());
    for (const Operation& op : program_.operations) {
      if (!op.view && op.second_output == none) sums_[index(op.output)] = sum_of(op);
    }
    // From the last operation to the first, so that the longest sums come first; the sums that are part of them are
    // gone then.
    for (std::size_t i = program_.operations.size(); i-- > 0;) {
      Operation& op = program_.operations[i];
      if (op.module == nullptr || op.view) continue;
      const Sum& sum = sums_[index(op.output)];
      if (sum.branches > 1 && sum.carrier != none) merge(op, sum);
    }
    finish();
  }

 private:
  static constexpr int deepest = 64;  // the most additions in a row: each addition looks through all before it

  /// A value as a term of the sum that its reader computes: itself a sum if it has one reader, else just the value.
  Sum term(int value) {
    const Sum& sum = sums_[index(value)];
    return only_for(value) == nullptr || sum.source == none || sum.depth == deepest ? Sum{.source = value} : sum;
  }

  Sum sum_of(const Operation& op) {
    if (const auto conv = plain_convolution(op)) {
      return {.source = op.inputs[0], .carrier = producer(op.output)};
    }
    if (const int input = only_unknown(op); input != none && factors_of(op)) {
      Sum sum = term(input);
      ++sum.depth;
      return sum;
    }
    const auto terms = two_terms(op);
    if (!terms) return {};
    const Sum a = term(terms->first), b = term(terms->second);
    if (a.source != b.source) return {};
    const int carrier = wider(a.carrier, b.carrier);
    if (carrier == none && (a.carrier != none || b.carrier != none)) return {};
    return {a.source, carrier, a.branches + b.branches, std::max(a.depth, b.depth) + 1};
  }

  /// The one of two convolutions that covers the other; `none` as an argument stands for the value itself.
  int wider(int a, int b) const {
    if (a == none) std::swap(a, b);
    if (a == none) return none;
    const ConvGeometry first = geometry(a), second = b == none ? identity(first) : geometry(b);
    if (covers(first, second)) return a;
    return b != none && covers(second, first) ? b : none;
  }

  ConvGeometry geometry(int convolution) const { return plain_convolution(operation(convolution))->geometry; }

  std::optional<ConvProblem> plain_convolution(const Operation& op) const {
    auto conv = convolution(op, 1);
    if (conv && (!conv->epilogue.chain.empty() || conv->epilogue.pool)) conv.reset();
    return conv;
  }

  /// The function that an operation applies, if it applies only one.
  static const PointwiseStep* only_step(const Operation& op) {
    const PointwiseChain* const chain = chain_of(*op.module);
    return chain != nullptr && chain->size() == 1 ? chain->data() : nullptr;
  }

  std::optional<TwoTerms> two_terms(const Operation& op) const {
    const PointwiseStep* step = only_step(op);
    if (step == nullptr || op.inputs.size() != 2 || step->operand != 1) return std::nullopt;
    const Pointwise function = step->function;
    const bool fits = shape(op.inputs[0]) == shape(op.output) && shape(op.inputs[1]) == shape(op.output);
    if (!fits || (function != Pointwise::add && function != Pointwise::sub)) return std::nullopt;
    return TwoTerms{op.inputs[0], op.inputs[1], function == Pointwise::add ? 1.0 : -1.0};
  }

  /// The only operand of an operation on images that is not known, if it has the result's shape; else none.
  int only_unknown(const Operation& op) const {
    if (op.inputs.empty() || shape(op.output).rank() != 4) return none;
    const auto known = [&](int value) { return program_.value(value).constant.defined(); };
    const auto found = std::ranges::find_if_not(op.inputs, known);
    return found == op.inputs.end() || shape(*found) != shape(op.output) ? none : *found;
  }

  /// What an operation multiplies that operand by, and adds to it.
  std::optional<PerChannel> factors_of(const Operation& op) const {
    if (const auto* norm = dynamic_cast<const BatchNorm2d*>(op.module.get())) {
      for (const Module::Parameter& parameter : norm->parameters()) {
        if (!parameter.value.defined()) return std::nullopt;
      }
      const auto [scale, shift] = norm->coefficients();
      return PerChannel{scale, shift};
    }
    if (const PointwiseStep* step = only_step(op); step != nullptr && op.inputs.size() == 1 && step->operand < 0) {
      switch (step->function) {
        case Pointwise::add: return PerChannel{{}, {step->a}};
        case Pointwise::sub: return PerChannel{{}, {-step->a}};
        case Pointwise::mul: return PerChannel{{step->a}, {}};
        default: return std::nullopt;
      }
    }
    std::vector<Module::Operand> operands;
    for (const int input : op.inputs) {
      const Tensor& constant = program_.value(input).constant;
      operands.push_back({constant.defined() ? 0 : Module::Operand::own, constant});
    }
    return per_channel(*op.module, operands, shape(op.output).extents()[1], 2);
  }

  void merge(Operation& op, const Sum& sum) {
    const Operation& carrier = operation(sum.carrier);
    geometry_ = geometry(sum.carrier);
    weights_.assign(static_cast<std::size_t>(plain_convolution(carrier)->weight.numel()), 0.0);
    bias_.assign(static_cast<std::size_t>(geometry_.out_channels), 0.0);
    Operation merged = op;
    merged.inputs = {sum.source};
    add(op.output, sum.source, std::vector(bias_.size(), 1.0), merged);

    const auto& conv = dynamic_cast<const Conv2d&>(*carrier.module);
    Tensor weight(conv.weight().shape()), bias(Shape{geometry_.out_channels});
    if (!rounded(weights_, storage_type(options_.precision), weight) || !rounded(bias_, DType::f32, bias)) return;
    merged.module = conv.with_factors(std::move(weight), std::move(bias), false);
    join(op, std::move(merged), {});
  }

  /// Adds a value, times a number for each channel, to the weights and the bias.
  void add(int value, int source, std::vector<double> times, Operation& merged) {
    if (value == source) return add(identity(geometry_), {}, times);
    const Operation& op = *computes(value);
    if (value != merged.output) take_names(merged, op);
    if (const auto conv = plain_convolution(op)) {
      add(conv->geometry, conv->weight.values<float>(), times);
      if (conv->bias.defined()) add_to_bias(times, [&](std::size_t c) { return conv->bias.values<float>()[c]; });
    } else if (const auto terms = two_terms(op)) {
      add(terms->first, source, times, merged);
      for (double& factor : times) factor *= terms->sign;
      add(terms->second, source, std::move(times), merged);
    } else {
      const PerChannel factors = *factors_of(op);
      if (!factors.shift.empty()) add_to_bias(times, [&](std::size_t c) { return of_channel(factors.shift, c); });
      for (std::size_t c = 0; c < times.size() && !factors.scale.empty(); ++c) times[c] *= of_channel(factors.scale, c);
      add(only_unknown(op), source, std::move(times), merged);
    }
  }

  template <class Number>
  void add_to_bias(const std::vector<double>& times, Number number) {
    for (std::size_t c = 0; c < bias_.size(); ++c) bias_[c] += times[c] * static_cast<double>(number(c));
  }

  /// Adds the weights [out, in / groups, rows, columns] of a convolution; if there are none, each is 1.
  void add(const ConvGeometry& g, std::span<const float> weights, const std::vector<double>& times) {
    const int filters = g.out_channels / g.groups, channels = g.group_in_channels();
    const int wide_filters = geometry_.out_channels / geometry_.groups, wide_channels = geometry_.group_in_channels();
    const auto in_window = static_cast<std::size_t>(geometry_.kernel_height * geometry_.kernel_width);
    std::vector<std::size_t> taps;  // by tap of this window: the tap of the wide window at its place
    for (int r = 0; r < g.kernel_height; ++r) {
      for (int s = 0; s < g.kernel_width; ++s) {
        const int tap = same_row(g, r, geometry_) * geometry_.kernel_width + same_column(g, s, geometry_);
        taps.push_back(static_cast<std::size_t>(tap));
      }
    }
    std::size_t from = 0;
    for (int o = 0; o < g.out_channels; ++o) {
      const double scale = times[static_cast<std::size_t>(o)];
      const std::size_t filter = static_cast<std::size_t>(o) * static_cast<std::size_t>(wide_channels);
      const int first = o / filters * channels - o / wide_filters * wide_channels;  // within the wide group
      for (int c = first; c < first + channels; ++c) {
        double* const window = &weights_[(filter + static_cast<std::size_t>(c)) * in_window];
        for (const std::size_t tap : taps) {
          window[tap] += scale * (weights.empty() ? 1.0 : static_cast<double>(weights[from]));
          ++from;
        }
      }
    }
  }

  /// Rounds numbers to f32; false if `type` cannot hold them.
  static bool rounded(const std::vector<double>& exact, DType type, Tensor& to) {
    const double largest = type == DType::f16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
    std::ranges::transform(exact, to.values<float>().begin(), [](double value) { return static_cast<float>(value); });
    return std::ranges::all_of(exact, [=](double value) { return std::abs(value) <= largest; });
  }

  std::vector<Sum> sums_;  // by value
  ConvGeometry geometry_;  // of the convolution that is being made
  std::vector<double> weights_, bias_;
};

}  // namespace

void merge_branches(Program& program, const CompileOptions& options) { Branches(program, options).merge(); }

}  // namespace lamina::detail
