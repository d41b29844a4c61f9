// Weighted sums of taps along up to four dimensions. A thread owns one output element; neighbours in a warp are
// neighbours in memory, whichever the layout, and read indices and weights from L1.
//
// Shared memory: none. Preconditions: indices lie within the input; an element of the outermost run has less than 2^32
// of the output.

#include <algorithm>
#include <limits>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/resample.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

/// The sum over the taps of axis `which` and those within it.
template <int which, int axes, class T>
__device__ inline float sum_of(const ResampleArguments& args, const unsigned (&place)[ResampleArguments::max_axes],
                               const T* input) {
  if constexpr (which == axes) {
    return to_f32(*input);
  } else {
    const ResampleArguments::Axis& axis = args.axis[which];
    const std::int64_t first = std::int64_t{place[which]} * axis.taps;
    float sum = 0;
#pragma unroll 1
    for (int t = 0; t < axis.taps; ++t) {
      const std::int64_t index = __ldg(axis.indices + first + t);
      sum = fmaf(__ldg(axis.weights + first + t), sum_of<which + 1, axes>(args, place, input + index * axis.step), sum);
    }
    return sum;
  }
}

template <int axes, class T>
__global__ void __launch_bounds__(threads) resample_kernel(const T* __restrict__ input, T* __restrict__ output,
                                                           const __grid_constant__ ResampleArguments args) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < args.count; i += step) {
    auto rest = static_cast<unsigned>(i);
    unsigned place[ResampleArguments::max_axes] = {};
    std::int64_t offset = 0;
    const auto take = [&](std::int64_t extent) {
      const auto size = static_cast<unsigned>(extent);
      const unsigned next = rest / size, at = rest - next * size;
      rest = next;
      return at;
    };
    offset += static_cast<std::int64_t>(take(args.run[axes])) * args.run_step[axes];
#pragma unroll
    for (int a = axes - 1; a >= 0; --a) {
      place[a] = take(args.axis[a].extent);
      offset += static_cast<std::int64_t>(take(args.run[a])) * args.run_step[a];
    }
    output[i] = from_f32<T>(sum_of<0, axes>(args, place, input + offset));
  }
}

/// So much of the outermost run at a time that elements of the output are counted in 32 bits: divisions of 64 are what
/// would take the time of a few taps.
template <int axes, class T>
void launch(const ResampleArguments& args, const T* input, T* output, Stream stream) {
  const std::int64_t each = args.count / args.run[0], most = std::numeric_limits<std::uint32_t>::max() / each;
  for (std::int64_t first = 0; first < args.run[0]; first += most) {
    ResampleArguments part = args;
    part.run[0] = std::min(most, args.run[0] - first);
    part.count = part.run[0] * each;
    launch_kernel(resample_kernel<axes, T>, {dim3(grid_for(part.count, threads)), dim3(threads)}, stream,
                  input + first * args.run_step[0], output + first * each, part);
  }
}

}  // namespace

void resample(int device, DType dtype, const ResampleArguments& args, const void* input, void* output, Stream stream) {
  if (args.count == 0) return;
  const DeviceGuard guard(device);
  with_element_type(dtype, [&]<class T>(T*) {
    const auto* in = static_cast<const T*>(input);
    auto* out = static_cast<T*>(output);
    switch (args.axes) {
      case 0: return launch<0>(args, in, out, stream);
      case 1: return launch<1>(args, in, out, stream);
      case 2: return launch<2>(args, in, out, stream);
      case 3: return launch<3>(args, in, out, stream);
      default: return launch<4>(args, in, out, stream);
    }
  });
}

}  // namespace lamina::cuda
