#pragma once

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/finish.h"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"

namespace lamina::cuda {

/// n neighbouring elements of the residual, or zeros where there is none.
template <class T, int n>
__device__ __forceinline__ void load_residual(const Finish& finish, std::int64_t index, float (&to)[n]) {
#pragma unroll
  for (int j = 0; j < n; ++j) to[j] = 0.0f;
  if (finish.residual == nullptr) return;
  const auto pack = *reinterpret_cast<const Pack<T, n>*>(static_cast<const T*>(finish.residual) + index);
#pragma unroll
  for (int j = 0; j < n; ++j) to[j] = to_f32(pack.values[j]);
}

/// The chain step by step. Every thread takes the same branches.
template <int n>
__device__ __forceinline__ void apply_chain(const Finish& finish, float (&values)[n], const float (&residual)[n]) {
#pragma unroll 1
  for (int s = 0; s < finish.steps; ++s) {
    const ChainStep<float>& step = finish.step[s];
    if (step.operand >= 0) {
#pragma unroll
      for (int j = 0; j < n; ++j) values[j] += residual[j];
      continue;
    }
    float x[n], y[n];
#pragma unroll
    for (int j = 0; j < n; ++j) x[j] = step.a, y[j] = step.b;
    apply_common(step.function, values, x, y);
  }
}

/// The same of what few networks have, as one function for all kernels that may be called from.
static __device__ __noinline__ float4 apply_called(const Finish& finish, float4 value, float4 residual) {
  float v[4] = {value.x, value.y, value.z, value.w};
  const float r[4] = {residual.x, residual.y, residual.z, residual.w};
  apply_chain(finish, v, r);
  return {v[0], v[1], v[2], v[3]};
}

/// 1 / v and e^v within 2 ulp by the special functions, without the care that tiny numbers would need: it costs more
/// than the functions.
__device__ __forceinline__ float reciprocal16(float v) { return ptx::reciprocal(v); }
__device__ __forceinline__ float exponential16(float v) { return ptx::exp2(v * 1.44269504f); }

/// v sigmoid(v); of what is rounded to 16 bits, by the special functions.
template <class T>
__device__ __forceinline__ float silu(float v) {
  if constexpr (sizeof(T) == 4) return v * sigmoid_of(v);
  return v * reciprocal16(1.0f + exponential16(-v));
}

/// v between the two; NaN stays NaN. Without branches: the compiler made some of comparisons here, which threads took
/// one after the other (experiment C22).
__device__ __forceinline__ float clamped(float v, float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return ptx::min_nan(ptx::max_nan(v, low), high);
#else
  return v < low ? low : v > high ? high : v;
#endif
}

/// v times the normal distribution's sum up to v, within 2e-7 of the larger of v and 1: for what is rounded to 16 bits.
/// Source: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), 7.1.26.
__device__ __forceinline__ float gelu16(float v) {
  constexpr float root_of_half = 0.70710678f;
  const float t = reciprocal16(fmaf(0.3275911f * root_of_half, fabsf(v), 1.0f));
  float sum = fmaf(0.5f * 1.061405429f, t, 0.5f * -1.453152027f);
  sum = fmaf(sum, t, 0.5f * 1.421413741f);
  sum = fmaf(sum, t, 0.5f * -0.284496736f);
  sum = fmaf(sum, t, 0.5f * 0.254829592f);
  const float tail = sum * t * exponential16(-0.5f * v * v);
  return v * (v < 0.0f ? tail : 1.0f - tail);
}

/// One of what is inlined: everything but Kind::chain. NaN stays NaN.
template <Finish::Kind kind, class T>
__device__ __forceinline__ float finished(const Finish& finish, float v) {
  if constexpr (kind == Finish::Kind::clamp) return clamped(v, finish.low, finish.high);
  if constexpr (kind == Finish::Kind::silu) return silu<T>(v);
  if constexpr (kind == Finish::Kind::gelu) return gelu16(v);
  if constexpr (kind == Finish::Kind::leaky) return v < 0.0f ? v * finish.low : v;
  return v * clipped(v * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
}

/// Calls f with the kind as a constant. Precondition: it is not Kind::chain.
template <class F>
__device__ __forceinline__ void with_kind(Finish::Kind kind, F&& f) {
  using Kind = Finish::Kind;
  switch (kind) {
    case Kind::silu: return f(std::integral_constant<Kind, Kind::silu>());
    case Kind::gelu: return f(std::integral_constant<Kind, Kind::gelu>());
    case Kind::hard_swish: return f(std::integral_constant<Kind, Kind::hard_swish>());
    case Kind::leaky: return f(std::integral_constant<Kind, Kind::leaky>());
    default: return f(std::integral_constant<Kind, Kind::clamp>());
  }
}

template <class T, int n>
__device__ __forceinline__ void apply_inlined(const Finish& finish, float (&values)[n], const float (&residual)[n]) {
#pragma unroll
  for (int j = 0; j < n; ++j) values[j] += residual[j];
  with_kind(finish.kind, [&](auto kind) {
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] = finished<kind.value, T>(finish, values[j]);
  });
}

/// A chain, four elements at a time.
template <int n>
__device__ __forceinline__ void call_chain(const Finish& finish, float (&values)[n], const float (&residual)[n]) {
#pragma unroll
  for (int j = 0; j < n; j += 4) {
    const auto at = [&](const float(&from)[n], int i) { return j + i < n ? from[(j + i) % n] : 0.0f; };
    const float4 y = apply_called(finish, {at(values, 0), at(values, 1), at(values, 2), at(values, 3)},
                                  {at(residual, 0), at(residual, 1), at(residual, 2), at(residual, 3)});
    const float result[4] = {y.x, y.y, y.z, y.w};
#pragma unroll
    for (int i = 0; i < 4 && j + i < n; ++i) values[j + i] = result[i];
  }
}

/// All of it, of elements that will be rounded to T.
template <class T, int n>
__device__ __forceinline__ void apply(const Finish& finish, float (&values)[n], const float (&residual)[n]) {
  if (finish.kind == Finish::Kind::chain) return call_chain(finish, values, residual);
  apply_inlined<T>(finish, values, residual);
}

}  // namespace lamina::cuda
