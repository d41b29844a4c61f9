#include "lamina/kernel/rules/features.h"

#include <type_traits>

#include "lamina/kernel/all_problems.h"
#include "lamina/kernel/preparation.h"

// Members are named all together, by structured bindings, so that a new one does not compile before it stands here.
namespace lamina {
namespace {

/// No kernel reads it.
constexpr Features nonsense = 1u << 15;

Features when(bool has, Features feature) { return has ? feature : 0; }

Features of(const View& view) {
  const auto& [shape, format, channels, strides, alignment, quantization] = view;
  return when(view.is_slice(), reads::slices) | when(view.is_strided(), reads::strides) |
         when(quantization.defined(), reads::codes);
}

Features of(const Epilogue& epilogue) {
  const auto& [chain, pool] = epilogue;
  return when(!epilogue.has_simple_chain(), reads::chain) | when(epilogue.reads_operands(), reads::operands) |
         when(pool.has_value(), reads::pool);
}

/// Weights, scales and biases count beside codes alone; what becomes of sums means nothing without any.
Features of(const EightBitWeights& eight, const Tensor& float_bias, bool codes) {
  const auto& [weight, scale, zero_point, bias, bias_scale, whole, sum_codes, sum_type, table, input, input_type,
               product] = eight;
  const Features rounding = when(input.defined(), reads::rounding);
  const Features ends = when(whole, reads::sums) | when(sum_codes.defined(), reads::sum_codes) |
                        when(table != nullptr, reads::table) | when(product.defined(), reads::product);
  if (!codes && !rounding) return when(ends != 0, ends | nonsense);
  return rounding | ends | when(zero_point.defined(), reads::zero_points) |
         when(weight.defined() && float_bias.defined() && !bias.defined(), reads::float_bias);
}

Features of(const ConvProblem& problem, bool codes) {
  const auto& [geometry, weight, bias, epilogue, scaled, eight] = problem;
  return of(epilogue) | when(scaled, reads::scaled) | of(eight, bias, codes);
}

Features of(const LinearProblem& problem, bool codes) {
  const auto& [rows, in, out, weight, bias, epilogue, eight] = problem;
  return of(epilogue) | of(eight, bias, codes);
}

Features of(const ConvPairProblem& problem, bool codes) {
  const auto& [first, second, between] = problem;
  return of(first, codes) | reads::behind(of(second, codes));
}

Features of(const ConvSumProblem& problem, bool codes) {
  const auto& [first, second, second_weight] = problem;
  return of(first, codes);
}

Features of(const BottleneckProblem& problem, bool codes) {
  const auto& [wide, narrow] = problem;
  return of(wide, codes) | reads::behind(of(narrow, codes));
}

Features of(const NormProblem& problem, bool) {
  const auto& [length, eps, kind, inner, channels, scale, shift, epilogue] = problem;
  return of(epilogue);
}

Features of(const SqueezeExciteProblem& problem, bool codes) {
  const auto& [squeeze, excite, multiplies, norm, means, between, factors, product] = problem;
  return of(squeeze, codes) | reads::behind(of(excite, codes)) | (norm ? of(*norm, codes) : 0);
}

Features of(const AffineProblem& problem, bool) {
  const auto& [scale, shift, epilogue] = problem;
  return of(epilogue);
}

Features of(const PointwiseProblem& problem, bool) {
  const auto& [chain, compute, table] = problem;
  return when(table != nullptr, reads::table);
}

/// Of these every kernel reads all members.
// clang-format off
#define LAMINA_ALL_READ(Problem, ...) \
  Features of(const Problem& problem, bool) { [[maybe_unused]] const auto& [__VA_ARGS__] = problem; return 0; }
LAMINA_ALL_READ(AttentionProblem, scale, causal, past) LAMINA_ALL_READ(ConcatProblem, dim)
LAMINA_ALL_READ(CumulativeProblem, dim, exclusive, reverse, product) LAMINA_ALL_READ(GatherProblem, kind, dim, batch_dims)
LAMINA_ALL_READ(GridSampleProblem, mode, padding, align_corners) LAMINA_ALL_READ(LocalResponseProblem, settings)
LAMINA_ALL_READ(MatMulProblem, transpose_a, transpose_b, alpha) LAMINA_ALL_READ(MoveProblem, axes, fill)
LAMINA_ALL_READ(NormalizationProblem, table, bgr) LAMINA_ALL_READ(PoolProblem, kind, geometry)
LAMINA_ALL_READ(ReduceProblem, kind, dims, last) LAMINA_ALL_READ(ResampleProblem, axes)
LAMINA_ALL_READ(ScatterProblem, kind, dim, reduction) LAMINA_ALL_READ(SoftmaxProblem, dim, kind)
LAMINA_ALL_READ(TopKProblem, dim, k, largest, places)
// clang-format on
#undef LAMINA_ALL_READ

                                static_assert(std::is_empty_v<ConversionProblem>);
Features of(const ConversionProblem&, bool) { return 0; }

}  // namespace

template <class Problem>
Features features(const Problem& problem, const Preparation& p) {
  Features result = of(problem, p.has_codes());
  for (const View& view : p.inputs) result |= of(view);
  for (const View& view : p.outputs) result |= of(view);
  return result;
}

#define LAMINA_FEATURES(Problem) template Features features(const Problem&, const Preparation&);
LAMINA_ALL_PROBLEMS(LAMINA_FEATURES)
#undef LAMINA_FEATURES

}  // namespace lamina
