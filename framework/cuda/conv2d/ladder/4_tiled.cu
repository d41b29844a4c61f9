// Tiled convolution: the input under a tile of outputs is staged in shared memory once and used by all of them.
//
// A block owns `tile_pixels` consecutive output pixels of a strip of one image, times the output channels of its
// `channel_warps`. A thread owns thread_pixels x thread_channels outputs, held in registers: per kernel tap it reads
// thread_pixels inputs and thread_channels weights from shared memory and does their outer product, so 8 x 8
// outputs cost 8 single reads and 2 broadcast reads of 16 bytes per 64 multiply-adds.
// Lanes of a warp own neighbouring pixels of the same channels. With stride s they would read every s-th column and
// collide in the banks, so a staged row is stored by phase: columns 0, s, 2s, .. first, then 1, s + 1, ..; whatever
// the tap, neighbouring pixels then lie in neighbouring words.
// Shared memory: buffers x (stage_channels x stage_rows x row_pitch inputs +
// stage_channels x stage_kernel_rows x KW x weight_pitch weights) words; asynchronous copies fill the next stage's
// buffer meanwhile. Every thread of a block takes part in every stage and reaches every barrier; whatever lies outside
// the image is staged as zero.
// Preconditions: a plan of plan_conv2d_tiled for this geometry and device, weights packed for it.
// Source: shared-memory tiling as in Kirk and Hwu, Programming Massively Parallel Processors, chapter 16; register
// tiling as in Volkov and Demmel, Benchmarking GPUs to Tune Dense Linear Algebra (SC 2008).

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/ladder/4_tiled.cuh"
#include "lamina/cuda/conv2d/ladder/4_tiled.h"
#include "lamina/cuda/conv2d/ladder/window.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/runtime/launch.h"

namespace lamina::cuda {
namespace {

/// `channels` weights in a row.
template <int channels>
__device__ inline void load_weights(float (&w)[channels], const float* source) {
  if constexpr (channels % 4 == 0) {
#pragma unroll
    for (int i = 0; i < channels; i += 4) {
      const float4 four = *reinterpret_cast<const float4*>(source + i);
      w[i] = four.x, w[i + 1] = four.y, w[i + 2] = four.z, w[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < channels; ++i) w[i] = source[i];
  }
}

/// Where the base is the same for all lanes and the offset is in bytes, one shared-memory load does the addition.
__device__ inline float at_byte(const float* base, unsigned offset) {
  return *reinterpret_cast<const float*>(reinterpret_cast<const char*>(base) + offset);
}

/// Adds one stage's products to the chains.
template <int pixels, int channels>
__device__ inline void multiply_stage(const TiledPlan& plan, const TiledTaps& taps, int stage_channels, int stage_taps,
                                      const float* inputs, const float* weights, const unsigned (&offset)[pixels],
                                      float (&chain)[pixels][channels]) {
  for (int c = 0; c < stage_channels; ++c, inputs += plan.channel_pitch) {
#pragma unroll 4
    for (int tap = 0; tap < stage_taps; ++tap, weights += plan.weight_pitch) {
      const float* tap_inputs = inputs + taps.offset[tap];
      float x[pixels];
      float w[channels];
#pragma unroll
      for (int i = 0; i < pixels; ++i) x[i] = at_byte(tap_inputs, offset[i]);
      load_weights(w, weights);
#pragma unroll
      for (int i = 0; i < pixels; ++i) {
#pragma unroll
        for (int j = 0; j < channels; ++j) chain[i][j] = fmaf(w[j], x[i], chain[i][j]);
      }
    }
  }
}

/// Adds the chains to the outputs and clears them. The running sum lives in the output itself: kept in registers it
/// would double what a thread needs. The last chain brings the bias and the activation.
template <int pixels, int channels>
__device__ inline void flush(const ConvGeometry& g, const TiledPlan& plan, const Tile& tile, int first_channel,
                             int first_pixel, bool first, bool last, bool relu, float (&chain)[pixels][channels]) {
  constexpr int batch = channels % 4 == 0 ? 4 : 1;  // channels whose sums are on their way from memory at once
  const std::int64_t plane = std::int64_t{g.out_height} * g.out_width;
  // The places are the same for every flush. The compiler must not know: it would keep 64 addresses in registers
  // meanwhile.
  ptx::pin(first_pixel);
  int place[pixels];  // in the plane from the tile's first row on, or -1
#pragma unroll
  for (int i = 0; i < pixels; ++i) {
    const int in_tile = first_pixel + i * 32 * plan.pixel_warps;
    const int row = (tile.first_pixel + in_tile) / plan.strip_width;
    const int column = tile.first_column + tile.first_pixel + in_tile - row * plan.strip_width;
    const bool exists = in_tile < plan.tile_pixels && row < g.out_height && column < g.out_width;
    place[i] = exists ? (row - tile.first_row) * g.out_width + column : -1;
  }
#pragma unroll
  for (int j0 = 0; j0 < channels; j0 += batch) {
    float* const y = tile.output + (first_channel + j0) * plane + std::int64_t{tile.first_row} * g.out_width;
    float sum[pixels][batch] = {};
    if (!first) {
#pragma unroll
      for (int j = 0; j < batch; ++j) {
#pragma unroll
        for (int i = 0; i < pixels; ++i) {
          if (place[i] >= 0 && first_channel + j0 + j < tile.channels) sum[i][j] = y[j * plane + place[i]];
        }
      }
    }
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      const int channel = first_channel + j0 + j;
      const float bias = last && tile.bias != nullptr && channel < tile.channels ? tile.bias[channel] : 0.0f;
#pragma unroll
      for (int i = 0; i < pixels; ++i) {
        const float total = sum[i][j] + chain[i][j0 + j] + bias;
        if (place[i] >= 0 && channel < tile.channels) y[j * plane + place[i]] = last ? activate(total, relu) : total;
        chain[i][j0 + j] = 0.0f;
      }
    }
  }
}

template <int pixels, int channels, int warps>
__global__ void __launch_bounds__(32 * warps)
    conv2d_tiled_kernel(ConvGeometry g, TiledPlan plan, TiledTaps taps, Conv2dArguments arguments) {
  extern __shared__ float4 shared[];
  float* const buffers = reinterpret_cast<float*>(shared);  // [plan.buffers][inputs, weights]
  const int buffer_words = plan.input_words + plan.weight_words;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int channel_warp = warp / plan.pixel_warps;
  const int first_channel = channel_warp * channels;
  const int first_pixel = (warp - channel_warp * plan.pixel_warps) * 32 + static_cast<int>(threadIdx.x) % 32;
  const int kernel_stages = (g.kernel_height + plan.stage_kernel_rows - 1) / plan.stage_kernel_rows;
  const int stages = (g.in_channels / g.groups + plan.stage_channels - 1) / plan.stage_channels * kernel_stages;
  const int ahead = plan.buffers - 1;  // stages on their way while one is used

  for (std::int64_t work = blockIdx.x; work < plan.blocks; work += gridDim.x) {
    const Tile tile = locate(g, plan, arguments, work);

    unsigned offset[pixels];  // of the thread's pixels in a staged tile, in bytes
#pragma unroll
    for (int i = 0; i < pixels; ++i) {
      const int in_tile = first_pixel + i * 32 * plan.pixel_warps;
      const int pixel = tile.first_pixel + in_tile;
      const int row = pixel / plan.strip_width;
      const int tile_row = row - tile.first_row;
      const bool exists = in_tile < plan.tile_pixels && row < g.out_height;
      const int word = tile_row * g.stride_height * plan.row_pitch + pixel - row * plan.strip_width;
      offset[i] = exists ? static_cast<unsigned>(word) * sizeof(float) : 0;
    }

    float chain[pixels][channels] = {};
    int chain_length = 0;
    bool first = true;
    for (int step = 0; step < stages + ahead; ++step) {
      if (step < stages) {
        float* const buffer = buffers + step % plan.buffers * buffer_words;
        load_stage(g, plan, tile, stage_at(g, plan, step, kernel_stages), buffer, buffer + plan.input_words);
      }
      __pipeline_commit();
      if (step < ahead) continue;
      if (ahead == 0) {
        __pipeline_wait_prior(0);
      } else {
        __pipeline_wait_prior(1);
      }
      __syncthreads();
      const Stage stage = stage_at(g, plan, step - ahead, kernel_stages);
      const float* const buffer = buffers + (step - ahead) % plan.buffers * buffer_words;
      const int stage_taps = stage.kernel_rows * g.kernel_width;
      multiply_stage(plan, taps, stage.channels, stage_taps, buffer, buffer + plan.input_words + first_channel, offset,
                     chain);
      __syncthreads();  // the buffer is free again
      const bool last = step - ahead == stages - 1;
      chain_length += stage.channels * stage_taps;
      if (last || chain_length + plan.stage_channels * plan.stage_kernel_rows * g.kernel_width > max_chain) {
        flush(g, plan, tile, first_channel, first_pixel, first, last, arguments.relu, chain);
        first = false;
        chain_length = 0;
      }
    }
  }
}

using Kernel = void (*)(ConvGeometry, TiledPlan, TiledTaps, Conv2dArguments);

template <std::size_t i>
Kernel instance() {
  constexpr TiledVariant v = tiled_variants[i];
  return conv2d_tiled_kernel<v.thread_pixels, v.thread_channels, v.warps>;
}

Kernel kernel_for(const TiledPlan& plan) {
  switch (plan.variant) {
    case 0: return instance<0>();
    case 1: return instance<1>();
    case 2: return instance<2>();
    case 3: return instance<3>();
    case 4: return instance<4>();
    default: detail::fail("conv2d tiled: there is no variant ", plan.variant);
  }
}

}  // namespace

const void* conv2d_tiled_function(const TiledPlan& plan) { return reinterpret_cast<const void*>(kernel_for(plan)); }

void conv2d_tiled(const ConvGeometry& geometry, const TiledPlan& plan, const TiledTaps& taps,
                  const Conv2dArguments& arguments, Stream stream) {
  const auto grid = static_cast<unsigned>(std::min<std::int64_t>(plan.blocks, std::numeric_limits<int>::max()));
  const auto threads = static_cast<unsigned>(32 * plan.warps());
  launch_kernel(kernel_for(plan),
                {.grid = grid, .block = threads, .shared_bytes = plan.shared_bytes(), .overlaps = false}, stream,
                geometry, plan, taps, arguments);
}

}  // namespace lamina::cuda
