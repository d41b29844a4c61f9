// Scale and shift by channel: a thread owns 16 bytes of elements, a block 256 of such; the first threads of the grid
// also take the few elements after the last whole pack. Arrays that do not start on 16 bytes go element by element.
//
// Shared memory: none. Preconditions: none; the output may be the input.

#include "lamina/cuda/kernels.h"

#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/constants.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256;

__device__ inline float positive_part(float x) { return x < 0.0f ? 0.0f : x; }  // NaN stays

/// output[f.target(i)] = f of input[f.source(i)], for as many elements at a time as f is given.
template <class T, class F>
__global__ void __launch_bounds__(threads)
    elementwise_kernel(const T* input, T* output, std::int64_t packs, std::int64_t count, const __grid_constant__ F f) {
  let_successor_start();
  wait_for_predecessor();
  const auto apply = [&]<int n>(std::integral_constant<int, n>, std::int64_t first) {
    const auto ahead = f.template load<n>(first);  // before anything waits for the input
    Pack<T, n> pack = *reinterpret_cast<const Pack<T, n>*>(input + f.source(first));
    float values[n];
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] = to_f32(pack.values[j]);
    f(values, first, ahead);
#pragma unroll
    for (int j = 0; j < n; ++j) pack.values[j] = from_f32<T>(values[j]);
    *reinterpret_cast<Pack<T, n>*>(output + f.target(first)) = pack;
  };
  constexpr int size = Pack<T>::size;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < packs; i += step) apply(std::integral_constant<int, size>(), i * size);
  for (std::int64_t i = packs * size + first; i < count; i += step) apply(std::integral_constant<int, 1>(), i);
}

/// Input and output without gaps.
struct Dense {
  __device__ static std::int64_t source(std::int64_t first) { return first; }
  __device__ static std::int64_t target(std::int64_t first) { return first; }
};

/// Element i belongs to channel i / run % channels.
struct ScaleAndShift : Dense {
  const float* scale;  // [channels]
  const float* shift;  // [channels]
  std::int64_t run, channels;
  bool relu;

  template <int n>
  __device__ bool load(std::int64_t) const {
    return false;  // what it needs is in the cache
  }

  template <int n>
  __device__ void operator()(float (&values)[n], std::int64_t first, bool) const {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const std::int64_t c = (first + j) / run % channels;
      const float y = fmaf(values[j], scale[c], shift[c]);
      values[j] = relu ? positive_part(y) : y;
    }
  }
};

/// The same of channels that lie side by side, whole packs of them: one division for a pack.
struct ScaleAndShiftSideBySide : Dense {
  const float* scale;  // [channels]
  const float* shift;  // [channels]
  Divider by_channels;
  std::uint32_t channels, gap;  // gap: of the input, between the channels of one pixel and those of the next
  bool relu;

  __device__ std::int64_t source(std::int64_t first) const {
    return gap == 0 ? first : first + std::int64_t{gap} * by_channels.quotient(static_cast<std::uint32_t>(first));
  }

  template <int n>
  __device__ std::uint32_t load(std::int64_t first) const {
    const auto at = static_cast<std::uint32_t>(first);
    return at - by_channels.quotient(at) * channels;
  }

  template <int n>
  __device__ void operator()(float (&values)[n], std::int64_t, std::uint32_t channel) const {
    constexpr int wide = n < 4 ? n : 4;
#pragma unroll
    for (int j = 0; j < n; j += wide) {
      const auto a = *reinterpret_cast<const Pack<float, wide>*>(scale + channel + j);
      const auto b = *reinterpret_cast<const Pack<float, wide>*>(shift + channel + j);
#pragma unroll
      for (int k = 0; k < wide; ++k) {
        const float y = fmaf(values[j + k], a.values[k], b.values[k]);
        values[j + k] = relu ? positive_part(y) : y;
      }
    }
  }
};

template <class T, class F>
void start(const void* input, void* output, std::int64_t count, bool aligned, Stream stream, const F& f) {
  const std::int64_t packs = aligned ? count / Pack<T>::size : 0;
  launch_kernel(elementwise_kernel<T, F>, threads_for(packs > 0 ? packs : count, threads), stream,
                static_cast<const T*>(input), static_cast<T*>(output), packs, count, f);
}

}  // namespace

bool takes_affine(const AffineProblem&, const Preparation& p) {
  const View& input = p.input();
  // A slice is read 16 bytes at a time.
  const bool slice_fits = input.format.layout == Layout::nhwc && !p.output().is_slice() && input.alignment % 16 == 0 &&
                          static_cast<std::size_t>(input.shape[1]) * size_of(input.format.dtype) % 16 == 0 &&
                          input.shape.numel() < std::int64_t{1} << 31 && input.channels < std::int64_t{1} << 31;
  return p.keeps_format() && (!p.has_slices() || slice_fits);
}

std::unique_ptr<Operator> prepare_affine(const AffineProblem& problem, const Preparation& p) {
  const Tensor scale = detail::constant(problem.scale, p.device.device),
               shift = detail::constant(problem.shift, p.device.device);
  const Activation a = detail::activation_of(p.input().shape);
  const std::int64_t run = p.input().format.layout == Layout::nhwc ? 1 : a.pixels;
  return make_on_device(
      index(p), "scale and shift",
      [=, gap = static_cast<std::uint32_t>(p.input().pixel_pitch() - a.channels), relu = problem.epilogue.relu()](
          Inputs inputs, Outputs outputs, const Execution& execution) {
        const void* const input = inputs[0].raw();
        void* const output = outputs[0].raw();
        const bool aligned = aligned_to_16(input) && aligned_to_16(output);
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          if (run == 1 && aligned && a.channels % Pack<T>::size == 0 && a.size() < std::int64_t{1} << 31) {
            const ScaleAndShiftSideBySide f = {
                {},  floats(scale), floats(shift), Divider(a.channels), static_cast<std::uint32_t>(a.channels),
                gap, relu};
            start<T>(input, output, a.size(), true, execution.stream, f);
          } else {
            const ScaleAndShift f = {{}, floats(scale), floats(shift), run, a.channels, relu};
            start<T>(input, output, a.size(), aligned, execution.stream, f);
          }
        });
      });
}

}  // namespace lamina::cuda
