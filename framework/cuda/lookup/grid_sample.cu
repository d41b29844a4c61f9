// Images sampled where a grid says. A thread owns one output pixel of up to 8 channels: it finds the taps once, and
// neighbours in a warp write neighbouring pixels.
//
// Shared memory: none. Preconditions: none; whatever the grid holds, only pixels of the image are read.

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, channels_at_once = 8;

/// Images and grids of two or three dimensions, x first.
struct GridExtents {
  int dims = 2;
  std::int64_t images = 1, channels = 1;
  std::int64_t sizes[3] = {1, 1, 1};  // of the input: W, H, D
  std::int64_t pixels = 1;            // of the output, of one image
};

struct Settings {
  GridPadding padding;
  bool align_corners;
};

__device__ inline float reflected(float x, float twice_low, float twice_high) {
  if (twice_low == twice_high) return 0;
  const float low = twice_low / 2, span = (twice_high - twice_low) / 2;
  x = fabsf(x - low);
  const float extra = fmodf(x, span);
  return fmodf(floorf(x / span), 2.0f) == 0 ? extra + low : span - extra + low;
}

__device__ inline float padded(float x, std::int64_t size, const Settings& s) {
  const auto pixels = static_cast<float>(size);
  if (s.padding == GridPadding::reflection) {
    x = s.align_corners ? reflected(x, 0, 2 * (pixels - 1)) : reflected(x, -1, 2 * pixels - 1);
  }
  if (s.padding != GridPadding::zeros) x = fminf(pixels - 1, fmaxf(x, 0.0f));  // fmaxf gives 0 for NaN
  return fabsf(x) < 0x1p30f ? x : -100.0f;
}

template <int count>
struct Taps {
  std::int64_t place[count];  // -1: outside
  float weight[count];

  __device__ void set(int i, float x, std::int64_t size, float w) {
    const auto at = static_cast<std::int64_t>(x);
    place[i] = at >= 0 && at < size ? at : -1;
    weight[i] = w;
  }
};

/// Keys' cubic, a = -0.75.
__device__ inline float near(float x) { return ((-0.75f + 2) * x - (-0.75f + 3)) * x * x + 1; }
__device__ inline float far(float x) { return ((-0.75f * x - 5 * -0.75f) * x + 8 * -0.75f) * x - 4 * -0.75f; }

/// One tap for nearest, two for linear, four for cubic.
template <int count>
__device__ inline Taps<count> taps_of(float coordinate, std::int64_t size, const Settings& s) {
  Taps<count> taps;
  const auto pixels = static_cast<float>(size);
  float x = s.align_corners ? (coordinate + 1) / 2 * (pixels - 1) : ((coordinate + 1) * pixels - 1) / 2;
  if constexpr (count == 4) {
    if (!(fabsf(x) < 0x1p30f)) x = -100;
    const float low = floorf(x), t = x - low;
    const float weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
#pragma unroll
    for (int i = 0; i < 4; ++i) taps.set(i, padded(low + static_cast<float>(i - 1), size, s), size, weights[i]);
  } else {
    if constexpr (count == 1) {
      taps.set(0, padded(nearbyintf(x), size, s), size, 1);  // rounded first: ties go before they are mirrored
    } else {
      x = padded(x, size, s);
      const float low = floorf(x);
      taps.set(0, low, size, low + 1 - x);
      taps.set(1, low + 1, size, x - low);
    }
  }
  return taps;
}

/// Over dimension `d` (0: x) and those within; what is outside counts as 0, whatever its weight.
template <int d, int dims, int count, class T>
__device__ inline float sum_of(const Taps<count> (&taps)[dims], const std::int64_t (&steps)[3], const T* from,
                               float weight) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (taps[d].place[i] < 0) continue;
    const T* const at = from + taps[d].place[i] * steps[d];
    if constexpr (d == 0) {
      sum += weight * taps[0].weight[i] * to_f32(*at);
    } else {
      sum += sum_of<d - 1, dims>(taps, steps, at, weight * taps[d].weight[i]);
    }
  }
  return sum;
}

template <int count, int dims, class T, class G>
__global__ void __launch_bounds__(threads)
    grid_sample_kernel(const T* __restrict__ input, const G* __restrict__ grid, T* __restrict__ output,
                       const GridExtents e, const Settings settings) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t steps[3] = {1, e.sizes[0], e.sizes[0] * e.sizes[1]};
  const std::int64_t plane = e.sizes[0] * e.sizes[1] * e.sizes[2];
  const std::int64_t groups = (e.channels + channels_at_once - 1) / channels_at_once;
  const std::int64_t step = std::int64_t{gridDim.x} * threads, work = e.images * groups * e.pixels;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < work; i += step) {
    const std::int64_t pixel = i % e.pixels, n = i / e.pixels / groups,
                       first = i / e.pixels % groups * channels_at_once;
    Taps<count> taps[dims];
#pragma unroll
    for (int d = 0; d < dims; ++d) {
      taps[d] = taps_of<count>(to_f32(grid[(n * e.pixels + pixel) * dims + d]), e.sizes[d], settings);
    }
    const std::int64_t last = min(e.channels, first + channels_at_once);
    for (std::int64_t c = first; c < last; ++c) {
      const float sum = sum_of<dims - 1, dims>(taps, steps, input + (n * e.channels + c) * plane, 1.0f);
      output[(n * e.channels + c) * e.pixels + pixel] = from_f32<T>(sum);
    }
  }
}

}  // namespace

bool takes_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype, grid = p.inputs[1].format.dtype;
  return detail::is_grid_sample(problem, p) && is_activation(dtype) && (grid == dtype || grid == DType::f32);
}

std::unique_ptr<Operator> prepare_grid_sample(const GridSampleProblem& problem, const Preparation& p) {
  const Shape &in = p.input().shape, &out = p.output().shape;
  GridExtents e;
  e.dims = static_cast<int>(in.rank()) - 2;
  e.images = in[0], e.channels = in[1];
  for (int d = 0; d < e.dims; ++d) e.sizes[d] = in[-1 - d], e.pixels *= out[-1 - d];
  const Settings settings = {problem.padding, problem.align_corners};
  return make_on_device(
      index(p), "a thread for each pixel",
      [e, settings, mode = problem.mode](Inputs inputs, Outputs outputs, const Execution& execution) {
        const std::int64_t groups = (e.channels + channels_at_once - 1) / channels_at_once;
        with_element_type(inputs[0].dtype(), [&]<class T>(T*) {
          const auto with_grid = [&]<class G>(const G* places) {
            const auto run = [&](auto kernel) {
              launch_kernel(kernel, threads_for(e.images * groups * e.pixels, threads), execution.stream,
                            elements<T>(inputs[0]), places, elements<T>(outputs[0]), e, settings);
            };
            if (mode == GridMode::cubic) return run(grid_sample_kernel<4, 2, T, G>);
            const bool linear = mode == GridMode::linear;
            if (e.dims == 2) return run(linear ? grid_sample_kernel<2, 2, T, G> : grid_sample_kernel<1, 2, T, G>);
            run(linear ? grid_sample_kernel<2, 3, T, G> : grid_sample_kernel<1, 3, T, G>);
          };
          inputs[1].dtype() == DType::f32 ? with_grid(floats(inputs[1])) : with_grid(elements<T>(inputs[1]));
        });
      });
}

}  // namespace lamina::cuda
