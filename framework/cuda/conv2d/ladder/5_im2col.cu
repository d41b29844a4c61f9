// im2col: unfolds the input into columns, so that a convolution becomes one matrix product.
//
// A block owns 1,024 consecutive pixels of 8 rows (c, kh, kw) of one image's columns; a thread owns four consecutive
// pixels of each of those rows, and writes them with one store of 16 bytes. It divides once to find where its pixels
// are and then only adds: the rows differ by an offset into the input. Shared memory: none: what neighbouring taps read
// twice comes from L1. Preconditions: `columns` aligned to 16 bytes, pitch a multiple of 4; the padding columns between
// `pixels` and `pitch` are written as zero. The product, by cuBLAS: output[OC, pixels] = weight[OC, K] * columns[K,
// pixels], in 5_im2col.cpp. Source: Chellapilla, Puri and Simard, High Performance Convolutional Neural Networks
// for Document Processing (2006).

#include <algorithm>
#include <limits>

#include "lamina/cuda/conv2d/ladder/kernels.h"
#include "lamina/cuda/conv2d/ladder/window.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/tensor_core/operand_rows.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;
constexpr int pixels_per_thread = 4;
constexpr int rows_per_block = 8;
constexpr int far_outside = -(1 << 30);  // an input row that no kernel row leads back from

__global__ void __launch_bounds__(threads)
    im2col_kernel(ConvGeometry g, Im2colSlice slice,
                  const float* __restrict__ input,  // [N, C, H, W]
                  float* __restrict__ columns,      // [images, K, pitch]
                  int row_blocks, std::int64_t pixel_blocks, std::int64_t blocks, bool tf32) {
  const int channels = g.in_channels / g.groups;
  const int window = g.kernel_height * g.kernel_width;
  const int rows = channels * window;

  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int first_row = static_cast<int>(block % row_blocks) * rows_per_block;
    const std::int64_t pixel_block = block / row_blocks % pixel_blocks;
    const std::int64_t image = block / row_blocks / pixel_blocks;
    const std::int64_t first = (pixel_block * threads + threadIdx.x) * pixels_per_thread;  // in the slice
    if (first >= slice.pitch) continue;

    int top[pixels_per_thread];
    int left[pixels_per_thread];
    auto oh = static_cast<int>((slice.first_pixel + first) / g.out_width);
    auto ow = static_cast<int>((slice.first_pixel + first) % g.out_width);
#pragma unroll
    for (int i = 0; i < pixels_per_thread; ++i) {
      top[i] = first + i < slice.pixels ? oh * g.stride_height - g.padding_height : far_outside;
      left[i] = ow * g.stride_width - g.padding_width;
      if (++ow == g.out_width) {
        ow = 0;
        ++oh;
      }
    }

    const int last_row = min(first_row + rows_per_block, rows);
    int c = first_row / window;
    int kh = first_row % window / g.kernel_width;
    int kw = first_row % g.kernel_width;
    const std::int64_t first_channel =
        (slice.first_image + image) * g.in_channels + std::int64_t{slice.group} * channels;
    float* target = columns + (image * rows + first_row) * slice.pitch + first;
    for (int row = first_row; row < last_row; ++row, target += slice.pitch) {
      const float* plane = input + (first_channel + c) * g.in_height * g.in_width;
      float values[pixels_per_thread];
#pragma unroll
      for (int i = 0; i < pixels_per_thread; ++i) {
        const int ih = top[i] + kh * g.dilation_height;
        const int iw = left[i] + kw * g.dilation_width;
        const bool inside = ih >= 0 && ih < g.in_height && iw >= 0 && iw < g.in_width;
        values[i] = inside ? plane[std::int64_t{ih} * g.in_width + iw] : 0.0f;
        if (tf32) values[i] = __uint_as_float(round_to_tf32(__float_as_uint(values[i])));
      }
      *reinterpret_cast<float4*>(target) = make_float4(values[0], values[1], values[2], values[3]);
      if (++kw == g.kernel_width) {
        kw = 0;
        if (++kh == g.kernel_height) {
          kh = 0;
          ++c;
        }
      }
    }
  }
}

__global__ void __launch_bounds__(threads)
    add_bias_and_activate_kernel(ConvGeometry g, Im2colSlice slice,
                                 const float* __restrict__ bias,  // [OC], or null
                                 float* __restrict__ output,      // [N, OC, OH, OW]
                                 std::int64_t pixel_blocks, std::int64_t blocks, bool relu) {
  const int channels = g.out_channels / g.groups;
  const std::int64_t plane = std::int64_t{g.out_height} * g.out_width;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::int64_t first = block % pixel_blocks * (threads * pixels_per_thread) + threadIdx.x;
    const auto channel = slice.group * channels + static_cast<int>(block / pixel_blocks % channels);
    const std::int64_t n = slice.first_image + block / pixel_blocks / channels;
    const float b = bias == nullptr ? 0.0f : bias[channel];
    float* y = output + (n * g.out_channels + channel) * plane + slice.first_pixel;
#pragma unroll
    for (int i = 0; i < pixels_per_thread; ++i) {
      const std::int64_t pixel = first + i * threads;
      if (pixel < slice.pixels) y[pixel] = activate(y[pixel] + b, relu);
    }
  }
}

std::int64_t blocks_for(std::int64_t elements) {
  constexpr int per_block = threads * pixels_per_thread;
  return (elements + per_block - 1) / per_block;
}

unsigned grid_for(std::int64_t blocks) {
  return static_cast<unsigned>(std::min<std::int64_t>(blocks, std::numeric_limits<int>::max()));
}

}  // namespace

void im2col(const ConvGeometry& geometry, const Im2colSlice& slice, const float* input, float* columns, bool tf32,
            Stream stream) {
  const auto rows = static_cast<int>(geometry.reduction());
  const int row_blocks = (rows + rows_per_block - 1) / rows_per_block;
  const std::int64_t pixel_blocks = blocks_for(slice.pitch);
  const std::int64_t blocks = slice.images * pixel_blocks * row_blocks;
  im2col_kernel<<<grid_for(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      geometry, slice, input, columns, row_blocks, pixel_blocks, blocks, tf32);
  check_launch();
}

void add_bias_and_activate(const ConvGeometry& geometry, const Im2colSlice& slice, const float* bias, float* output,
                           bool relu, Stream stream) {
  const std::int64_t pixel_blocks = blocks_for(slice.pixels);
  const std::int64_t blocks = slice.images * geometry.group_out_channels() * pixel_blocks;
  add_bias_and_activate_kernel<<<grid_for(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      geometry, slice, bias, output, pixel_blocks, blocks, relu);
  check_launch();
}

}  // namespace lamina::cuda
