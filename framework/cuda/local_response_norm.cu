// Local response normalisation: one thread per element, neighbours in a warp along the pixels, so that every load is
// coalesced and the window's channels, which the next threads up read again, come from cache.
//
// A block owns 256 consecutive elements of [images, channels, pixels]. Shared memory: none.

#include <algorithm>
#include <limits>

#include "lamina/cuda/check.h"
#include "lamina/cuda/local_response_norm.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads)
    local_response_norm_kernel(LocalResponse s,
                               const float* __restrict__ input,  // [images, channels, pixels]
                               float* __restrict__ output) {     // [images, channels, pixels]
  const std::int64_t count = s.images * s.channels * s.pixels;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const auto channel = static_cast<int>(i / s.pixels % s.channels);
    const int first = max(-(s.size / 2), -channel);
    const int last = min((s.size - 1) / 2, s.channels - 1 - channel);
    float sum = 0;
    for (int c = first; c <= last; ++c) {
      const float x = input[i + c * s.pixels];
      sum = fmaf(x, x, sum);
    }
    const float divisor = fmaf(sum, s.alpha / static_cast<float>(s.size), s.k);
    // Square roots for AlexNet's exponent: a general power costs several times as much.
    const float power = s.beta == 0.75f ? sqrtf(divisor) * sqrtf(sqrtf(divisor)) : powf(divisor, s.beta);
    output[i] = input[i] / power;
  }
}

}  // namespace

void local_response_norm(int device, const LocalResponse& settings, const float* input, float* output, Stream stream) {
  const std::int64_t count = settings.images * settings.channels * settings.pixels;
  if (count == 0) return;
  const DeviceGuard guard(device);
  const std::int64_t blocks = std::min<std::int64_t>((count + threads - 1) / threads, std::numeric_limits<int>::max());
  local_response_norm_kernel<<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      settings, input, output);
  check_launch();
}

}  // namespace lamina::cuda
