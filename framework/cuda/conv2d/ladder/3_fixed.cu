// Direct convolution with the geometry as template constants: AlexNet's first layer.
//
// A block owns 128 consecutive output pixels of one image for eight filters; a thread owns one pixel of all eight. With
// every extent a constant the loops unroll, the addresses of a window become one pointer plus immediate offsets, and
// the compiler knows which taps can never meet padding and tests only the others. What that saves is spent on
// registers: eight sums, so that each input read serves eight filters and not one. The eight weights of a tap lie side
// by side and are the same for the whole block: two broadcast reads of 16 bytes. Shared memory: none. Preconditions: a
// geometry that conv2d_direct_fixed_supports, any batch; weights packed by eights. Source: register blocking of the
// direct loops, as in Georganas et al., Anatomy of High-Performance Deep Learning Convolutions on SIMD Architectures
// (SC 2018), section II.

#include <algorithm>
#include <limits>

#include "lamina/cuda/conv2d/ladder/kernels.h"
#include "lamina/cuda/conv2d/ladder/window.cuh"
#include "lamina/cuda/runtime/check.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 128;
constexpr int filters = 8;  // of one thread

/// AlexNet's first layer.
struct Fixed {
  static constexpr int channels = 3, size = 224, kernel = 11, stride = 4, padding = 2;
  static constexpr int out_size = (size + 2 * padding - kernel) / stride + 1;
  static constexpr int pixels = out_size * out_size;
  static constexpr int taps = channels * kernel * kernel;
  static_assert(kernel * kernel <= max_chain, "the kernel folds once per input channel");
};

/// Whether input row or column `first + k` can lie outside the image, for any output.
__host__ __device__ constexpr bool may_be_outside(int k) {
  return k < Fixed::padding || (Fixed::out_size - 1) * Fixed::stride - Fixed::padding + k >= Fixed::size;
}

template <int out_channels, bool has_bias>
__global__ void __launch_bounds__(threads)
    conv2d_direct_fixed_kernel(const float* __restrict__ input,   // [N, 3, 224, 224]
                               const float* __restrict__ weight,  // [out_channels / 8, 3, 11, 11, 8]
                               const float* __restrict__ bias,    // [out_channels]
                               float* __restrict__ output,        // [N, out_channels, 55, 55]
                               std::int64_t blocks, bool relu) {
  using F = Fixed;
  static_assert(out_channels % filters == 0, "a thread takes eight filters at a time");
  constexpr int filter_blocks = out_channels / filters;
  constexpr int pixel_blocks = (F::pixels + threads - 1) / threads;

  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int pixel = static_cast<int>(block / filter_blocks % pixel_blocks) * threads + static_cast<int>(threadIdx.x);
    if (pixel >= F::pixels) continue;
    const int filter_block = static_cast<int>(block % filter_blocks);
    const std::int64_t n = block / (filter_blocks * pixel_blocks);
    const int row = pixel / F::out_size;
    const int column = pixel % F::out_size;
    const int top = row * F::stride - F::padding;
    const int left = column * F::stride - F::padding;
    const float* x = input + n * F::channels * F::size * F::size + top * F::size + left;
    const float4* w = reinterpret_cast<const float4*>(weight) + filter_block * F::taps * (filters / 4);

    float sum[filters] = {};
    for (int c = 0; c < F::channels; ++c, x += F::size * F::size, w += F::kernel * F::kernel * (filters / 4)) {
      float chain[filters] = {};
#pragma unroll
      for (int kh = 0; kh < F::kernel; ++kh) {
        const bool row_inside = !may_be_outside(kh) || (top + kh >= 0 && top + kh < F::size);
#pragma unroll
        for (int kw = 0; kw < F::kernel; ++kw) {
          const bool inside = row_inside && (!may_be_outside(kw) || (left + kw >= 0 && left + kw < F::size));
          const float value = inside ? x[kh * F::size + kw] : 0.0f;
          const float4 low = w[(kh * F::kernel + kw) * 2];
          const float4 high = w[(kh * F::kernel + kw) * 2 + 1];
          chain[0] = fmaf(low.x, value, chain[0]);
          chain[1] = fmaf(low.y, value, chain[1]);
          chain[2] = fmaf(low.z, value, chain[2]);
          chain[3] = fmaf(low.w, value, chain[3]);
          chain[4] = fmaf(high.x, value, chain[4]);
          chain[5] = fmaf(high.y, value, chain[5]);
          chain[6] = fmaf(high.z, value, chain[6]);
          chain[7] = fmaf(high.w, value, chain[7]);
        }
      }
#pragma unroll
      for (int f = 0; f < filters; ++f) sum[f] += chain[f];
    }

    float* y = output + (n * out_channels + filter_block * filters) * F::pixels + pixel;
#pragma unroll
    for (int f = 0; f < filters; ++f) {
      if constexpr (has_bias) sum[f] += bias[filter_block * filters + f];
      y[f * F::pixels] = activate(sum[f], relu);
    }
  }
}

template <int out_channels>
void launch(const ConvGeometry& geometry, const Conv2dArguments& a, Stream stream) {
  constexpr int blocks_per_image = out_channels / filters * ((Fixed::pixels + threads - 1) / threads);
  const std::int64_t blocks = geometry.batch * blocks_per_image;
  const auto grid = static_cast<unsigned>(std::min<std::int64_t>(blocks, std::numeric_limits<int>::max()));
  const auto native = static_cast<cudaStream_t>(stream);
  if (a.bias != nullptr) {
    conv2d_direct_fixed_kernel<out_channels, true>
        <<<grid, threads, 0, native>>>(a.input, a.weight, a.bias, a.output, blocks, a.relu);
  } else {
    conv2d_direct_fixed_kernel<out_channels, false>
        <<<grid, threads, 0, native>>>(a.input, a.weight, a.bias, a.output, blocks, a.relu);
  }
  check_launch();
}

}  // namespace

bool conv2d_direct_fixed_supports(const ConvGeometry& g) {
  using F = Fixed;
  ConvGeometry fixed{.batch = g.batch,
                     .in_channels = F::channels,
                     .in_height = F::size,
                     .in_width = F::size,
                     .out_channels = g.out_channels,
                     .out_height = F::out_size,
                     .out_width = F::out_size,
                     .kernel_height = F::kernel,
                     .kernel_width = F::kernel,
                     .stride_height = F::stride,
                     .stride_width = F::stride,
                     .padding_height = F::padding,
                     .padding_width = F::padding};
  return g == fixed && (g.out_channels == 64 || g.out_channels == 96);
}

void conv2d_direct_fixed(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream) {
  if (geometry.out_channels == 64) {
    launch<64>(geometry, arguments, stream);
  } else {
    launch<96>(geometry, arguments, stream);
  }
}

}  // namespace lamina::cuda
