#pragma once

#include "lamina/cuda/conv2d/first_layer/team.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"

/// The products of one tile: the k16 steps of the host's table, by one warpgroup.
namespace lamina::cuda::first_layer {

/// K-major operands without swizzle: `low` holds the first core matrix's unit and, in the upper half, how many units on
/// the next along K is; the next 8 rows follow 128 bytes on. The rows of A may overlap: that is what spares the
/// unfolding.
__device__ __forceinline__ std::uint64_t operand(std::uint32_t low) {
  return ptx::descriptor<ptx::Swizzle::none, 8 * unit_bytes>(low);
}

/// `count` k16 steps from `begin` on, as one group of asynchronous products. (ptxas keeps them asynchronous only while
/// it sees fence, products and commit in one run, and the accumulators in the same registers: watch its log for C75xx.)
template <int count, class Step>
__device__ __forceinline__ void run_steps(int begin, Step step) {
  ptx::wgmma_fence();
#pragma unroll
  for (int i = 0; i < count; ++i) step(begin + i);
  ptx::wgmma_commit();
}

/// Calls `step(s, a)` for each k16 step s of a group, `a` being the first unit of the ring row it reads.
template <bool unrolled, class Step>
__device__ __forceinline__ void for_each_step(const StepGroup& group, std::uint32_t a, Step step) {
  const auto at_a = [&](int s) { step(s, a); };
  if (unrolled && group.end - group.begin == 3 * steps_per_round) {
    run_steps<3 * steps_per_round>(group.begin, at_a);
  } else {
#pragma unroll 1
    for (int s = group.begin; s < group.end; s += steps_per_round) run_steps<steps_per_round>(s, at_a);
  }
}

/// One tile's products, added to `sum` [filters / 2] in fragment order; `meanwhile` runs while the tensor cores do.
template <Precision precision, int filters, class Meanwhile>
__device__ __forceinline__ void multiply(const Params& p, std::uint32_t ring, std::uint32_t weights, int first_slot,
                                         int column, float (&sum)[filters / 2], Meanwhile meanwhile) {
  using M = Mode<precision>;
  using Operand = typename M::Operand;
  constexpr int b_columns = columns<precision, filters>;
  constexpr std::uint32_t b_step = b_columns * 2;                    // 16 K x columns x 2 bytes, in units
  const std::uint32_t b = weights | std::uint32_t{b_columns} << 16;  // the K halves are columns x 16 bytes apart
  const auto ring_row = [&](int shift) {
    const int slot = first_slot + shift;
    return ring + (slot < p.ring_rows ? slot : slot - p.ring_rows) * p.pitch + column;
  };
  if constexpr (!M::split) {
    // Accumulators of their own: if `sum` is read as bits later, it becomes integers, and so would they; ptxas then
    // moves all of them to other registers, and waits, before and after each group of products.
    float d[filters / 2];
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) d[i] = sum[i];
    ptx::pin(d);
#pragma unroll 1
    for (int g = 0; g < p.groups; ++g) {
      for_each_step<true>(p.group[g], ring_row(p.group[g].shift), [&](int s, std::uint32_t a) {
        ptx::wgmma<Operand>(d, operand(a + p.step[s]), operand(b + s * b_step), true);
      });
    }
    meanwhile();
    ptx::wgmma_wait<0>();
    ptx::pin(d);
#pragma unroll
    for (int i = 0; i < filters / 2; ++i) sum[i] = d[i];
  } else {
    // `high`: high * high, then high * residual; `low`: residual * high, like its neighbour residual_scale times too
    // large. Folded into `sum` after each group, before the truncation of a long chain shows.
    const std::uint32_t residual = p.phases * p.channels * p.plane_units;
#pragma unroll 1
    for (int g = 0; g < p.groups; ++g) {
      const StepGroup group = p.group[g];
      const std::uint32_t a_first = ring_row(group.shift);
      float high[filters], low[filters / 2];
      ptx::pin(high), ptx::pin(low);
      for_each_step<false>(group, a_first, [&](int s, std::uint32_t a) {
        ptx::wgmma<Operand>(high, operand(a + p.step[s]), operand(b + s * b_step), s != group.begin);
      });
      for_each_step<false>(group, a_first + residual, [&](int s, std::uint32_t a) {
        ptx::wgmma<Operand>(low, operand(a + p.step[s]), operand(b + s * b_step), s != group.begin);
      });
      if (g == 0) meanwhile();
      ptx::wgmma_wait<0>();
      ptx::pin(high), ptx::pin(low);
#pragma unroll
      for (int i = 0; i < filters / 2; ++i) {
        sum[i] = fmaf(high[filters / 2 + i] + low[i], 1.0f / residual_scale, sum[i]) + high[i];
      }
    }
  }
}

}  // namespace lamina::cuda::first_layer
