#pragma once

#include <cuda_runtime.h>

/// Sums by plain fp32 multiply-adds, for the rare outputs that tensor cores cannot do: fp32's split has no terms for an
/// Inf (Inf - Inf is a NaN) and overflows a little early, an accumulator that overflows can turn to NaN instead of Inf,
/// and a zero that only fills up a fragment makes NaN of somebody else's Inf. All of these leave a sum that is not
/// finite, which is how they are found, and in fp32 one that is too small to trust (FilterRange).
namespace lamina::cuda {

/// Of at most 64 terms at a time: where all products are alike, every addition rounds the same way, and a long chain
/// would drift.
struct ExactSum {
  static constexpr int max_terms = 64;
  float sum = 0.0f, chain = 0.0f;

  __device__ __forceinline__ void add(float weight, float input) { chain = fmaf(weight, input, chain); }
  __device__ __forceinline__ void end_chain() { sum += chain, chain = 0.0f; }
};

}  // namespace lamina::cuda
