#pragma once

#include <cuda_runtime.h>

#include <cstdint>

/// What the tensor-core kernels with packed weights share: how an operand's rows lie in memory, how f32 is rounded to
/// TF32, and what fp32 knows of a filter.
namespace lamina::cuda {

inline constexpr int step_bytes = 128;  // of K in every row of a tile: eight 16-byte chunks, the span of all banks

/// Byte `column` of row `row` in a tile of 128-byte rows: the 128-byte swizzle of TMA and wgmma. The exclusive-or
/// spreads one 16-byte column of eight consecutive rows over all 32 banks, which is what ldmatrix reads
/// and cp.async writes.
__host__ __device__ constexpr int swizzled(int row, int column) { return row * step_bytes + (column ^ (row & 7) << 4); }

/// The bits of an f32 rounded to TF32: to nearest, ties away from zero, except that what is finite stays so. (cvt.rna
/// would overflow, and devices before compute capability 8.0, which the textbook kernels serve too, lack it.)
__host__ __device__ constexpr std::uint32_t round_to_tf32(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffe000u;
  return (magnitude >= 0x7f7ff000u ? bits : bits + 0x1000u) & 0xffffe000u;
}

/// What the epilogue of fp32 knows of a filter. Its packed weights are multiplied by a power of two that `scale`
/// undoes, or is NaN if no power brings them into the reach of the split; scaled sums below `smallest` can come from
/// subnormal inputs alone, whose low words are no longer small beside them. Both are summed exactly.
struct FilterRange {
  float scale = 1.0f;
  float smallest = 0.0f;
};

/// Whether a sum that `range.scale` has been applied to must be summed again, exactly.
__host__ __device__ constexpr bool rare(float y, const FilterRange& range) {
  const float magnitude = y < 0.0f ? -y : y;
  return !(magnitude < __builtin_inff()) || (magnitude < range.smallest && y != 0.0f);
}

/// The factor for a sum found exactly, from the packed weights.
__host__ __device__ constexpr float exact_scale(const FilterRange& range) {
  return range.scale == range.scale ? range.scale : 1.0f;
}

}  // namespace lamina::cuda
