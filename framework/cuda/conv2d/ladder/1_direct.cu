// Direct convolution: the definition, one thread per output.
//
// A block owns 256 consecutive elements of the output [N, OC, OH, OW]; a thread owns one of them, and walks the window
// of the input beneath it. All geometry is known only at run time; padding is a bounds check.
// Shared memory: none. Preconditions: none; the grid strides over outputs of any number.
// Every multiplication costs two loads and a comparison, so the load units are the limit, not the arithmetic.
// Source: the definition of cross-correlation, as in Goodfellow et al., Deep Learning (2016), equation 9.6.

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
    conv2d_direct_kernel(ConvGeometry g,
                         const float* __restrict__ input,   // [N, C, H, W]
                         const float* __restrict__ weight,  // [OC, C / groups, KH, KW]
                         const float* __restrict__ bias,    // [OC], or null
                         float* __restrict__ output,        // [N, OC, OH, OW]
                         Index size, bool relu) {
  const int channels = g.in_channels / g.groups;
  const std::int64_t plane = std::int64_t{g.in_height} * g.in_width;
  const int window = g.kernel_height * g.kernel_width;
  const Index step = static_cast<Index>(gridDim.x) * threads;

  for (Index i = static_cast<Index>(blockIdx.x) * threads + threadIdx.x; i < size; i += step) {
    const OutputPosition out = output_position(g, i);
    const int group = out.channel / (g.out_channels / g.groups);
    const int top = out.row * g.stride_height - g.padding_height;
    const int left = out.column * g.stride_width - g.padding_width;
    const float* x = input + (out.n * g.in_channels + std::int64_t{group} * channels) * plane;
    const float* w = weight + std::int64_t{out.channel} * channels * window;

    float sum = 0.0f;
    float chain = 0.0f;
    int chain_length = 0;
    for (int c = 0; c < channels; ++c, x += plane) {
      for (int kh = 0; kh < g.kernel_height; ++kh, w += g.kernel_width) {
        const int ih = top + kh * g.dilation_height;
        if (ih < 0 || ih >= g.in_height) continue;
        const float* row = x + std::int64_t{ih} * g.in_width;
        for (int kw = 0; kw < g.kernel_width; ++kw) {
          const int iw = left + kw * g.dilation_width;
          if (iw >= 0 && iw < g.in_width) chain = fmaf(w[kw], row[iw], chain);
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

template <class Index>
void launch(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream) {
  const std::int64_t size = geometry.output_size();
  const std::int64_t blocks = std::min<std::int64_t>((size + threads - 1) / threads, std::numeric_limits<int>::max());
  conv2d_direct_kernel<Index><<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      geometry, arguments.input, arguments.weight, arguments.bias, arguments.output, static_cast<Index>(size),
      arguments.relu);
  check_launch();
}

}  // namespace

void conv2d_direct(const ConvGeometry& geometry, const Conv2dArguments& arguments, Stream stream) {
  // 2^31 leaves room for one more stride of the grid without a wrap in 32 bits.
  if (geometry.output_size() < (std::int64_t{1} << 31)) {
    launch<std::uint32_t>(geometry, arguments, stream);
  } else {
    launch<std::uint64_t>(geometry, arguments, stream);
  }
}

}  // namespace lamina::cuda
