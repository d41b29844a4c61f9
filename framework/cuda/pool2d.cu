// Pooling in three forms, shared memory only in the last. The limit is memory: each input is fetched from it about
// once, the overlaps of windows come from cache; in a small batch it is the way to memory and back, which a thread
// takes once: it asks for all cells of a window of up to 3x3 before it looks at one.
//
// nchw to nchw: a thread owns one output, neighbours in a warp along a row.
// nhwc to nhwc: a thread owns 16 bytes of channels (or one channel, where that does not divide) of one output pixel,
// neighbours in a warp along the channels.
// From one layout to the other: a block of 32 x 8 threads, or 32 x 32, owns 32 pixels x 32 channels of the output and
// turns them in shared memory (4.2 KB, a pitch of 33 against bank conflicts), lanes along the input's innermost
// dimension first, then along the output's. Preconditions: a valid geometry; planes = images * channels.

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/kernels.h"
#include "lamina/cuda/pool2d_window.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;

using namespace pooling;

constexpr int threads = 256, least_threads = 64;
constexpr std::int64_t few_outputs = 1 << 15;
constexpr int tile = 32;
constexpr int tile_rows = 8;
constexpr std::int64_t few_tiles = 1024;
constexpr std::int64_t max_int = std::numeric_limits<int>::max();

__device__ inline std::int64_t in_pixels(const PoolGeometry& g) { return std::int64_t{g.in_height} * g.in_width; }

/// Planes or images, whichever lie apart: an output pixel has `inner` packs of N elements side by side.
template <PoolKind kind, class Batch, int N, class T, class Index>
__global__ void __launch_bounds__(threads)
    pool2d_kernel(PoolGeometry g, std::int64_t outer, Index inner, Index out_pitch, const Neighbours neighbours,
                  const T* __restrict__ input,  // [outer, H, W, inner * N]
                  T* __restrict__ output) {     // [outer, OH, OW, inner * N of out_pitch * N]
  let_successor_start(neighbours);
  const auto width = static_cast<Index>(g.out_width), height = static_cast<Index>(g.out_height);
  const Index count = static_cast<Index>(outer) * height * width * inner;
  const std::int64_t pitch = static_cast<std::int64_t>(inner) * N;
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  bool waited = false;  // the first window is worked out meanwhile
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    const Index pixel = i / inner, pack = i % inner;
    const Index row = pixel / width, column = pixel % width;
    const Index image = row / height;
    const T* first = input + static_cast<std::int64_t>(image) * in_pixels(g) * pitch + pack * N;
    Window window = window_of<kind>(g, static_cast<int>(row % height), static_cast<int>(column));
    if (!waited) {
      ptx::pin(first), ptx::pin(window.rows.begin), ptx::pin(window.columns.begin);
      wait_for_predecessor(neighbours);
    }
    waited = true;
    reinterpret_cast<Pack<T, N>*>(output)[static_cast<std::int64_t>(pixel) * out_pitch + pack] =
        pool<kind, Batch, N>(g, window, first, pitch);
  }
  if (!waited) wait_for_predecessor(neighbours);
  end_beside(neighbours);
}

/// `from_planes`: nchw to nhwc; else nhwc to nchw. The grid is [images, channel tiles, pixel tiles], z first: no
/// divisions but the one for a pixel's row.
template <PoolKind kind, class T>
__global__ void __launch_bounds__(tile* tile)
    pool2d_turning_kernel(PoolGeometry g, std::int64_t channels, bool from_planes, const T* __restrict__ input,
                          T* __restrict__ output) {
  __shared__ T turned[tile][tile + 1];  // [outer, inner] of the input's order
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t pixels = std::int64_t{g.out_height} * g.out_width;
  const std::int64_t images = g.planes / channels;
  const auto lane = static_cast<int>(threadIdx.x), first = static_cast<int>(threadIdx.y);
  for (std::int64_t image = blockIdx.z; image < images; image += gridDim.z) {
    for (std::int64_t channel0 = std::int64_t{blockIdx.y} * tile; channel0 < channels;
         channel0 += std::int64_t{gridDim.y} * tile) {
      for (std::int64_t pixel0 = std::int64_t{blockIdx.x} * tile; pixel0 < pixels;
           pixel0 += std::int64_t{gridDim.x} * tile) {
        for (int i = first; i < tile; i += static_cast<int>(blockDim.y)) {
          const std::int64_t pixel = pixel0 + (from_planes ? lane : i), channel = channel0 + (from_planes ? i : lane);
          if (pixel < pixels && channel < channels) {
            const std::int64_t begin =
                from_planes ? (image * channels + channel) * in_pixels(g) : image * in_pixels(g) * channels + channel;
            const auto row =
                pixels <= max_int
                    ? static_cast<std::int64_t>(static_cast<unsigned>(pixel) / static_cast<unsigned>(g.out_width))
                    : pixel / g.out_width;
            turned[i][lane] =
                pool<kind, AnyWindow, 1>(
                    g, window_of<kind>(g, static_cast<int>(row), static_cast<int>(pixel - row * g.out_width)),
                    input + begin, from_planes ? 1 : channels)
                    .values[0];
          }
        }
        __syncthreads();
        for (int i = first; i < tile; i += static_cast<int>(blockDim.y)) {
          const std::int64_t pixel = pixel0 + (from_planes ? i : lane), channel = channel0 + (from_planes ? lane : i);
          if (pixel < pixels && channel < channels) {
            const std::int64_t at = from_planes ? (image * pixels + pixel) * channels + channel
                                                : (image * channels + channel) * pixels + pixel;
            output[at] = turned[lane][i];
          }
        }
        __syncthreads();
      }
    }
  }
}

/// How a pooling's activations are stored: [N, channels, H, W] of f32, f16 or bf16, each side nchw or nhwc.
struct PoolFormat {
  std::int64_t channels = 1;
  DType dtype = DType::f32;
  Layout input = Layout::nchw;
  Layout output = Layout::nchw;
  std::int64_t pixel_pitch = 1;  ///< of an nhwc output, elements from one pixel to the next; other than the
                                 ///< channels where both sides are nhwc, in whole packs of 16 bytes
  Neighbours neighbours = {};    ///< heeded where both sides have the same layout, but for means of whole images
};

template <PoolKind kind, int N, class T>
void launch(const PoolGeometry& g, std::int64_t outer, std::int64_t inner, std::int64_t out_pitch,
            const Neighbours& neighbours, const T* input, T* output, Stream stream) {
  const std::int64_t count = outer * g.out_pixels() * inner;
  // Few outputs: small blocks reach more multiprocessors.
  const int block = count < few_outputs ? least_threads : threads;
  const dim3 grid(grid_for(count, block));
  const auto start = [&](auto kernel, auto index) {
    launch_kernel(kernel, {grid, dim3(static_cast<unsigned>(block))}, stream, g, outer,
                  static_cast<decltype(index)>(inner), static_cast<decltype(index)>(out_pitch), neighbours, input,
                  output);
  };
  // Windows that the kernels for up to 3 x 3 take, which there are none of for adaptive ones.
  constexpr PoolKind small = kind == PoolKind::adaptive ? PoolKind::largest : kind;
  const bool is_small = kind == small && g.kernel_height <= 3 && g.kernel_width <= 3;
  // Divisions in 32 bits are several times cheaper; the stride beyond the count must fit too.
  if (count + std::int64_t{grid.x} * block > max_int) {
    start(pool2d_kernel<kind, AnyWindow, N, T, std::int64_t>, std::int64_t{});
  } else if (kind == PoolKind::largest && g.kernel_height <= 2 && g.kernel_width <= 2) {
    start(pool2d_kernel<PoolKind::largest, Batch<2, 2>, N, T, std::uint32_t>, std::uint32_t{});
  } else if (is_small) {
    start(pool2d_kernel<small, Batch<3, 3>, N, T, std::uint32_t>, std::uint32_t{});
  } else {
    start(pool2d_kernel<kind, AnyWindow, N, T, std::uint32_t>, std::uint32_t{});
  }
}

template <PoolKind kind, class T>
void launch(const PoolGeometry& g, const PoolFormat& f, const T* input, T* output, Stream stream) {
  constexpr int widest = Pack<T>::size;
  if (f.input != f.output && f.channels > 1) {
    const auto tiles = [](std::int64_t extent) {
      return static_cast<unsigned>(std::min<std::int64_t>(detail::ceil_div(extent, std::int64_t{tile}), 65535));
    };
    const dim3 grid(tiles(g.out_pixels()), tiles(f.channels), tiles(g.planes / f.channels * tile));
    // Few tiles leave most of the device idle: then every output gets a thread. Many run better in small blocks.
    const bool few = std::int64_t{grid.x} * grid.y * grid.z < few_tiles;
    launch_kernel(pool2d_turning_kernel<kind, T>, {grid, dim3(tile, few ? tile : tile_rows)}, stream, g, f.channels,
                  f.input == Layout::nchw, input, output);
  } else if (f.input == Layout::nchw || f.channels == 1) {
    launch<kind, 1>(g, g.planes, 1, 1, f.neighbours, input, output, stream);
  } else if (f.channels % widest == 0 && aligned_to_16(input) && aligned_to_16(output)) {
    launch<kind, widest>(g, g.planes / f.channels, f.channels / widest, f.pixel_pitch / widest, f.neighbours, input,
                         output, stream);
  } else {
    launch<kind, 1>(g, g.planes / f.channels, f.channels, f.pixel_pitch, f.neighbours, input, output, stream);
  }
}

}  // namespace

/// Pooling may turn the layout on its way.
bool takes_pool(const PoolProblem& problem, const Preparation& p) {
  const View &input = p.input(), &output = p.output();
  // A slice is written 16 bytes at a time, by the kernel that does not turn the layout.
  const bool slice_fits = !input.is_slice() && problem.kind != PoolKind::adaptive && output.alignment % 16 == 0 &&
                          input.format == output.format && output.format.layout == Layout::nhwc &&
                          static_cast<std::size_t>(output.shape[1]) * size_of(output.format.dtype) % 16 == 0;
  return input.format.dtype == output.format.dtype && (!p.has_slices() || slice_fits);
}

std::unique_ptr<Operator> prepare_pool(const PoolProblem& problem, const Preparation& p) {
  const PoolFormat stored = {.channels = p.input().shape[1],
                             .dtype = p.input().format.dtype,
                             .input = p.input().format.layout,
                             .output = p.output().format.layout,
                             .pixel_pitch = p.output().pixel_pitch()};
  const bool heeds = problem.kind != PoolKind::adaptive && stored.input == stored.output;
  return make_on_device(
      index(p), "each window by one thread", {.heeds_neighbours = heeds},
      [stored, kind = problem.kind, g = problem.geometry](Inputs inputs, Outputs outputs, const Execution& execution) {
        PoolFormat format = stored;
        format.neighbours = execution.neighbours;
        const Stream stream = execution.stream;
        with_element_type(format.dtype, [&]<class T>(T*) {
          const T* in = elements<T>(inputs[0]);
          T* out = elements<T>(outputs[0]);
          switch (kind) {
            case PoolKind::largest: return launch<PoolKind::largest>(g, format, in, out, stream);
            case PoolKind::average: return launch<PoolKind::average>(g, format, in, out, stream);
            case PoolKind::adaptive: return launch<PoolKind::adaptive>(g, format, in, out, stream);
          }
        });
      });
}

}  // namespace lamina::cuda
