#pragma once

// What a block of `bottleneck` keeps in shared memory, and the three threads that copy into it.

#include "lamina/cuda/conv2d/channels_last/bottleneck/arguments.h"
#include "lamina/cuda/conv2d/channels_last/epilogue.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/ring.cuh"

namespace lamina::cuda::channels_last::bottleneck {

/// What a block keeps in shared memory.
template <int n>
struct Memory {
  static constexpr int slot_bytes = n * step_bytes;
  unsigned char *pixels, *maps, *weights;
  std::uint64_t *pixels_full, *pixels_empty, *maps_full, *maps_empty, *full, *empty;

  __device__ Memory(unsigned char* base, const Arguments& args) : pixels(base) {
    maps = pixels + args.pixel_slots * slot_bytes;
    weights = maps + args.map_slots * slot_bytes;
    pixels_full = reinterpret_cast<std::uint64_t*>(weights + args.stages * stage_bytes);
    pixels_empty = pixels_full + max_pixel_slots;
    maps_full = pixels_empty + max_pixel_slots;
    maps_empty = maps_full + max_map_slots;
    full = maps_empty + max_map_slots;
    empty = full + max_stages;
  }
};

/// The thread that brings weights: they are not the kernel's before this one, and need not wait for it.
template <int n, int blocks>
__device__ __forceinline__ void bring_weights(const Arguments& args, const Memory<n>& memory) {
  const int stages = args.chunks * (args.steps + blocks);
  Ring ring{args.stages};
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    const auto* source = static_cast<const unsigned char*>(args.weight);
    for (int i = 0; i < stages; ++i, source += stage_bytes, ring.advance()) {
      ptx::barrier_wait(memory.empty + ring.stage, ring.parity ^ 1);
      ptx::barrier_arrive_expect(memory.full + ring.stage, stage_bytes);
      ptx::bulk_load(memory.weights + ring.stage * stage_bytes, source, stage_bytes, memory.full + ring.stage);
    }
    if (args.resident) return;
  }
}

/// The thread that brings the inputs' pixels.
template <int n>
__device__ __forceinline__ void bring_pixels(const Arguments& args, const CUtensorMap& first, const CUtensorMap& second,
                                             const Memory<n>& memory) {
  constexpr int slab = step_terms(Operand::fp16);
  wait_for_predecessor();
  Ring ring{args.pixel_slots};
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    const ptx::Corner corner = corner_of(args.wide.geometry, tile * n);
    ptx::Corner beside = corner;
    if (args.first_steps < args.steps) beside = corner_of(args.wide.second, tile * n);
    for (int step = 0; step < args.steps; ++step, ring.advance()) {
      std::uint64_t* full = memory.pixels_full + ring.stage;
      unsigned char* to = memory.pixels + ring.stage * Memory<n>::slot_bytes;
      ptx::barrier_wait(memory.pixels_empty + ring.stage, ring.parity ^ 1);
      ptx::barrier_arrive_expect(full, Memory<n>::slot_bytes);
      if (step < args.first_steps) {
        ptx::load_im2col(to, first, step * slab, corner, 0, 0, full);
      } else {
        ptx::load_im2col(to, second, (step - args.first_steps) * slab, beside, 0, 0, full);
      }
    }
  }
}

/// The thread that fills slots with what is added to the wide map's sums; of those to which nothing is, it says that
/// they are free.
template <int n, int blocks>
__device__ __forceinline__ void bring_added(const Arguments& args, const CUtensorMap& residual,
                                            const Memory<n>& memory) {
  if (args.wide.adds) wait_for_predecessor();
  Ring ring{args.map_slots};
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    for (int i = 0; i < args.chunks * groups + blocks; ++i, ring.advance()) {
      std::uint64_t* full = memory.maps_full + ring.stage;
      ptx::barrier_wait(memory.maps_empty + ring.stage, ring.parity ^ 1);
      if (!args.wide.adds || i >= args.chunks * groups) {
        ptx::barrier_arrive(full);
        continue;
      }
      ptx::barrier_arrive_expect(full, Memory<n>::slot_bytes);
      ptx::load_box(memory.maps + ring.stage * Memory<n>::slot_bytes, residual, i * block_filters, tile * n, full);
    }
  }
}

}  // namespace lamina::cuda::channels_last::bottleneck
