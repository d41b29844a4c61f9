#pragma once

#include <cstdint>
#include <vector>

#include "lamina/cuda/conv2d/channels_last/arguments.h"

/// What the host and the device code of `bottleneck` agree on.
namespace lamina::cuda::channels_last::bottleneck {

inline constexpr int groups = 2;                              // warpgroups that multiply
inline constexpr int chunk_filters = groups * block_filters;  // of the wide map, at a time
inline constexpr int stage_bytes = 2 * block_bytes;           // of weights
inline constexpr int max_stages = 8, max_pixel_slots = 12, max_map_slots = 8;

struct Arguments {
  channels_last::Arguments wide, narrow;  // of each: geometry, bias, finish; of the wide one also second, pixels, adds
  /// [chunks, stages of a chunk, 2, 64, 128 bytes]: of each slab of the inputs' channels the filters of both
  /// warpgroups, then of each 64 narrow filters what meets the chunk's two slabs. Rows swizzled.
  const void* weight = nullptr;
  int chunks = 0;                  // of the wide map's filters
  int steps = 0, first_steps = 0;  // slabs of both inputs' channels; of the first one's
  int tiles = 0;
  int stages = 0;         // of the ring of weights
  bool resident = false;  // which holds all of them
  int pixel_slots = 0;    // for slabs of the inputs' pixels: a tile's at least
  int map_slots = 0;      // for 64 channels of either map: those of a chunk at least
};

/// One compiled tile: pixels, and blocks of 64 narrow filters.
struct Tile {
  int pixels = 0, blocks = 0;
  int narrow_columns = 0;        // pixels of the narrow map in a store
  const void* kernel = nullptr;  // __global__ void(Arguments, CUtensorMap first, beside, wide, narrow)

  static constexpr int threads() { return (groups + 1) * 128; }
  int slot_bytes() const { return pixels * step_bytes; }
  int shared_bytes(const Arguments& args) const {
    return (args.pixel_slots + args.map_slots) * slot_bytes() + args.stages * stage_bytes +
           2 * (max_stages + max_pixel_slots + max_map_slots) * static_cast<int>(sizeof(std::uint64_t));
  }
};

std::vector<Tile> tiles_fp16();

}  // namespace lamina::cuda::channels_last::bottleneck
