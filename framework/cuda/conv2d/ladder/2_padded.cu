// Direct convolution over an input padded beforehand: the inner loop has no bounds checks.
//
// Padding: a block owns 256 consecutive elements of the padded images, a thread one: a pixel, or a zero of the border.
// Convolution: a block owns 256 consecutive outputs, a thread one. Every window lies inside the padded image, so a tap
// is two loads and a multiplication, and a pointer that walks. Shared memory: none. Preconditions: none. Costs a copy
// of the input of (H + 2p)(W + 2p) per plane, written and read. Source: the classic trade of memory for branches, as in
// the first version of Caffe's convolution (Jia et al., 2014).

#include <algorithm>
#include <limits>

#include "lamina/cuda/conv2d/ladder/kernels.h"
#include "lamina/cuda/conv2d/ladder/window.cuh"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

template <class Index>
__global__ void __launch_bounds__(threads)
    pad_images_kernel(ConvGeometry g,
                      const float* __restrict__ images,  // [N, C, H, W]
                      float* __restrict__ padded,        // [N, C, H + 2 padding, W + 2 padding]
                      Index size) {
  const auto height = static_cast<Index>(g.in_height + 2 * g.padding_height);
  const auto width = static_cast<Index>(g.in_width + 2 * g.padding_width);
  const Index step = static_cast<Index>(gridDim.x) * threads;
  for (Index i = static_cast<Index>(blockIdx.x) * threads + threadIdx.x; i < size; i += step) {
    const Index row = i / width;  // over all planes
    const int w = static_cast<int>(i - row * width) - g.padding_width;
    const Index plane = row / height;
    const int h = static_cast<int>(row - plane * height) - g.padding_height;
    const bool inside = h >= 0 && h < g.in_height && w >= 0 && w < g.in_width;
    padded[i] = inside ? images[(static_cast<std::int64_t>(plane) * g.in_height + h) * g.in_width + w] : 0.0f;
  }
}

template <class Index>
__global__ void __launch_bounds__(threads)
    conv2d_direct_padded_kernel(ConvGeometry g,
                                const float* __restrict__ padded,  // [N, C, H + 2 padding, W + 2 padding]
                                const float* __restrict__ weight,  // [OC, C / groups, KH, KW]
                                const float* __restrict__ bias,    // [OC], or null
                                float* __restrict__ output,        // [N, OC, OH, OW]
                                Index size, bool relu) {
  const int channels = g.in_channels / g.groups;
  const int width = g.in_width + 2 * g.padding_width;
  const std::int64_t plane = std::int64_t{g.in_height + 2 * g.padding_height} * width;
  const std::int64_t row_step = std::int64_t{g.dilation_height} * width;
  const Index step = static_cast<Index>(gridDim.x) * threads;

  for (Index i = static_cast<Index>(blockIdx.x) * threads + threadIdx.x; i < size; i += step) {
    const OutputPosition out = output_position(g, i);
    const int group = out.channel / (g.out_channels / g.groups);
    const float* x = padded + (out.n * g.in_channels + std::int64_t{group} * channels) * plane +
                     std::int64_t{out.row} * g.stride_height * width + out.column * g.stride_width;
    const float* w = weight + std::int64_t{out.channel} * channels * g.kernel_height * g.kernel_width;

    float sum = 0.0f;
    float chain = 0.0f;
    int chain_length = 0;
    for (int c = 0; c < channels; ++c, x += plane) {
      const float* row = x;
      for (int kh = 0; kh < g.kernel_height; ++kh, row += row_step) {
        const float* tap = row;
        for (int kw = 0; kw < g.kernel_width; ++kw, tap += g.dilation_width) {
          chain = fmaf(*w++, *tap, chain);
          if (++chain_length == max_chain) {
            sum += chain;
            chain = 0.0f;
            chain_length = 0;
          }
        }
      }
    }
    sum += chain;
    if (bias != nullptr) sum += bias[out.channel];
    output[i] = activate(sum, relu);
  }
}

/// Blocks for `size` elements; the kernels' grids stride over what is left.
unsigned grid_for(std::int64_t size) {
  return static_cast<unsigned>(std::min<std::int64_t>((size + threads - 1) / threads, std::numeric_limits<int>::max()));
}

bool fits_32_bits(std::int64_t size) { return size < (std::int64_t{1} << 31); }

template <class Index>
void launch(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream) {
  const std::int64_t size = geometry.output_size();
  conv2d_direct_padded_kernel<Index><<<grid_for(size), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      geometry, arguments.input, arguments.weight, arguments.bias, arguments.output, static_cast<Index>(size),
      arguments.relu);
  check_launch();
}

}  // namespace

void pad_images(const ConvGeometry& g, const float* images, float* padded, Stream stream) {
  const std::int64_t size = g.batch * g.in_channels * (g.in_height + 2 * std::int64_t{g.padding_height}) *
                            (g.in_width + 2 * std::int64_t{g.padding_width});
  const auto native = static_cast<cudaStream_t>(stream);
  if (fits_32_bits(size)) {
    const auto count = static_cast<std::uint32_t>(size);
    pad_images_kernel<std::uint32_t><<<grid_for(size), threads, 0, native>>>(g, images, padded, count);
  } else {
    const auto count = static_cast<std::uint64_t>(size);
    pad_images_kernel<std::uint64_t><<<grid_for(size), threads, 0, native>>>(g, images, padded, count);
  }
  check_launch();
}

void conv2d_direct_padded(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream) {
  if (fits_32_bits(geometry.output_size())) {
    launch<std::uint32_t>(geometry, arguments, stream);
  } else {
    launch<std::uint64_t>(geometry, arguments, stream);
  }
}

}  // namespace lamina::cuda
