// Normalisation of 8-bit pictures: bytes in, numbers out, by a table of what each level becomes. Looking up gives the
// host's bits without any arithmetic here that could round otherwise, and costs nothing: the limit is memory.
//
// A block of 256 threads holds the table in shared memory (3 KB) and strides over an image; a thread owns one pixel at
// a time, so that the loads and stores of a warp are consecutive wherever pictures and planes begin. (4 or 8 pixels for
// a thread make wider accesses, but leave gaps between a warp's loads: slower, by half in 16 bits.) Preconditions:
// none.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;
constexpr int levels = 256;
constexpr std::int64_t rounds = 8;           // of a thread: they share the cost of the table
constexpr std::int64_t enough_blocks = 400;  // three for each multiprocessor: rather fewer rounds than fewer blocks

struct Strides {
  std::int64_t channel, pixel;  // in elements, of the output
};

template <class T>
__global__ void __launch_bounds__(threads)
    normalize_kernel(const std::uint8_t* __restrict__ input,  // [images, pixels, 3]
                     const float* __restrict__ table,         // [3, levels]
                     T* __restrict__ output, std::int64_t images, std::int64_t pixels, Strides stride, bool bgr) {
  __shared__ float shared[3 * levels];
  for (int i = static_cast<int>(threadIdx.x); i < 3 * levels; i += threads) shared[i] = table[i];
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t image = blockIdx.y; image < images; image += gridDim.y) {
    const std::uint8_t* from = input + image * pixels * 3;
    T* to = output + image * pixels * 3;
#pragma unroll 4
    for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < pixels; i += step) {
#pragma unroll
      for (int colour = 0; colour < 3; ++colour) {
        const int channel = bgr ? 2 - colour : colour;
        to[channel * stride.channel + i * stride.pixel] = from_f32<T>(shared[channel * levels + from[3 * i + colour]]);
      }
    }
  }
}

}  // namespace

void normalize(int device, const Activation& a, const void* input, const float* table, bool bgr, Format to,
               void* output, Stream stream) {
  if (a.size() == 0) return;
  if (a.channels != 3) detail::fail("a picture has 3 channels, not ", a.channels);
  const DeviceGuard guard(device);
  const Strides stride = to.layout == Layout::nhwc ? Strides{1, 3} : Strides{a.pixels, 1};
  const std::int64_t once = detail::ceil_div<std::int64_t>(a.pixels, threads);
  const std::int64_t share = std::clamp<std::int64_t>(once * a.images / enough_blocks, 1, rounds);
  const dim3 grid(grid_for(detail::ceil_div(once, share), 1),
                  static_cast<unsigned>(std::min<std::int64_t>(a.images, 65535)));
  with_element_type(to.dtype, [&]<class T>(T*) {
    launch_kernel(normalize_kernel<T>, {grid, dim3(threads)}, static_cast<cudaStream_t>(stream),
                  static_cast<const std::uint8_t*>(input), table, static_cast<T*>(output), a.images, a.pixels, stride,
                  bgr);
  });
}

}  // namespace lamina::cuda
