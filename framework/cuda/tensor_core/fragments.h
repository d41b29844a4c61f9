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

}  // namespace lamina::cuda
