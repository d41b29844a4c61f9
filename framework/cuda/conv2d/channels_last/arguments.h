#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/eight_bits_ends.h"
#include "lamina/cuda/finish.h"
#include "lamina/cuda/tensor_core/operand_rows.h"
#include "lamina/cuda/tensor_core/split_k.h"
#include "lamina/kernel/conv_geometry.h"
#include "lamina/kernel/neighbours.h"
#include "lamina/tensor/dtype.h"

/// What the host and the device code of the channels-last convolution agree on. docs/inside/channels_last.md has the
/// pictures.
namespace lamina::cuda::channels_last {

inline constexpr int block_filters = 64;                        // the rows of one wgmma; what one warpgroup owns
inline constexpr int block_bytes = block_filters * step_bytes;  // of weights, per step
inline constexpr int max_stages = 8;
inline constexpr int max_log2_buffers = 3;
inline constexpr int max_boxes = 8, max_halo_stages = 32;  // of halo/, in a block
inline constexpr int rectangle_width = 8;                  // in pixels: of the rows of eight that wgmma reads

/// What the tensor cores multiply, and how it comes to them: as it is stored; split while it is multiplied
/// (split.cuh); or as f16 that shares a power of two with its neighbours (scaled_rows.h), once or in pairs. `codes`: u8
/// or i8, and weights of i8.
enum class Operand { fp16, bf16, tf32, split_tf32, scaled_f16, scaled_pairs, codes };

__host__ __device__ constexpr bool is_scaled(Operand operand) {
  return operand == Operand::scaled_f16 || operand == Operand::scaled_pairs;
}

/// Channels in one step of K: what fills 128 bytes.
__host__ __device__ constexpr int step_terms(Operand operand) {
  switch (operand) {
    case Operand::tf32:
    case Operand::split_tf32:
    case Operand::scaled_pairs: return step_bytes / 4;
    case Operand::codes: return step_bytes;
    default: return step_bytes / 2;
  }
}

/// Rows of 128 bytes that a pixel's channels fill.
__host__ __device__ constexpr int slab_count(const ConvGeometry& geometry, Operand operand) {
  return (geometry.in_channels + step_terms(operand) - 1) / step_terms(operand);
}

/// Slabs whose channels share a power of two: each step's sums that do so are one chain.
__host__ __device__ constexpr int chain_slabs(Operand operand) { return is_scaled(operand) ? 2 : 1; }

/// Where in K a slab of a tap comes: slab by slab and in each all taps, but the slabs of a chain together. A last slab
/// that is alone has chains of its own.
__host__ __device__ constexpr int step_of(int slab, int tap, int slabs, int taps, int chain) {
  const int first = slab / chain * chain, width = slabs - first < chain ? slabs - first : chain;
  return first * taps + tap * width + (slab - first);
}

/// Steps of K: slabs of channels times taps.
__host__ __device__ constexpr int step_count(const ConvGeometry& geometry, Operand operand) {
  return slab_count(geometry, operand) * geometry.kernel_height * geometry.kernel_width;
}

/// Bytes for the sums that land in each block of a split tile of `groups` times 64 filters.
__host__ __device__ constexpr int landing_bytes(int groups, int pixels, int splits) {
  return splits * fragments_owned(pixels / 8, splits) * 8 * groups * block_filters * static_cast<int>(sizeof(float));
}

/// Where a block's shared memory behind the ring begins to be barriers. Sums land behind the ring or, if there is no
/// room (`in_ring`), in the place of its operands, once the whole cluster has no more use for them.
__host__ __device__ constexpr int barrier_offset(int ring_bytes, int store_bytes, int landing, bool in_ring) {
  const int behind = ring_bytes + (landing == 0 ? store_bytes : in_ring ? 0 : landing);
  return behind > landing ? behind : landing;
}

/// The first channel that is brought for filters from this one on, which see their groups' alone; TMA begins at whole
/// 16 bytes.
__host__ __device__ constexpr int first_channel(int filter, int group_filters, int group_channels) {
  return filter / group_filters * group_channels / 16 * 16;
}

/// The same product with the channels that one group sees.
constexpr ConvGeometry of_group(ConvGeometry geometry) {
  geometry.in_channels = geometry.group_in_channels(), geometry.groups = 1;
  return geometry;
}

/// Tiles that are rectangles, whose pixels come with their halo, all that their windows reach, as one box for each slab
/// (halo/kernel.cuh).
struct Halo {
  int across = 0, down = 0;   // tiles of an image
  int width = 0, height = 0;  // of a box, in pixels
  int boxes = 0;              // of each team, in shared memory
  bool resident = false;      // all weights of a block's filters stay in shared memory
  bool by_tap = false;        // boxes of one tap each, for windows that reach far: without a halo, and without those
                              // taps that no pixel of the rectangle sees

  __host__ __device__ constexpr int box_bytes() const { return (width * height * step_bytes + 1023) / 1024 * 1024; }
};

/// Of a window's taps, along one side, those of which some of `extent` neighbouring outputs sees a pixel: at least one.
/// `begin`: where the first tap of the first output is.
struct LiveTaps {
  int first, end;
  __host__ __device__ constexpr explicit LiveTaps(int taps) : first(0), end(taps) {}
  __host__ __device__ constexpr LiveTaps(int begin, int extent, int taps, int dilation, int in) : first(0), end(taps) {
    while (first + 1 < end && begin + first * dilation + extent <= 0) ++first;
    while (first + 1 < end && begin + (end - 1) * dilation >= in) --end;
  }
  __host__ __device__ constexpr int count() const { return end - first; }
};

struct Arguments {
  ConvGeometry geometry;
  const void* input = nullptr;          // [N, H, W, C]
  const void* weight = nullptr;         // [m_tiles * groups of 64 filters, steps, 64, 128 bytes], rows swizzled
  const float* bias = nullptr;          // [m_tiles * groups * 64], zeros where there is none
  const FilterRange* ranges = nullptr;  // [m_tiles * groups * 64], of split and scaled operands
  const float* scales = nullptr;        // [chains' slabs, N * H * W] of scaled operands
  void* output = nullptr;               // [N, OH, OW, OC]
  DType output_type = DType::f32;
  int in_pitch = 0, out_pitch = 0;  // elements from one pixel to the next: more than there are channels in a slice
  bool adds = false;                // Finish::residual, which comes by copies of its own
  bool chained = false;             // through store_chained
  bool pooled = false;              // maxima of 2 x 2 pixels are stored, OH / 2 x OW / 2 of them
  Finish finish;                    // of a sum, bias included
  int pixels = 0;                   // N * OH * OW
  int m_tiles = 0, n_tiles = 0;     // of filters, of pixels
  int steps = 0;                    // slabs of channels * taps, in the order of step_of, and then slabs of the second
  int first_steps = 0;              // those before the second
  ConvGeometry second = {};         // a further product of single pixels, of 16 bits, which is added to the first
  const void* second_input = nullptr;  // [N, second H, W, C]
  int paired = 0;                      // the first of them, of scaled operands, that come in chains of two
  int stages = 0;                      // of the ring in shared memory
  int multicast = 1;           // blocks of a cluster, each with pixels of its own, that share the weights' copies
  int splits = 1;              // blocks of a cluster that share one tile, each with a piece of K
  bool in_ring = false;        // where their sums land
  int log2_buffers = 1;        // of each warpgroup, for its outputs and for what is added to them
  eight_bits::Ends ends = {};  // of codes; for channels as `bias` has them
  const std::uint8_t* sums = nullptr;         // of codes, if `adds`: eight_bits::sums_bytes
  int group_filters = 0, group_channels = 0;  // of groups, 16 bits or codes: a tile sees its filters' channels alone
  bool is_signed = false;                     // codes are i8
  bool boxed = false;                         // they leave by TMA
  bool saturates = false;                     // to clamp them is to saturate
  eight_bits::Saturation saturation = {};
  Halo halo = {};
  Neighbours neighbours = {};
};

/// One compiled tile: groups * 64 filters x pixels, multiplied by `groups` warpgroups, with `helpers` to feed them.
struct Tile {
  Operand operand = Operand::fp16;
  int groups = 0, pixels = 0;
  int teams = 0;  // of `groups` warpgroups, which take such tiles in turn, where they are rectangles; 0: runs of pixels
  int helpers = 128;             // threads
  bool roomy = true;             // whether more than a clamp may be done to its sums
  bool adds_last = true;         // whether an addition may come behind a function
  bool pools = false;            // whether Arguments::pooled may be
  int max_filters = 0;           // that a layer may have; 0: any number
  int resident = 1;              // blocks whose registers one multiprocessor has
  int stage_bytes = 0;           // of the ring
  int store_pixels = 0;          // of a store buffer, in 16 bits; half as many in f32, twice as many codes
  const void* kernel = nullptr;  // __global__ void(Arguments, CUtensorMap input, output, residual)

  int threads() const { return groups * (teams > 0 ? teams : 1) * 128 + helpers; }
  /// `log2_buffers`: Arguments::log2_buffers, of which those for what is added have barriers.
  int shared_bytes(int stages, int splits, bool in_ring, bool adds, int log2_buffers) const {
    const int buffers = groups << log2_buffers, stores = buffers * store_pixels * step_bytes;
    return barrier_offset(stages * stage_bytes, stores, splits > 1 ? landing_bytes(groups, pixels, splits) : 0,
                          in_ring) +
           (3 * max_stages + 1) * static_cast<int>(sizeof(std::uint64_t)) +
           (adds ? 2 * buffers * static_cast<int>(sizeof(std::uint64_t)) : 0) +
           (adds && operand == Operand::codes ? eight_bits::sums_bytes + 16 : 0) +
           (is_scaled(operand) ? stages * pixels * static_cast<int>(sizeof(float)) : 0);
  }
};

/// Every tile of one operand.
std::vector<Tile> tiles_fp16();
std::vector<Tile> tiles_bf16();
std::vector<Tile> halo_tiles_fp16();
std::vector<Tile> halo_tiles_bf16();
std::vector<Tile> tiles_tf32();
std::vector<Tile> tiles_split_tf32();
std::vector<Tile> tiles_scaled_f16();
std::vector<Tile> tiles_scaled_pairs();
std::vector<Tile> tiles_codes();

}  // namespace lamina::cuda::channels_last
