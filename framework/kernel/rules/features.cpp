#include "lamina/kernel/rules/features.h"

#include <type_traits>

#include "lamina/kernel/all_problems.h"
#include "lamina/kernel/preparation.h"

// Members of problems, of what stands in them and of Preparations are named all together, by structured bindings, so
// that a new one does not compile before it stands here.
namespace lamina {
namespace {

/// No kernel reads it.
constexpr Features nonsense = 1u << 31;

Features when(bool has, Features feature) { return has ? feature : 0; }

Features of(const View& view) {
  const auto& [shape, format, channels, strides, alignment, quantization] = view;
  return when(view.is_slice(), reads::slices) | when(view.is_strided(), reads::strides) |
         when(quantization.defined(), reads::codes);
}

/// Of a chain the steps that are about codes.
Features of(const PointwiseChain& chain) {
  Features result = 0;
  for (const auto& [function, operand, second, a, b, codes, type, table] : chain) {
    result |=
        when(function == Pointwise::to_codes, reads::sum_codes) | when(function == Pointwise::look_up, reads::table);
  }
  return result;
}

Features of(const Epilogue& epilogue) {
  const auto& [chain, pool] = epilogue;
  return of(chain) | when(!epilogue.has_simple_chain(), reads::chain) |
         when(epilogue.reads_operands(), reads::operands) | when(pool.has_value(), reads::pool);
}

Features of_prologue(const PointwiseChain& chain) {
  if (chain.empty()) return 0;
  const bool rounds = chain.back().function == Pointwise::to_codes;
  if (chain.size() == 1 && rounds) return reads::rounding;
  if (chain[0] != PointwiseStep{.function = Pointwise::mul, .operand = 1} || chain.size() > (rounds ? 2 : 1))
    return nonsense;
  return reads::scaled | when(rounds, reads::product);
}

/// Weights, scales and biases count beside codes alone; what becomes of sums, `rest`, means nothing without any.
Features of(const EightBitWeights& eight, const Tensor& float_bias, bool codes, Features rest) {
  const auto& [weight, scale, zero_point, bias, bias_scale, whole] = eight;
  rest |= when(whole, reads::sums);
  if (!codes && (rest & reads::rounding) == 0) {
    constexpr Features of_codes = reads::sums | reads::sum_codes | reads::table | reads::product;
    return rest | when((rest & of_codes) != 0, nonsense);
  }
  return rest | when(zero_point.defined(), reads::zero_points) |
         when(weight.defined() && float_bias.defined() && !bias.defined(), reads::float_bias);
}

/// A kind of problem, or of what stands in problems; what of it not every kernel reads (0: they read all); its members.
// clang-format off
#define LAMINA_HAS(Problem, features, ...)                                                    \
  [[maybe_unused]] Features of(const Problem& problem, [[maybe_unused]] bool codes = false) { \
    [[maybe_unused]] const auto& [__VA_ARGS__] = problem; return features; }
LAMINA_HAS(ConvGeometry, when(problem.is_uneven(), reads::uneven), batch, in_channels, in_height, in_width, out_channels,
           out_height, out_width, kernel_height, kernel_width, stride_height, stride_width, padding_height,
           padding_width, dilation_height, dilation_width, groups)
LAMINA_HAS(PoolGeometry, 0, planes, in_height, in_width, out_height, out_width, kernel_height, kernel_width,
           stride_height, stride_width, padding_height, padding_width, dilation_height, dilation_width, count_padding)
LAMINA_HAS(Bins, reads::boxes, max, half_pixel, sampling_ratio, spatial_scale)
LAMINA_HAS(LocalResponse, 0, images, channels, pixels, size, alpha, beta, k)
LAMINA_HAS(MoveProblem::Axis, 0, extent, stride, offsets) LAMINA_HAS(ResampleProblem::Axis, 0, dim, taps, indices, weights)
LAMINA_HAS(MapView, 0, array, dtype, offset, strides, guards, tables, fill)
LAMINA_HAS(MapView::Guard, 0, strides, offset, extent) LAMINA_HAS(MapView::Table, 0, strides, offset, entries)
LAMINA_HAS(MapNode, 0, kind, from, view, number, function, reduction) LAMINA_HAS(MapProblem::Store, 0, node, view)
LAMINA_HAS(ConvProblem, of(eight, bias, codes, of(epilogue) | of_prologue(prologue) | of(geometry)),
           geometry, weight, bias, epilogue, prologue, eight)
LAMINA_HAS(LinearProblem, of(eight, bias, codes, of(epilogue)), rows, in, out, weight, bias, epilogue, eight)
LAMINA_HAS(ConvPairProblem, of(first, codes) | reads::behind(of(second, codes)), first, second, between)
LAMINA_HAS(ConvSumProblem, of(first, codes) | of(second), first, second, second_weight)
LAMINA_HAS(BottleneckProblem, of(wide, codes) | reads::behind(of(narrow, codes)), wide, narrow)
LAMINA_HAS(NormProblem, of(epilogue), length, eps, kind, inner, channels, scale, shift, epilogue)
LAMINA_HAS(SqueezeExciteProblem, of(squeeze, codes) | reads::behind(of(excite, codes)) | (norm ? of(*norm, codes) : 0),
           squeeze, excite, multiplies, norm, means, between, factors, product)
LAMINA_HAS(AffineProblem, of(epilogue), scale, shift, epilogue)
LAMINA_HAS(PointwiseProblem, of(chain), chain, compute)
LAMINA_HAS(AttentionProblem, 0, scale, causal, past) LAMINA_HAS(ConcatProblem, 0, dim)
LAMINA_HAS(CumulativeProblem, 0, dim, exclusive, reverse, product) LAMINA_HAS(GatherProblem, 0, kind, dim, batch_dims)
LAMINA_HAS(FindProblem, 0, kind, rule, centred, sorted)
LAMINA_HAS(GridSampleProblem, bins ? of(*bins) : 0, mode, padding, align_corners, bins) LAMINA_HAS(LocalResponseProblem, of(settings), settings)
LAMINA_HAS(MapProblem, 0, extents, reduced, loads, nodes, stores, compute, parameters)
LAMINA_HAS(MatMulProblem, 0, transpose_a, transpose_b, alpha) LAMINA_HAS(MoveProblem, 0, axes, fill)
LAMINA_HAS(NormalizationProblem, 0, table, bgr) LAMINA_HAS(PoolProblem, of(geometry), kind, geometry)
LAMINA_HAS(RecurrentProblem, 0, cell, directions, hidden, reverse, reset_after, input_forget, initial, lengths, clip, functions,
           weight, scale, bias, peepholes)
LAMINA_HAS(ReduceProblem, 0, kind, dims, last) LAMINA_HAS(ResampleProblem, 0, axes)
LAMINA_HAS(ScatterProblem, 0, kind, dim, reduction) LAMINA_HAS(SoftmaxProblem, 0, dim, kind)
LAMINA_HAS(TopKProblem, 0, dim, k, largest)
#undef LAMINA_HAS

static_assert(std::is_empty_v<ConversionProblem>);
Features of(const ConversionProblem&, bool) { return 0; }

}  // namespace
// clang-format on

template <class Problem>
Features features(const Problem& problem, const Preparation& p) {
  const auto& [inputs, outputs, device, precision, algorithm, linear_weights, threads, images, batch_invariant,
               workspace_limit, tuning, finding] = p;
  Features result = of(problem, p.has_codes());
  for (const View& view : inputs) result |= of(view);
  for (const View& view : outputs) result |= of(view);
  return result;
}

#define LAMINA_FEATURES(Problem) template Features features(const Problem&, const Preparation&);
LAMINA_ALL_PROBLEMS(LAMINA_FEATURES)
#undef LAMINA_FEATURES

}  // namespace lamina
