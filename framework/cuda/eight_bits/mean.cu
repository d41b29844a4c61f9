// Means of codes, channels last. A thread owns 16 channels of one output pixel (4 or 1, where that does not divide), of
// which a byte at a time is added by __dp4a; where windows are large, eight lanes of a warp take every eighth row each
// and shuffle their sums, which are whole numbers: no order of them changes a bit.
//
// Shared memory: none. Preconditions: a valid geometry without dilation.

#include "lamina/cuda/eight_bits/mean.h"

#include "lamina/base/math.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/pool2d_window.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int threads = 128;

struct Means {
  PoolGeometry geometry;
  bool adaptive = false;
  int lanes = 32;           // of a warp that have packs beside each other; the others have other rows
  std::uint32_t packs = 1;  // of a pixel
  Divider by_packs = {}, by_width, by_height;
  std::int64_t in_pitch, out_pitch;  // elements
  Meaning meaning;
  Results results;
};

template <int n>
__global__ void __launch_bounds__(threads)
    mean_kernel(const __grid_constant__ Means m, const std::uint8_t* __restrict__ input,  // [images, H, W, in_pitch]
                void* __restrict__ output,                                                // [images, OH, OW, out_pitch]
                std::uint32_t count) {
  let_successor_start();
  wait_for_predecessor();
  const PoolGeometry& g = m.geometry;
  const unsigned lanes = static_cast<unsigned>(m.lanes), lane = threadIdx.x % 32;
  const unsigned first_of_warp = (blockIdx.x * (threads / 32) + threadIdx.x / 32) * lanes;
  const unsigned index = first_of_warp + lane % lanes;
  if (first_of_warp >= count) return;  // the warp as a whole: the others meet below
  const unsigned pixel = m.by_packs.quotient(index), row = m.by_width.quotient(pixel);
  const unsigned image = m.by_height.quotient(row), channel = (index - pixel * m.packs) * n;
  const int oh = static_cast<int>(row) - static_cast<int>(image) * g.out_height;
  const int ow = static_cast<int>(pixel) - static_cast<int>(row) * g.out_width;
  const int member = static_cast<int>(lane / lanes), members = static_cast<int>(32 / lanes);
  const auto [rows, columns] =
      m.adaptive ? pooling::window_of<PoolKind::adaptive>(g, oh, ow) : pooling::window_of<PoolKind::average>(g, oh, ow);
  const std::uint8_t* first = input + std::int64_t{image} * g.in_height * g.in_width * m.in_pitch + channel;
  std::uint32_t sums[n] = {};
  for (int r = rows.begin + member; index < count && r < rows.end; r += members) {
    const std::uint8_t* of_row = first + std::int64_t{r} * g.in_width * m.in_pitch;
#pragma unroll 4
    for (int c = columns.begin; c < columns.end; ++c) {
      const auto pack = *reinterpret_cast<const CodePack<n>*>(of_row + c * m.in_pitch);
#pragma unroll
      for (int j = 0; j < n; ++j) sums[j] = __dp4a(pack.values[j / 4] ^ m.meaning.flip, 1u << (j % 4 * 8), sums[j]);
    }
  }
  for (int apart = m.lanes; apart < 32; apart *= 2) {
#pragma unroll
    for (int j = 0; j < n; ++j) sums[j] += __shfl_xor_sync(0xffffffffu, sums[j], apart);
  }
  if (index >= count || member != 0) return;
  const int there = max(rows.end - rows.begin, 0) * max(columns.end - columns.begin, 0);
  const float cells = there == 0 ? 1.0f : __fmul_rn(rows.cells, columns.cells);
  const int zeros = there * static_cast<int>(m.meaning.zero - 8388608.0f);
  float means[n];
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const auto sum = static_cast<float>(static_cast<int>(sums[j]) - zeros);
    means[j] = __fdiv_rn(__fmul_rn(sum, m.meaning.scale), cells);
  }
  m.results.write(means, output, std::int64_t{pixel} * m.out_pitch + channel);
}

}  // namespace

void mean_of_codes(int device, PoolKind kind, const PoolGeometry& g, const View& view, const View& result,
                   const void* input, void* output, Stream stream) {
  const std::int64_t channels = view.shape[1], outputs = g.planes * g.out_pixels();
  if (outputs == 0) return;
  const DeviceGuard guard(device);
  Means m = {.geometry = g,
             .adaptive = kind == PoolKind::adaptive,
             .by_width = Divider(g.out_width),
             .by_height = Divider(g.out_height),
             .in_pitch = view.pixel_pitch(),
             .out_pitch = result.pixel_pitch(),
             .meaning = Meaning(view),
             .results = Results(result)};
  const int window = m.adaptive ? detail::ceil_div(g.in_height, g.out_height) : g.kernel_height;
  const auto start = [&]<int n>(std::integral_constant<int, n>) {
    m.packs = static_cast<std::uint32_t>(channels / n), m.by_packs = Divider(channels / n);
    m.lanes = window >= 4 ? 4 : 32;
    const std::int64_t count = outputs / n;
    launch_kernel(
        mean_kernel<n>,
        {.grid = dim3(grid_for(detail::ceil_div<std::int64_t>(count, m.lanes) * 32, threads)), .block = dim3(threads)},
        stream, m, static_cast<const std::uint8_t*>(input), output, static_cast<std::uint32_t>(count));
  };
  const std::uint64_t bits = static_cast<std::uint64_t>(channels | m.in_pitch | m.out_pitch) |
                             neighbours_of(input, DType::u8) | neighbours_of(output, m.results.dtype);
  if (bits % 16 == 0) return start(std::integral_constant<int, 16>());
  if (bits % 4 == 0) return start(std::integral_constant<int, 4>());
  start(std::integral_constant<int, 1>());
}

}  // namespace lamina::cuda
