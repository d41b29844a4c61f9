#pragma once

#include <cuda_runtime.h>

/// Where operands that are packed for mma.sync lie.
namespace lamina::cuda {

/// Of the second operand, 8 columns of 32 bytes of K each: which lane has term k of a column, and which of the lane's
/// elements it is. PTX ISA, "mma.m16n8k16" (elements of 2 bytes) and "mma.m16n8k8" (of 4).
struct FragmentPlace {
  int lane, element;
};

__host__ __device__ constexpr FragmentPlace fragment_place(int element_bytes, int k, int column) {
  const int of_word = 4 / element_bytes, half = 4 * of_word;
  return {column * 4 + k % half / of_word, k / half * of_word + k % of_word};
}

/// Where a filter's weights stand for a lane to have 2 n neighbouring filters: columns 2 t and 2 t + 1 of fragment j
/// are its filters 2 j and 2 j + 1.
struct FilterPlace {
  int slice, fragment, column;
};
__host__ __device__ constexpr FilterPlace filter_place(int filter, int n) {
  return {filter / (8 * n), filter % (2 * n) / 2, filter % (8 * n) / (2 * n) * 2 + filter % 2};
}

}  // namespace lamina::cuda
