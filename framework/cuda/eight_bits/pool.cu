// Pooling of codes, channels last. A thread owns 16 channels of one output pixel (4 or 1, where that does not divide):
// __vmaxu4 finds the largest of four at a time, __dp4a adds a byte to a sum. Four cells of a row are asked for before
// one is looked at. Where windows are large, eight lanes of a warp take every eighth row each, and shuffle what they
// have; where they are few besides, the warps of a block share them, column by column: whole numbers, no order of which
// changes a bit.
//
// Shared memory: of the latter 4 KB. Preconditions: a valid geometry.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/divider.h"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/eight_bits/kernels.h"
#include "lamina/cuda/pool2d_window.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int in_flight = 4, max_lanes = 4;

struct Pooling {
  PoolGeometry geometry;
  bool adaptive = false;
  unsigned lanes = 32, packs = 1;  // of a warp that have neighbouring packs, the others having other rows; of a pixel
  Divider by_packs = {}, by_width, by_height;
  std::int64_t in_pitch, out_pitch;  // elements
  Meaning meaning;
  Results results;
};

/// `threads`: 128, whose warps have outputs of their own, or 512 that share them.
template <bool largest, int n, int threads>
__global__ void __launch_bounds__(threads, threads == 128 ? 6 : 2)
    pool_codes_kernel(const __grid_constant__ Pooling p,
                      const std::uint8_t* __restrict__ input,  // [images, H, W, in_pitch]
                      void* __restrict__ output,               // [images, OH, OW, out_pitch]
                      unsigned count) {
  using namespace pooling;
  constexpr int words = (n + 3) / 4, sums = largest ? words : n;
  let_successor_start();
  wait_for_predecessor();
  const PoolGeometry& g = p.geometry;
  constexpr bool together = threads != 128;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const unsigned first_of_warp = (together ? blockIdx.x : blockIdx.x * threads / 32 + warp) * p.lanes;
  if (first_of_warp >= count) return;  // the warp as a whole: its lanes meet below
  const unsigned index = first_of_warp + lane % p.lanes, pixel = p.by_packs.quotient(index);
  const unsigned row = p.by_width.quotient(pixel), image = p.by_height.quotient(row);
  const unsigned channel = (index - pixel * p.packs) * n;
  const int oh = static_cast<int>(row) - static_cast<int>(image) * g.out_height;
  const int ow = static_cast<int>(pixel) - static_cast<int>(row) * g.out_width;
  const auto [rows, columns] = largest      ? window_of<PoolKind::largest>(g, oh, ow)
                               : p.adaptive ? window_of<PoolKind::adaptive>(g, oh, ow)
                                            : window_of<PoolKind::average>(g, oh, ow);
  const std::uint8_t* first = input + std::int64_t{image} * g.in_height * g.in_width * p.in_pitch + channel;
  std::uint32_t sum[sums] = {};  // or the largest, 0 being the lowest code
  const auto add = [&](const std::uint32_t(&word)[words]) {
#pragma unroll
    for (int j = 0; j < sums; ++j) {
      sum[j] = largest ? __vmaxu4(sum[j], word[j]) : __dp4a(word[j / 4], 1u << (j % 4 * 8), sum[j]);
    }
  };
  const int step = rows.step * static_cast<int>(32 / p.lanes);
  for (int r = rows.begin + rows.step * static_cast<int>(lane / p.lanes); index < count && r < rows.end; r += step) {
    const std::uint8_t* of_row = first + std::int64_t{r} * g.in_width * p.in_pitch;
    const int across = in_flight * columns.step;
    for (int c = columns.begin + (together ? static_cast<int>(warp) * across : 0); c < columns.end;
         c += (together ? threads / 32 : 1) * across) {
      std::uint32_t cells[in_flight][words] = {};  // 0 adds nothing
#pragma unroll
      for (int k = 0; k < in_flight; ++k) {
        const int column = c + k * columns.step;
        if (column < columns.end) {
          const auto pack = *reinterpret_cast<const Codes<n>*>(of_row + column * p.in_pitch);
#pragma unroll
          for (int j = 0; j < words; ++j) cells[k][j] = pack.values[j] ^ p.meaning.flip;
        }
      }
#pragma unroll
      for (const auto& cell : cells) add(cell);
    }
  }
  for (unsigned apart = p.lanes; apart < 32; apart *= 2) {
#pragma unroll
    for (std::uint32_t& mine : sum) {
      const std::uint32_t other = __shfl_xor_sync(0xffffffffu, mine, apart);
      mine = largest ? __vmaxu4(mine, other) : mine + other;
    }
  }
  if constexpr (together) {
    __shared__ std::uint32_t parts[threads / 32][max_lanes][sums];
#pragma unroll
    for (int j = 0; j < sums; ++j) {
      if (lane < p.lanes) parts[warp][lane][j] = sum[j];
    }
    __syncthreads();
    for (unsigned other = 1; warp == 0 && lane < p.lanes && other < threads / 32; ++other) {
#pragma unroll
      for (int j = 0; j < sums; ++j) sum[j] += parts[other][lane][j];
    }
    if (warp > 0) return;
  }
  if (index >= count || lane >= p.lanes) return;
  const std::int64_t at = std::int64_t{pixel} * p.out_pitch + channel;
  if constexpr (largest) {
    Codes<n> result;
#pragma unroll
    for (int j = 0; j < words; ++j) result.values[j] = sum[j] ^ p.meaning.flip;
    *reinterpret_cast<Codes<n>*>(static_cast<std::uint8_t*>(output) + at) = result;
  } else {
    const int there = max(rows.end - rows.begin, 0) * max(columns.end - columns.begin, 0);
    const int zeros = there * static_cast<int>(p.meaning.zero - 8388608.0f);
    const float cells = there == 0 ? 1.0f : __fmul_rn(rows.cells, columns.cells);
    float means[n];
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const auto whole = static_cast<float>(static_cast<int>(sum[j]) - zeros);
      means[j] = __fdiv_rn(__fmul_rn(whole, p.meaning.scale), cells);
    }
    p.results.write(means, output, at);
  }
}

template <int n>
void start(Pooling p, bool largest, std::int64_t channels, const void* input, void* output, Stream stream) {
  p.packs = static_cast<unsigned>(channels / n), p.by_packs = Divider(channels / n);
  const std::int64_t count = p.geometry.planes * p.geometry.out_pixels() / n;
  const std::int64_t warps = detail::ceil_div<std::int64_t>(count, p.lanes);
  const auto launch = [&](auto* kernel, unsigned blocks, int threads) {
    launch_kernel(kernel, {.grid = dim3(blocks), .block = dim3(static_cast<unsigned>(threads))}, stream, p,
                  static_cast<const std::uint8_t*>(input), output, static_cast<unsigned>(count));
  };
  // A warp takes large windows alone for long, which nobody notices where there are many.
  constexpr std::int64_t few = 528, large = 512;
  const PoolGeometry& g = p.geometry;
  const std::int64_t cells = p.adaptive ? g.in_pixels() / std::max<std::int64_t>(1, g.out_pixels())
                                        : std::int64_t{g.kernel_height} * g.kernel_width;
  if (largest) return launch(pool_codes_kernel<true, n, 128>, grid_for(warps * 32, 128), 128);
  if (p.lanes == max_lanes && warps <= few && cells >= large) {
    return launch(pool_codes_kernel<false, n, 512>, static_cast<unsigned>(warps), 512);
  }
  launch(pool_codes_kernel<false, n, 128>, grid_for(warps * 32, 128), 128);
}

}  // namespace

bool takes_pool_of_codes(const PoolProblem& problem, const Preparation& p) {
  constexpr int most_exact = 65'793;  // codes whose sum is a whole number of f32
  const PoolGeometry& g = problem.geometry;
  if (!reads_codes(p)) return false;
  if (problem.kind == PoolKind::largest) return p.keeps_format();
  return g.dilation_height == 1 && g.dilation_width == 1 && g.in_pixels() <= most_exact;
}

std::unique_ptr<Operator> prepare_pool_of_codes(const PoolProblem& problem, const Preparation& preparation) {
  const View &from = preparation.input(), &to = preparation.output();
  const PoolGeometry& g = problem.geometry;
  Pooling p = {.geometry = g,
               .adaptive = problem.kind == PoolKind::adaptive,
               .by_width = Divider(g.out_width),
               .by_height = Divider(g.out_height),
               .in_pitch = from.pixel_pitch(),
               .out_pitch = to.pixel_pitch(),
               .meaning = Meaning(from),
               .results = Results(to)};
  if ((p.adaptive ? g.in_height / std::max(g.out_height, 1) : g.kernel_height) > 4) p.lanes = max_lanes;
  return make_on_device(index(preparation), "windows of all channels",
                        [p, channels = from.shape[1], largest = problem.kind == PoolKind::largest](
                            Inputs inputs, Outputs outputs, const Execution& execution) {
                          const void* const input = inputs[0].raw();
                          void* const output = outputs[0].raw();
                          const std::uint64_t bits = static_cast<std::uint64_t>(channels | p.in_pitch | p.out_pitch) |
                                                     neighbours_of(input, DType::u8) |
                                                     neighbours_of(output, p.results.dtype);
                          if (bits % 16 == 0) return start<16>(p, largest, channels, input, output, execution.stream);
                          if (bits % 4 == 0) return start<4>(p, largest, channels, input, output, execution.stream);
                          start<1>(p, largest, channels, input, output, execution.stream);
                        });
}

}  // namespace lamina::cuda
