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
};

/// One compiled tile: groups * 64 filters x pixels, multiplied by `groups` warpgroups, with `helpers` more to feed
/// them.
struct Tile {
  int groups = 0, pixels = 0, helpers = 1;
  int stage_bytes = 0;           // of the ring
  int store_pixels = 0;          // of a store buffer, in 16 bits; half as many in f32
  int store_bytes = 0;           // of shared memory behind the ring
  const void* kernel = nullptr;  // __global__ void(Arguments, CUtensorMap input, CUtensorMap output)

  int threads() const { return (groups + helpers) * 128; }
  /// What a split tile's sums take in each of its blocks, in place of the ring.
  int partial_bytes() const { return pixels * (groups * block_filters + 4) * static_cast<int>(sizeof(float)); }
  int shared_bytes(int stages, int splits) const {
    const int ring = stages * stage_bytes;
    const int body = splits > 1 ? (ring > partial_bytes() ? ring : partial_bytes()) : ring + store_bytes;
    return (body + 7) / 8 * 8 + 3 * most_stages * static_cast<int>(sizeof(std::uint64_t));
  }
};

/// Every tile of one operand type; empty in a build without sm_90a code.
std::vector<Tile> tiles_fp16();
std::vector<Tile> tiles_bf16();
std::vector<Tile> tiles_tf32();
std::vector<Tile> tiles_fp32();

}  // namespace lamina::cuda::nhwc
