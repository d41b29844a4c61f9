// Elementwise work: a thread owns 16 bytes of elements, a block 256 of such; the first threads of the grid also take
// the few elements after the last whole pack. Arrays that do not start on 16 bytes go element by element.
//
// Shared memory: none. Preconditions: none; the output may be the first input. The limit is memory.

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/elementwise.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

/// output[i] = f(a[i], b[i], i); b is not read where it is null.
template <class T, class F>
__global__ void __launch_bounds__(threads)
    elementwise_kernel(const T* a, const T* b, T* output, std::int64_t packs, std::int64_t count, F f) {
  let_successor_start();
  wait_for_predecessor();
  using P = Pack<T>;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < packs; i += step) {
    P x = reinterpret_cast<const P*>(a)[i];
    const P y = b != nullptr ? reinterpret_cast<const P*>(b)[i] : x;
#pragma unroll
    for (int j = 0; j < P::size; ++j) {
      x.values[j] = from_f32<T>(f(to_f32(x.values[j]), to_f32(y.values[j]), i * P::size + j));
    }
    reinterpret_cast<P*>(output)[i] = x;
  }
  for (std::int64_t i = packs * P::size + first; i < count; i += step) {
    output[i] = from_f32<T>(f(to_f32(a[i]), b != nullptr ? to_f32(b[i]) : 0.0f, i));
  }
}

template <class F>
void launch(int device, DType dtype, const void* a, const void* b, void* output, std::int64_t count, Stream stream,
            const F& f) {
  if (count == 0) return;
  const DeviceGuard guard(device);
  with_element_type(dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const bool aligned = aligned_to_16(a) && aligned_to_16(b) && aligned_to_16(output);
    const std::int64_t packs = aligned ? count / Pack<T>::size : 0;
    launch_overlapping(elementwise_kernel<T, F>, dim3(grid_for(packs > 0 ? packs : count, threads)), dim3(threads),
                       static_cast<cudaStream_t>(stream), static_cast<const T*>(a), static_cast<const T*>(b),
                       static_cast<T*>(output), packs, count, f);
  });
}

struct Sigmoid {
  __device__ float operator()(float x, float, std::int64_t) const { return 1.0f / (1.0f + expf(-x)); }
};

struct Sum {
  bool relu;
  __device__ float operator()(float x, float y, std::int64_t) const { return activate(x + y, relu); }
};

/// Element i belongs to channel i / run % channels.
struct ScaleAndShift {
  const float* scale;  // [channels]
  const float* shift;  // [channels]
  std::int64_t run, channels;
  bool relu;
  __device__ float operator()(float x, float, std::int64_t i) const {
    const std::int64_t c = i / run % channels;
    return activate(fmaf(x, scale[c], shift[c]), relu);
  }
};

}  // namespace

void sigmoid(int device, DType dtype, const void* input, void* output, std::int64_t count, Stream stream) {
  launch(device, dtype, input, nullptr, output, count, stream, Sigmoid{});
}

void add(int device, DType dtype, const void* a, const void* b, void* output, std::int64_t count, bool relu,
         Stream stream) {
  launch(device, dtype, a, b, output, count, stream, Sum{relu});
}

void scale_and_shift(int device, Format format, const Activation& a, const void* input, const float* scale,
                     const float* shift, void* output, bool relu, Stream stream) {
  const std::int64_t run = format.layout == Layout::nhwc ? 1 : a.pixels;
  launch(device, format.dtype, input, nullptr, output, a.size(), stream,
         ScaleAndShift{scale, shift, run, a.channels, relu});
}

void copy_rows(int device, const void* input, void* output, std::int64_t rows, std::int64_t width, std::int64_t pitch,
               Stream stream) {
  if (rows == 0 || width == 0) return;
  const DeviceGuard guard(device);
  const auto bytes = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  if (rows == 1) {  // no pitch to respect, whatever CUDA's limit on it
    return check(
        cudaMemcpyAsync(output, input, bytes(width), cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
  }
  check(cudaMemcpy2DAsync(output, bytes(pitch), input, bytes(width), bytes(width), bytes(rows),
                          cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream)));
}

}  // namespace lamina::cuda
