#pragma once

#include "lamina/cuda/conv2d/first_layer/modes.cuh"
#include "lamina/cuda/conv2d/first_layer/pixels.cuh"
#include "lamina/cuda/conv2d/first_layer/team.cuh"
#include "lamina/cuda/conv2d/first_layer/walk.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"
#include "lamina/cuda/ptx/barrier.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

/// Max pooling on the way out: the storing warpgroup reads the tiles as rows of the map, from a ring of pixels in
/// shared memory, and only the pooled map goes to memory. The map itself never does.
namespace lamina::cuda::first_layer {

/// The larger of two, element by element; NaN wins, as in PyTorch's max pooling.
template <class Out>
__device__ __forceinline__ uint4 larger(uint4 a, uint4 b) {
  using ptx::max_nan;
  return make_uint4(max_nan<Out>(a.x, b.x), max_nan<Out>(a.y, b.y), max_nan<Out>(a.z, b.z), max_nan<Out>(a.w, b.w));
}

/// One thread's share of a row of the pooled map: 16-byte units of its pixels' filters.
template <class Out, int filters>
struct PooledRow {
  static constexpr int row_bytes = Pixels<Out, filters>::row_bytes, pixel_units = row_bytes / 16;
  static constexpr int tasks = pool_tasks(sizeof(Out)), width = 16 / static_cast<int>(sizeof(Out));

  static constexpr int at_a_time = 128 / pixel_units;  // pixels, by as many threads as they have units

  const Params& p;
  std::uint32_t ring;  // [pool_ring_pixels][filters], shared
  int first_filter;
  int thread;
  uint4 largest[tasks] = {};

  /// Takes up a row of the map that begins at a position of the ring. `fresh`: nothing of this pooled row came before;
  /// `output`: [pool_width, OC] if it is the last one; and then `next`: the first of the next pooled row, too.
  __device__ __forceinline__ void take(int position, bool fresh, Out* output, bool next) {
    const int unit = thread % pixel_units, filter = first_filter + unit * width;
    int pixel = thread / pixel_units;
    ptx::pin(pixel);  // or the columns below would be worked out beforehand, and spilled
    if (thread >= at_a_time * pixel_units || filter >= p.out_channels) return;
    if (output != nullptr) output += filter;
#pragma unroll
    for (int i = 0; i < tasks; ++i, pixel += at_a_time) {
      if (pixel >= p.pool_width) break;
      const int column = pixel * p.pool_stride - p.pool_padding;
      uint4 row = load(position + max(column, 0), unit);
#pragma unroll
      for (int k = 1; k < 3; ++k) {
        // What lies outside the map or the window is replaced by what lies inside: the largest stays the same.
        const int inside = max(min(column + min(k, p.pool_kernel - 1), p.out_width - 1), 0);
        row = larger<Out>(row, load(position + inside, unit));
      }
      const uint4 so_far = fresh ? row : larger<Out>(largest[i], row);
      if (output != nullptr) *reinterpret_cast<uint4*>(output + pixel * p.pool_pitch) = so_far;
      largest[i] = next ? row : so_far;
    }
  }

 private:
  __device__ __forceinline__ uint4 load(int position, int unit) const {
    return ptx::load_shared<uint4>(ring + (position & (pool_ring_pixels - 1)) * row_bytes + unit * 16);
  }
};

/// The storing warpgroup's loop where the output is pooled.
template <class Out, int filters>
__device__ __forceinline__ void pool_rows(const Params& p, SharedControl& control, unsigned char* buffers, int split,
                                          int at, int last) {
  const int thread = threadIdx.x & 127;
  PooledRow<Out, filters> pooled{p, ptx::shared_address(buffers), split * filters, thread};
  for (PixelPlaces& places : control.places) {
    if (thread < tile_pixels) places.offset[thread] = thread * pooled.row_bytes;
  }
  for (std::uint64_t& free : control.buffer_free) ptx::barrier_arrive(&free);

  int full = 0, freed = 0, before = 0;  // tiles that are known to be full, given back, of earlier segments
  const auto wait_full = [&](int end) {
    for (; full < end; ++full) ptx::barrier_wait(&control.buffer_full[full % pool_buffers], full / pool_buffers & 1);
  };
  const auto give_back = [&](int end) {
    wait_full(end);
    for (; freed < end; ++freed) ptx::barrier_arrive(&control.buffer_free[freed % pool_buffers]);
  };
  wait_for_predecessor();  // it may still read what this one writes
  while (at < last) {
    const Segment segment(p, at, last);
    const std::int64_t row_elements = std::int64_t{p.pool_width} * p.pool_pitch;
    Out* output = static_cast<Out*>(p.output) + (segment.image * p.pool_height + segment.first_pooled) * row_elements;
    int top = segment.first_pooled * p.pool_stride - p.pool_padding;  // of the window at hand
    const auto bottom = [&] { return min(top + p.pool_kernel, p.out_height) - 1; };
    bool fresh = true;
    int left = segment.units;
    for (int row = segment.base_row; row < segment.end_row; ++row) {
      const int position = before * tile_pixels + (row - segment.base_row) * p.pitch;
      if (row >= top) wait_full((position + p.out_width - 1) / tile_pixels + 1);
      bool again = row >= top;
      while (again) {
        const bool complete = row == bottom(), next = complete && row >= top + p.pool_stride;
        pooled.take(position, fresh, complete ? output : nullptr, next);
        fresh = complete && !next;
        if (complete) top += p.pool_stride, output += row_elements, --left;
        again = next && left > 0 && row == bottom();  // the border has cut the next window down to this row
      }
      give_back((position + p.pitch) / tile_pixels);
    }
    before += segment.end;
    give_back(before);
    at += segment.units;
  }
}

}  // namespace lamina::cuda::first_layer
