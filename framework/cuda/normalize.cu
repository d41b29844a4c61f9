// Normalisation of 8-bit pictures: bytes in, numbers out, by a table of what each level becomes. Looking up gives the
// host's bits without any arithmetic here that could round otherwise.
//
// A block of 256 threads holds the table in shared memory (3 KB) and strides over pixels of an image; a thread owns
// 16 bytes of each output plane at a time (4 pixels in f32, 8 in 16 bits), or where planes do not start on 16 bytes, or
// channels are to lie side by side, one pixel. Preconditions: none. The limit is memory: in f32 3 bytes are read and 12
// written for a pixel.

#include "lamina/cuda/check.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/normalize.h"
#include "lamina/cuda/overlap.cuh"
#include "lamina/tensor/math.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;
constexpr int levels = 256;

struct Strides {
  std::int64_t channel, pixel;  // in elements, of the output
};

/// Pixels of `pack` size at a time: 3 * V bytes in, V elements of each plane out.
template <class T, int V>
__global__ void __launch_bounds__(threads)
    normalize_kernel(const std::uint8_t* __restrict__ input,  // [images, pixels, 3]
                     const float* __restrict__ table,         // [3, levels]
                     T* __restrict__ output, std::int64_t images, std::int64_t pixels, Strides stride, bool bgr) {
  __shared__ float shared[3 * levels];
  for (int i = static_cast<int>(threadIdx.x); i < 3 * levels; i += threads) shared[i] = table[i];
  __syncthreads();
  wait_for_predecessor();
  let_successor_start();
  const std::int64_t packs = pixels / V, step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t image = blockIdx.y; image < images; image += gridDim.y) {
    const auto* from = reinterpret_cast<const Pack<std::uint8_t, V>*>(input + image * pixels * 3);
    T* to = output + image * pixels * 3;
#pragma unroll 2
    for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < packs; i += step) {
      Pack<std::uint8_t, V> bytes[3];
#pragma unroll
      for (int part = 0; part < 3; ++part) bytes[part] = from[3 * i + part];
#pragma unroll
      for (int colour = 0; colour < 3; ++colour) {
        const int channel = bgr ? 2 - colour : colour;
        Pack<T, V> out;
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const int at = 3 * j + colour;
          out.values[j] = from_f32<T>(shared[channel * levels + bytes[at / V].values[at % V]]);
        }
        *reinterpret_cast<Pack<T, V>*>(to + channel * stride.channel + i * V * stride.pixel) = out;
      }
    }
  }
}

template <class T, int V>
void launch(const Activation& a, const void* input, const float* table, bool bgr, Layout layout, void* output,
            cudaStream_t stream) {
  const Strides stride = layout == Layout::nhwc ? Strides{1, 3} : Strides{a.pixels, 1};
  // Up to four rounds for a thread, to spread the cost of the table, as long as there are blocks for every device.
  constexpr std::int64_t enough_blocks = 2048;
  const std::int64_t once = detail::ceil_div<std::int64_t>(a.pixels / V, threads);
  const std::int64_t rounds = std::clamp<std::int64_t>(once * a.images / enough_blocks, 1, 4);
  const dim3 grid(grid_for(detail::ceil_div(once, rounds), 1),
                  static_cast<unsigned>(std::min<std::int64_t>(a.images, 65535)));
  launch_overlapping(normalize_kernel<T, V>, grid, dim3(threads), stream, static_cast<const std::uint8_t*>(input),
                     table, static_cast<T*>(output), a.images, a.pixels, stride, bgr);
}

}  // namespace

void normalize(int device, const Activation& activation, const void* input, const float* table, bool bgr, Format to,
               void* output, Stream stream) {
  if (activation.size() == 0) return;
  if (activation.channels != 3 || to.layout == Layout::blocked) {
    detail::fail("cannot normalise ", activation.channels, " channels to ", to, " on a GPU");
  }
  const DeviceGuard guard(device);
  with_element_type(to.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    constexpr int vector = Pack<T>::size;
    const bool whole =
        to.layout == Layout::nchw && activation.pixels % vector == 0 && aligned_to_16(input) && aligned_to_16(output);
    const auto run = whole ? launch<T, vector> : launch<T, 1>;
    run(activation, input, table, bgr, to.layout, output, static_cast<cudaStream_t>(stream));
  });
}

}  // namespace lamina::cuda
