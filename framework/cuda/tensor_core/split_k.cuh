#pragma once

#include <cstdint>

#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/tensor_core/split_k.h"

/// The sums of a tile whose K is split over the blocks of a cluster. Each block owns some fragments of the tile, and
/// every block sends its sums of them there: stores that count themselves at a barrier of the owner, so that nobody
/// reads across the cluster or waits for more than what it is sent. The owner adds them in the order of the blocks, so
/// that the bits are the same every time, and finishes them.
namespace lamina::cuda {

/// The steps of K, or chains of them, [first, end) that a block takes of `total`.
struct KPiece {
  int first, end;

  __device__ __forceinline__ KPiece(int total, int splits, int rank) {
    const int each = total / splits, more = total % splits;
    first = rank * each + min(rank, more);
    end = first + each + (rank < more);
  }
  __device__ __forceinline__ int count() const { return end - first; }
};

/// The fragments [first, last) that a block owns; `size`: fragments_owned.
struct OwnFragments {
  int size, first, last;

  __device__ __forceinline__ OwnFragments(int fragments, int each, int rank)
      : size(each), first(rank * size), last(min(first + size, fragments)) {}
};

/// Sends four sums to where `place`, an address in this block's shared memory, is in the owner's; `landed` there
/// counts.
__device__ __forceinline__ void send_sums(std::uint32_t place, float4 sums, std::uint64_t* landed,
                                          std::uint32_t owner) {
  ptx::store_counted(ptx::in_block(place, owner), sums, ptx::in_block(ptx::shared_address(landed), owner));
}

/// Adds up what has landed: `count` parts, `apart` from one to the next.
__device__ __forceinline__ float4 add_parts(const float4* part, int count, int apart) {
  float4 sum = *part;
#pragma unroll 4
  for (int i = 1; i < count; ++i) {
    const float4 more = part[i * apart];
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  }
  return sum;
}

}  // namespace lamina::cuda
