#pragma once

// Windows of 3 x 3 with stride 1 or 2. A warp owns a rectangle of 2 m rows x 8 columns of outputs: 8 pixels side by
// side are a matrix of 8 rows, and a fragment of 16 rows is two lines of the rectangle, m lines apart. So a fragment of
// input lines t and t + m (times the stride), once in registers, serves every tap and line of outputs that sees it, as
// it is: of 16 pixels x 8 channels 18 matrices are multiplied and 9 (m = 4) are loaded. The window's first two columns
// are the halves of a step of K, its last is half a step.

#include "lamina/cuda/conv2d/mma/resident/rows.cuh"

namespace lamina::cuda::mma::resident {

template <class Op, int m, int n, int stride>
__device__ __forceinline__ void convolve_window(const Arguments& args, const Place& place, unsigned char* memory) {
  using Weights = resident::Weights<Op>;
  constexpr int run = run_of(static_cast<int>(sizeof(typename Op::Element)), n), steps = window_slots / 2;
  constexpr int lines = (m - 1) * stride + 3;  // of one half of a rectangle
  const ConvGeometry& g = args.geometry;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto* const biases = reinterpret_cast<const float*>(memory + args.biases_offset);
  unsigned char* const results = memory + args.results_offset + warp * Results<m, n, run>::bytes;
  const auto pixel_bytes = static_cast<std::uint32_t>(args.pixel_bytes);
  const std::uint32_t pitch = static_cast<std::uint32_t>(args.x.row()) * pixel_bytes;
  const std::uint32_t ring = ptx::shared_address(memory) + static_cast<std::uint32_t>(args.ring_offset);
  const std::uint32_t source =
      ring + static_cast<std::uint32_t>(lane / 8 % 2 * m * stride) * pitch +  // the other half of the rectangle
      static_cast<std::uint32_t>(lane % 8) * pixel_bytes;
  // Lanes from 16 on name the second column, and the next line of the last column.
  const std::uint32_t first_two = lane < 16 ? 0 : static_cast<std::uint32_t>(args.x.place(1)) * pixel_bytes;
  const std::uint32_t last_of_two = static_cast<std::uint32_t>(args.x.place(2)) * pixel_bytes + (lane < 16 ? 0 : pitch);
  const std::uint32_t all_weights =
      ring + static_cast<std::uint32_t>(args.weight_offset + lane * static_cast<int>(sizeof(Weights)));
  const int weight_bytes = args.steps * step_bytes_of(Op::split, n);
  const int bundles = min(args.block_bundles, args.bundling.count - place.bundle);
  const int columns = args.x.tile / 8, rectangles = args.y.tile / (2 * m) * columns;
  const int tasks = (bundles + args.run - 1) / args.run * rectangles;

  ptx::copy_async_wait<0>();
  __syncthreads();
#pragma unroll 1
  for (int task = warp; task < tasks; task += threads / 32) {
    const int some = static_cast<int>(args.by_rectangles.quotient(static_cast<std::uint32_t>(task)));
    const int rectangle = task - some * rectangles;
    const int down = static_cast<int>(args.by_columns.quotient(static_cast<std::uint32_t>(rectangle)));
    const int top = down * 2 * m, left = (rectangle - down * columns) * 8;
    if (place.row + top >= g.out_height || place.column + left >= g.out_width) continue;
    int to[2 * m];
    const int column = place.column + left + lane / 4;
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      const int row = place.row + top + i / 2 + i % 2 * m;
      to[i] = row < g.out_height && column < g.out_width ? row * g.out_width + column : -1;
    }
    const int first = some * args.run, last = min(first + args.run, bundles);
#pragma unroll 1
    for (int local = first; local < last; ++local) {
      Sums<Op, m, n> sums;
      std::uint32_t from = source + static_cast<std::uint32_t>(top * stride) * pitch +
                           static_cast<std::uint32_t>(left) * pixel_bytes +
                           static_cast<std::uint32_t>(args.shared ? 0 : local * args.units * unit_bytes);
      std::uint32_t weights = all_weights + static_cast<std::uint32_t>(local * weight_bytes);
#pragma unroll 1
      for (int unit = 0; unit < args.units; ++unit) {
        std::uint32_t two[lines][4], one[lines][2];
#pragma unroll
        for (int t = 0; t < lines; ++t) {
          ptx::load_matrices(two[t], from + first_two + static_cast<std::uint32_t>(t) * pitch);
        }
#pragma unroll
        for (int t = 0; t + 1 < lines; t += 2) {
          std::uint32_t both[4];
          ptx::load_matrices(both, from + last_of_two + static_cast<std::uint32_t>(t) * pitch);
          one[t][0] = both[0], one[t][1] = both[1], one[t + 1][0] = both[2], one[t + 1][1] = both[3];
        }
        if constexpr (lines % 2 != 0) {
          ptx::load_matrices(one[lines - 1], from + last_of_two + static_cast<std::uint32_t>(lines - 1) * pitch);
        }
        Weights b[steps][n];
#pragma unroll
        for (int step = 0; step < steps; ++step) {
#pragma unroll
          for (int j = 0; j < n; ++j) {
            b[step][j] =
                ptx::load_shared<Weights>(weights + static_cast<std::uint32_t>((step * n + j) * 32 * sizeof(Weights)));
          }
        }
        weights += static_cast<std::uint32_t>(steps * n * 32 * sizeof(Weights));
#pragma unroll
        for (int down = 0; down < 3; ++down) {
          std::uint32_t a[m][4], half[m][2], end[n];
#pragma unroll
          for (int i = 0; i < m; ++i) {
#pragma unroll
            for (int r = 0; r < 4; ++r) a[i][r] = two[i * stride + down][r];
            half[i][0] = one[i * stride + down][0], half[i][1] = one[i * stride + down][1];
          }
#pragma unroll
          for (int j = 0; j < n; ++j) end[j] = down == 0 ? b[3][j].x : down == 1 ? b[3][j].y : b[4][j].x;
          sums.multiply(a, b[down], 0);
          sums.multiply(half, end);
        }
        from += unit_bytes;
      }
      store_sums<Op, run>(args, place, place.bundle + first, local - first, last - first, to, sums.sum,
                          biases + first * n * 8, results);
    }
  }
}

}  // namespace lamina::cuda::mma::resident
