#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/operand_rows.h"
#include "lamina/tensor/conv_geometry.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of the channels-last convolution agree on. docs/nhwc.md has the pictures.
namespace lamina::cuda::nhwc {

inline constexpr int block_filters = 64;                        // the rows of one wgmma; what one warpgroup owns
inline constexpr int block_bytes = block_filters * step_bytes;  // of weights, per step
inline constexpr int most_stages = 8;
inline constexpr int most_splits = 8;  // of K: the blocks of a cluster

/// Fragments of eight pixels that each block finishes of a tile of `pixels` whose K is split; the last may have fewer.
__host__ __device__ constexpr int fragments_owned(int pixels, int splits) { return (pixels / 8 + splits - 1) / splits; }

/// Bytes for the sums that land in each block of a split tile of `groups` times 64 filters.
__host__ __device__ constexpr int landing_bytes(int groups, int pixels, int splits) {
  return splits * fragments_owned(pixels, splits) * 8 * groups * block_filters * static_cast<int>(sizeof(float));
}

/// Where a block's shared memory behind the ring begins to be barriers. Sums land behind the ring or, if there is no
/// room (`in_ring`), in the place of its operands, once the whole cluster has no more use for them.
__host__ __device__ constexpr int barrier_offset(int ring_bytes, int store_bytes, int landing, bool in_ring) {
  const int behind = ring_bytes + (landing == 0 ? store_bytes : in_ring ? 0 : landing);
  return behind > landing ? behind : landing;
}

struct Arguments {
  ConvGeometry geometry;
  const void* input = nullptr;          // [N, H, W, C]
  const void* weight = nullptr;         // [m_tiles * groups of 64 filters, steps, 64, 128 bytes], rows swizzled
  const float* bias = nullptr;          // [m_tiles * groups * 64], zeros where there is none
  const FilterRange* ranges = nullptr;  // [m_tiles * groups * 64], fp32 only
  void* output = nullptr;               // [N, OH, OW, OC]
  DType output_type = DType::f32;
  bool relu = false;
  int pixels = 0;                // N * OH * OW
  int m_tiles = 0, n_tiles = 0;  // of filters, of pixels
  int steps = 0;                 // slabs of channels * taps, the taps of a slab together
  int stages = 0;                // of the ring in shared memory
  int multicast = 1;             // blocks of a cluster, each with pixels of its own, that share the weights' copies
  int splits = 1;                // blocks of a cluster that share one tile, each with a piece of K
  bool in_ring = false;          // where their sums land
};

/// One compiled tile: groups * 64 filters x pixels, multiplied by `groups` warpgroups, with `helpers` more to feed
/// them.
struct Tile {
  int groups = 0, pixels = 0, helpers = 1;
  int resident = 1;              // blocks whose registers one multiprocessor has
  int stage_bytes = 0;           // of the ring
  int store_pixels = 0;          // of a store buffer, in 16 bits; half as many in f32
  int store_bytes = 0;           // of shared memory behind the ring
  const void* kernel = nullptr;  // __global__ void(Arguments, CUtensorMap input, CUtensorMap output)

  int threads() const { return (groups + helpers) * 128; }
  int shared_bytes(int stages, int splits, bool in_ring) const {
    return barrier_offset(stages * stage_bytes, store_bytes, splits > 1 ? landing_bytes(groups, pixels, splits) : 0,
                          in_ring) +
           (3 * most_stages + 1) * static_cast<int>(sizeof(std::uint64_t));
  }
};

/// Every tile of one operand type; empty in a build without sm_90a code.
std::vector<Tile> tiles_fp16();
std::vector<Tile> tiles_bf16();
std::vector<Tile> tiles_tf32();
std::vector<Tile> tiles_fp32();

}  // namespace lamina::cuda::nhwc
