// Windows as rows of bytes: what a product of matrices reads. A thread owns 16 bytes of a row, which it gathers in
// units of 16, 4 or 1, whichever the channels are a multiple of.
//
// Shared memory: none. Preconditions: one group; input and rows aligned to the unit. The limit is memory.

#include <limits>

#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/eight_bits.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::eight_bits {
namespace {

constexpr int threads = 256;

struct Task {
  ConvGeometry g;
  std::int64_t pitch, packs;  // of a pixel, in units; in a row
  int units;                  // of a pixel
  std::uint32_t padding;
  Divider by_packs, by_width, by_height, by_units, by_columns;
};

template <class Unit>
__device__ Unit repeated(std::uint32_t four) {
  if constexpr (sizeof(Unit) == 16) return Unit{four, four, four, four};
  if constexpr (sizeof(Unit) < 16) return static_cast<Unit>(four);
}

template <class Unit>
__global__ void __launch_bounds__(threads) unfold_kernel(const __grid_constant__ Task t, std::int64_t count,
                                                         const Unit* __restrict__ input, uint4* __restrict__ rows) {
  constexpr int n = static_cast<int>(16 / sizeof(Unit));
  let_successor_start();
  wait_for_predecessor();
  const ConvGeometry& g = t.g;
  const auto step = static_cast<std::int64_t>(gridDim.x) * threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x; i < count; i += step) {
    const std::uint32_t pixel = t.by_packs.quotient(static_cast<std::uint32_t>(i));
    const std::uint32_t line = t.by_width.quotient(pixel), image = t.by_height.quotient(line);
    const int top =
        static_cast<int>(line - image * static_cast<unsigned>(g.out_height)) * g.stride_height - g.padding_height;
    const int left =
        static_cast<int>(pixel - line * static_cast<unsigned>(g.out_width)) * g.stride_width - g.padding_width;
    const auto first = static_cast<std::uint32_t>(i - pixel * t.packs) * n;
    const std::uint32_t tap = t.by_units.quotient(first);
    auto unit = static_cast<int>(first - tap * static_cast<unsigned>(t.units));
    auto kh = static_cast<int>(t.by_columns.quotient(tap)), kw = static_cast<int>(tap) - kh * g.kernel_width;
    Pack<Unit, n> pack;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const int y = top + kh * g.dilation_height, x = left + kw * g.dilation_width;
      const bool inside = kh < g.kernel_height && static_cast<unsigned>(y) < static_cast<unsigned>(g.in_height) &&
                          static_cast<unsigned>(x) < static_cast<unsigned>(g.in_width);
      const std::int64_t at = (static_cast<std::int64_t>(image) * g.in_height + y) * g.in_width + x;
      pack.values[j] = inside ? input[at * t.pitch + unit] : repeated<Unit>(t.padding);
      if (++unit < t.units) continue;
      unit = 0;
      if (++kw == g.kernel_width) kw = 0, ++kh;
    }
    rows[i] = *reinterpret_cast<const uint4*>(&pack);
  }
}

template <class Unit>
void start(const ConvGeometry& g, const void* input, std::int64_t pitch, std::uint8_t padding, void* rows,
           Stream stream) {
  constexpr auto unit = static_cast<int>(sizeof(Unit));
  const std::int64_t packs = row_bytes(g) / 16, count = g.batch * g.out_pixels() * packs;
  const int units = g.in_channels / unit;
  launch_kernel(unfold_kernel<Unit>, {.grid = dim3(grid_for(count, threads)), .block = dim3(threads)}, stream,
                Task{.g = g,
                     .pitch = pitch / unit,
                     .packs = packs,
                     .units = units,
                     .padding = padding * 0x01010101u,
                     .by_packs = Divider(packs),
                     .by_width = Divider(g.out_width),
                     .by_height = Divider(g.out_height),
                     .by_units = Divider(units),
                     .by_columns = Divider(g.kernel_width)},
                count, static_cast<const Unit*>(input), static_cast<uint4*>(rows));
}

struct Strip {
  ConvGeometry g;
  int packs, window, columns;  // of a row; bytes of one; pixels of a row in shared memory
  std::uint8_t padding;
};

__global__ void __launch_bounds__(threads)
    unfold_strip_kernel(const __grid_constant__ Strip s, const std::uint8_t* __restrict__ input,
                        uint4* __restrict__ rows) {
  extern __shared__ std::uint8_t strip[];  // [KH, columns, C]
  let_successor_start();
  const ConvGeometry& g = s.g;
  const auto image = static_cast<int>(blockIdx.x) / g.out_height,
             row = static_cast<int>(blockIdx.x) - image * g.out_height;
  const int line = s.columns * g.in_channels, thread = static_cast<int>(threadIdx.x);
  const int pack = thread % s.packs, lanes = threads / s.packs;
  int offset[16];
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const int k = min(pack * 16 + j, s.window - 1), tap = k / g.in_channels;
    const int kh = tap / g.kernel_width, kw = tap - kh * g.kernel_width;
    offset[j] = kh * line + kw * g.dilation_width * g.in_channels + k - tap * g.in_channels;
  }
  wait_for_predecessor();
  const int beside = g.padding_width * g.in_channels, width = g.in_width * g.in_channels;
  for (int kh = 0; kh < g.kernel_height; ++kh) {
    const int y = row * g.stride_height - g.padding_height + kh * g.dilation_height;
    const bool there = y >= 0 && y < g.in_height;
    const std::uint8_t* from = input + (static_cast<std::int64_t>(image) * g.in_height + y) * width - beside;
    for (int i = thread; i < line; i += threads) {
      const bool inside = there && static_cast<unsigned>(i - beside) < static_cast<unsigned>(width);
      strip[kh * line + i] = inside ? __ldg(from + i) : s.padding;
    }
  }
  __syncthreads();
  if (thread >= lanes * s.packs) return;
  uint4* const to = rows + static_cast<std::int64_t>(blockIdx.x) * g.out_width * s.packs + pack;
  for (int column = thread / s.packs; column < g.out_width; column += lanes) {
    const std::uint8_t* const first = strip + column * g.stride_width * g.in_channels;
    Pack<std::uint8_t, 16> bytes;
#pragma unroll
    for (int j = 0; j < 16; ++j) bytes.values[j] = first[offset[j]];
    to[static_cast<std::int64_t>(column) * s.packs] = *reinterpret_cast<const uint4*>(&bytes);
  }
}

/// Whether its rows fit into shared memory that every device has, and are long enough to pay for the block (of windows
/// of 27 bytes a MobileNet's stem took 0.59 ms so and 0.48 by bytes); starts it.
bool start_strip(const ConvGeometry& g, const void* input, std::uint8_t padding, void* rows, Stream stream) {
  const int columns = (g.out_width - 1) * g.stride_width + (g.kernel_width - 1) * g.dilation_width + 1;
  const Strip strip = {g, static_cast<int>(row_bytes(g) / 16), static_cast<int>(g.reduction()), columns, padding};
  const std::int64_t bytes = std::int64_t{g.kernel_height} * columns * g.in_channels;
  constexpr int least_packs = 4;
  if (bytes > 48 * 1024 || strip.packs < least_packs || strip.packs > threads ||
      g.batch * g.out_height > std::numeric_limits<int>::max())
    return false;
  launch_kernel(unfold_strip_kernel,
                {.grid = dim3(static_cast<unsigned>(g.batch * g.out_height)),
                 .block = dim3(threads),
                 .shared_bytes = static_cast<std::size_t>(bytes)},
                stream, strip, static_cast<const std::uint8_t*>(input), static_cast<uint4*>(rows));
  return true;
}

}  // namespace

std::int64_t row_bytes(const ConvGeometry& g) { return detail::round_up<std::int64_t>(g.reduction(), 16); }

void unfold(const ConvGeometry& g, const void* input, std::int64_t pitch, std::uint8_t padding, void* rows,
            Stream stream) {
  const auto bits = static_cast<std::uint64_t>(pitch | g.in_channels) | reinterpret_cast<std::uintptr_t>(input);
  if (bits % 16 == 0) return start<uint4>(g, input, pitch, padding, rows, stream);
  if (bits % 4 == 0) return start<std::uint32_t>(g, input, pitch, padding, rows, stream);
  if (pitch == g.in_channels && start_strip(g, input, padding, rows, stream)) return;
  start<std::uint8_t>(g, input, pitch, padding, rows, stream);
}

}  // namespace lamina::cuda::eight_bits
