// Local response normalisation: one thread per element, neighbours in a warp along the innermost dimension, so that
// every load is coalesced and the window's channels, which other threads read again, come from cache.
//
// A block owns 256 consecutive elements. Shared memory: none.

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256;

/// Channels lie `pitch` elements apart: element i belongs to channel i / pitch % channels.
template <class T>
__global__ void __launch_bounds__(threads)
    local_response_norm_kernel(LocalResponse s, std::int64_t pitch, const T* __restrict__ input,
                               T* __restrict__ output) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t count = s.images * s.channels * s.pixels;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const auto channel = static_cast<int>(i / pitch % s.channels);
    const int first = max(-(s.size / 2), -channel);
    const int last = min((s.size - 1) / 2, s.channels - 1 - channel);
    float sum = 0;
    for (int c = first; c <= last; ++c) {
      const float x = to_f32(input[i + c * pitch]);
      sum = fmaf(x, x, sum);
    }
    const float divisor = fmaf(sum, s.alpha / static_cast<float>(s.size), s.k);
    // Square roots for AlexNet's exponent: a general power costs several times as much.
    const float power = s.beta == 0.75f ? sqrtf(divisor) * sqrtf(sqrtf(divisor)) : powf(divisor, s.beta);
    output[i] = from_f32<T>(to_f32(input[i]) / power);
  }
}

}  // namespace

std::unique_ptr<Operator> prepare_local_response(const LocalResponseProblem& problem, const Preparation& p) {
  const std::int64_t pitch = p.input().format.layout == Layout::nhwc ? 1 : problem.settings.pixels;
  return make_on_device(
      index(p), "one thread per output",
      [pitch, settings = problem.settings](Inputs inputs, Outputs outputs, const Execution& execution) {
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          launch_kernel(local_response_norm_kernel<T>, threads_for(outputs[0].numel(), threads), execution.stream,
                        settings, pitch, elements<T>(inputs[0]), elements<T>(outputs[0]));
        });
      });
}

}  // namespace lamina::cuda
