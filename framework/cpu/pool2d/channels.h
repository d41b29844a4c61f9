#pragma once

#include <span>

#include "lamina/base/thread_pool.h"
#include "lamina/cpu/codes.h"
#include "lamina/cpu/simd.h"
#include "lamina/kernel/problems.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cpu {

/// Pixels of an image stored channels last that become one.
struct PixelWindow {
  const void* first;  // channels of the first pixel
  std::int64_t rows, columns;
  std::int64_t row, column;  // elements from one to the next
  std::int64_t channels;
  float divisor;  // of a sum
  void* output;   // [channels]
};

/// One window for all channels, compiled for one instruction set.
struct ChannelPoolKernel {
  using Window = void (*)(const PixelWindow& window);
  struct Windows {
    Window largest;  // NaN if there is one in the window, -inf for a window without pixels
    Window mean;     // sums of rows, summed, by the divisor
  };
  InstructionSet set;
  Windows f32, bf16;
  Windows u8, i8;  ///< `mean` gives the sums, as f32: exact below 2^24
};

/// Those that this machine runs, the fastest first; the last one needs no vectors.
std::span<const ChannelPoolKernel> channel_pool_kernels();

/// The channels of a pixel, and elements from pixel to pixel.
struct PooledChannels {
  std::int64_t count = 0, input_pitch = 0;
  std::int64_t output_pitch = 0;  ///< 0: the output is nchw
};

/// What u8 and i8 stand for before and after. The largest are what they were; a mean is one of f32 or in codes.
struct PooledCodes {
  Quantization from = {}, to = {};
  DType type = DType::u8;  ///< of the output
  const CodesKernel* kernel = nullptr;
};

/// pool2d() of activations stored channels last: input [images, H, W, input_pitch], output [images, OH, OW,
/// output_pitch], of which the first `count` channels are read and written, or [images, count, OH, OW].
void channel_pool2d(PoolKind kind, const ChannelPoolKernel& kernel, const PoolGeometry& geometry,
                    const PooledChannels& channels, DType dtype, const void* input, void* output, ThreadPool& pool,
                    const PooledCodes& codes = {});

}  // namespace lamina::cpu
