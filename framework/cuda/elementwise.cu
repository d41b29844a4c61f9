// Elementwise f32 work: one thread per element, a block owns 256 of them, neighbours in a warp in memory.
//
// Shared memory: none. Preconditions: none; the output may be the first input. The limit is memory.

#include <algorithm>
#include <limits>

#include "lamina/cuda/check.h"
#include "lamina/cuda/conv2d_device.cuh"
#include "lamina/cuda/elementwise.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

/// output[i] = f(i)
template <class F>
__global__ void __launch_bounds__(threads) elementwise_kernel(float* output, std::int64_t count, F f) {
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) output[i] = f(i);
}

template <class F>
void launch(int device, float* output, std::int64_t count, Stream stream, const F& f) {
  if (count == 0) return;
  const DeviceGuard guard(device);
  const std::int64_t blocks = std::min<std::int64_t>((count + threads - 1) / threads, std::numeric_limits<int>::max());
  elementwise_kernel<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(output, count,
                                                                                                       f);
  check_launch();
}

struct SigmoidOf {
  const float* input;
  __device__ float operator()(std::int64_t i) const { return 1.0f / (1.0f + expf(-input[i])); }
};

struct SumOf {
  const float* a;
  const float* b;
  bool relu;
  __device__ float operator()(std::int64_t i) const { return activate(a[i] + b[i], relu); }
};

struct ScaledAndShifted {
  const float* input;  // [images, channels, pixels]
  const float* scale;  // [channels]
  const float* shift;  // [channels]
  std::int64_t channels, pixels;
  bool relu;
  __device__ float operator()(std::int64_t i) const {
    const std::int64_t c = i / pixels % channels;
    return activate(fmaf(input[i], scale[c], shift[c]), relu);
  }
};

}  // namespace

void sigmoid(int device, const float* input, float* output, std::int64_t count, Stream stream) {
  launch(device, output, count, stream, SigmoidOf{input});
}

void add(int device, const float* a, const float* b, float* output, std::int64_t count, bool relu, Stream stream) {
  launch(device, output, count, stream, SumOf{a, b, relu});
}

void scale_and_shift(int device, const float* input, const float* scale, const float* shift, float* output,
                     std::int64_t images, std::int64_t channels, std::int64_t pixels, bool relu, Stream stream) {
  launch(device, output, images * channels * pixels, stream,
         ScaledAndShifted{input, scale, shift, channels, pixels, relu});
}

void copy_rows(int device, const float* input, float* output, std::int64_t rows, std::int64_t width, std::int64_t pitch,
               Stream stream) {
  if (rows == 0 || width == 0) return;
  const DeviceGuard guard(device);
  const auto bytes = [](std::int64_t n) { return static_cast<std::size_t>(n) * sizeof(float); };
  if (rows == 1) {  // no pitch to respect, whatever CUDA's limit on it
    return check(
        cudaMemcpyAsync(output, input, bytes(width), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
  }
  check(cudaMemcpy2DAsync(output, bytes(pitch), input, bytes(width), bytes(width), static_cast<std::size_t>(rows),
                          cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
}

}  // namespace lamina::cuda
