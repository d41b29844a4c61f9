#pragma once

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/finish.h"
#include "lamina/cuda/pointwise_functions.cuh"

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

/// v sigmoid(v); of what is rounded to 16 bits, by the special functions.
template <class T>
__device__ __forceinline__ float silu(float v) {
  if constexpr (sizeof(T) == 4) return v * sigmoid_of(v);
  return __fdividef(v, 1.0f + __expf(-v));
}

/// What is inlined: everything but Kind::chain. NaN stays NaN.
template <class T, int n>
__device__ __forceinline__ void apply_inlined(const Finish& finish, float (&values)[n], const float (&residual)[n]) {
#pragma unroll
  for (int j = 0; j < n; ++j) values[j] += residual[j];
  if (finish.kind == Finish::Kind::clamp) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const float v = values[j];
      values[j] = v < finish.low ? finish.low : v > finish.high ? finish.high : v;
    }
  } else if (finish.kind == Finish::Kind::silu) {
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] = silu<T>(values[j]);
  } else {
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] *= clipped(values[j] * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
  }
}

/// All of it, of elements that will be rounded to T.
template <class T, int n>
__device__ __forceinline__ void apply(const Finish& finish, float (&values)[n], const float (&residual)[n]) {
  if (finish.kind != Finish::Kind::chain) return apply_inlined<T>(finish, values, residual);
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

}  // namespace lamina::cuda
