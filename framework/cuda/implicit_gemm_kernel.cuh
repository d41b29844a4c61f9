#pragma once

// Convolution as a matrix product whose second matrix is never stored: implicit GEMM on mma.sync (sm_80 and up).
//
//   per group   output [M = filters, N = images * OH * OW]  =  weight [M, K]  *  columns [K, N],   K = taps * channels
//
// A block owns block_m filters x block_n consecutive output pixels (which may span images) and one split of K; each of
// its four warps owns a quarter of that, warp_m x warp_n, in registers, as 16 x 8 fragments. K advances in steps of 128
// bytes (32 TF32 or 64 f16 terms). A thread gathers, for one fixed 16-byte piece of the step, the same tap of several
// pixels: the channels of a pixel lie together in the staged input, so a tap is one cp.async, and a tap in the padding
// is one that writes zeros.
// Shared memory: pipeline_depth * (block_m + block_n) * 128 bytes of tiles, and 8 bytes per pixel; the epilogue
// reuses the tiles to turn fragments into rows of the output. docs/implicit_gemm.md draws it and counts banks.
// Preconditions: compute capability 8.0; Arguments filled in by implicit_gemm.cpp.
// Sources: implicit GEMM as in cuDNN (Chetlur et al. 2014) and CUTLASS; the split of fp32 into TF32 high and low words
// as in Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022), with their remedy for
// accumulation that rounds toward zero: short chains, folded into fp32 registers.

#include "lamina/cuda/implicit_gemm_epilogue.cuh"

namespace lamina::cuda::implicit_gemm {

template <int m, int n, int wm, int wn>
struct Tiling {
  static constexpr int block_m = m, block_n = n, warp_m = wm, warp_n = wn;
  static constexpr int fragments_m = warp_m / 16, fragments_n = warp_n / 8;
  static constexpr int bytes_per_step = (block_m + block_n) * step_bytes;
  static constexpr int warps_n = block_n / warp_n;
  static constexpr int output_pitch = block_n + 8;
  static constexpr int shared_bytes = pipeline_depth * bytes_per_step + block_n * static_cast<int>(sizeof(Position));

  static_assert((block_m / warp_m) * warps_n * 32 == threads, "the warps cover the tile exactly once");
  static_assert(warp_m % 16 == 0 && warp_n % 16 == 0, "ldmatrix.x4 loads 16 rows of either operand");
  static_assert(block_m % 16 == 0 && block_n % 32 == 0, "a pass of cp.async covers 16 rows, up to 32 units in each");
  static_assert(block_n <= threads && threads % block_n == 0, "the epilogue gives every thread one column");
  static_assert(block_m * output_pitch * 4 <= pipeline_depth * bytes_per_step, "the output tile fits where tiles were");
  static_assert(output_pitch % 32 == 8, "four rows of eight words are then 32 different banks");
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// Starts the copies of one step's columns [block_n, 128 bytes] for the tap this thread is at.
template <int unit_bytes, int block_n>
__device__ __forceinline__ void gather(unsigned destination, const void* input, const Position* windows, Position tap) {
  constexpr int units = step_bytes / unit_bytes;
  constexpr int rows_per_pass = threads / units;
  const int column = static_cast<int>(threadIdx.x) % units * unit_bytes;
  const int first = static_cast<int>(threadIdx.x) / units;
#pragma unroll 8
  for (int pass = 0; pass < block_n / rows_per_pass; ++pass) {
    const int row = first + pass * rows_per_pass;
    const Position window = windows[row];
    const bool valid = inside(window, tap);
    const std::size_t unit = valid ? window.offset + tap.offset : 0u;
    copy_async_or_zero<unit_bytes>(destination + static_cast<unsigned>(swizzled(row, column)),
                                   static_cast<const unsigned char*>(input) + unit * unit_bytes, valid);
  }
}

/// sum += A B over one step of K in shared memory: four times 32 bytes.
template <class Op, class T>
__device__ __forceinline__ void multiply_step(float (&sum)[T::fragments_m][T::fragments_n][4], unsigned a_rows,
                                              unsigned b_rows) {
#pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    unsigned a[T::fragments_m][4], b[T::fragments_n / 2][4];
#pragma unroll
    for (int i = 0; i < T::fragments_m; ++i) load_matrices(a[i], (a_rows ^ piece << 5) + i * 16 * step_bytes);
#pragma unroll
    for (int j = 0; j < T::fragments_n / 2; ++j) load_matrices(b[j], (b_rows ^ piece << 5) + j * 16 * step_bytes);
#pragma unroll
    for (int j = 0; j < T::fragments_n; ++j) {
      const unsigned b_pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
#pragma unroll
      for (int i = 0; i < T::fragments_m; ++i) Op::multiply(sum[i][j], a[i], b_pair, sum[i][j]);
    }
  }
}

/// The same in fp32: A B = high high + low high + high low, corrections first, in a chain of their own that begins at
/// zero in every step. Both factors of high_a * low_b carry split_scale, one as its inverse.
template <class T>
__device__ __forceinline__ void multiply_step_split(float (&sum)[T::fragments_m][T::fragments_n][4], unsigned a_rows,
                                                    unsigned b_rows) {
  float chain[T::fragments_m][T::fragments_n][4] = {};
#pragma unroll
  for (int piece = 0; piece < 4; ++piece) {
    unsigned a[T::fragments_m][4], a_low[T::fragments_m][4], a_down[T::fragments_m][4];
#pragma unroll
    for (int i = 0; i < T::fragments_m; ++i) {
      load_matrices(a[i], (a_rows ^ piece << 5) + i * 16 * step_bytes);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float low;
        split_tf32(a[i][r], a[i][r], low);
        a_low[i][r] = __float_as_uint(low);
        a_down[i][r] = __float_as_uint(__uint_as_float(a[i][r]) * (1.0f / split_scale));
      }
    }
#pragma unroll
    for (int j = 0; j < T::fragments_n; j += 2) {
      unsigned b[4];
      load_matrices(b, (b_rows ^ piece << 5) + j * 8 * step_bytes);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        unsigned b_high[2], b_low[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float low;
          split_tf32(b[half * 2 + r], b_high[r], low);
          b_low[r] = __float_as_uint(low * split_scale);
        }
#pragma unroll
        for (int i = 0; i < T::fragments_m; ++i)
          Tf32::multiply(chain[i][j + half], a_low[i], b_high, chain[i][j + half]);
#pragma unroll
        for (int i = 0; i < T::fragments_m; ++i)
          Tf32::multiply(chain[i][j + half], a_down[i], b_low, chain[i][j + half]);
#pragma unroll
        for (int i = 0; i < T::fragments_m; ++i) Tf32::multiply(chain[i][j + half], a[i], b_high, chain[i][j + half]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < T::fragments_m; ++i) {
#pragma unroll
    for (int j = 0; j < T::fragments_n; ++j) {
#pragma unroll
      for (int r = 0; r < 4; ++r) sum[i][j][r] += chain[i][j][r];
    }
  }
}

#endif

template <class Op, class T, int blocks_per_sm>
__global__ void __launch_bounds__(threads, blocks_per_sm) implicit_gemm_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(128) unsigned char shared[];
  auto* windows = reinterpret_cast<Position*>(shared + pipeline_depth * T::bytes_per_step);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;

  // Filters vary fastest: blocks that run together share their pixels.
  const int m_tile = static_cast<int>(blockIdx.x) % args.m_tiles;
  int rest = static_cast<int>(blockIdx.x) / args.m_tiles;
  const int first_pixel = rest % args.n_tiles * T::block_n;
  rest /= args.n_tiles;
  const int group = rest % args.geometry.groups;
  const int split = rest / args.geometry.groups;
  const int first_step = split * args.steps_per_split;
  const int steps = min(args.steps - first_step, args.steps_per_split);

  if (thread < T::block_n) {
    const int pixel = first_pixel + thread;
    windows[thread] = pixel < args.pixels ? window_at(args, group, pixel) : Position{};
  }
  __syncthreads();

  const unsigned tiles = shared_address(shared);
  const auto* weight = static_cast<const unsigned char*>(args.weight) +
                       (static_cast<std::size_t>(group * args.m_tiles + m_tile) * static_cast<unsigned>(args.steps) +
                        static_cast<unsigned>(first_step)) *
                           (T::block_m * step_bytes) +
                       thread * 16;
  const int units = step_bytes / args.unit_bytes;
  const Position* taps = args.taps + first_step * units + thread % units;
  Position tap = *taps;

  // Starts the copies of the next step; called once per step, in order.
  const auto load = [&](int slot) {
    const unsigned a = tiles + static_cast<unsigned>(slot * T::bytes_per_step);
#pragma unroll
    for (int i = 0; i < T::block_m * step_bytes / (threads * 16); ++i) {
      copy_async(a + static_cast<unsigned>(thread + i * threads) * 16, weight + i * threads * 16);
    }
    weight += T::block_m * step_bytes;
    const unsigned b = a + T::block_m * step_bytes;
    switch (args.unit_bytes) {
      case 16: gather<16, T::block_n>(b, args.input, windows, tap); break;
      case 8: gather<8, T::block_n>(b, args.input, windows, tap); break;
      default: gather<4, T::block_n>(b, args.input, windows, tap);
    }
    taps += units;
    tap = *taps;
  };

  // ldmatrix: lanes name rows; see docs/implicit_gemm.md.
  const unsigned a_lane = static_cast<unsigned>(swizzled(warp / T::warps_n * T::warp_m + lane % 16, lane / 16 * 16));
  const unsigned b_lane = static_cast<unsigned>(
      T::block_m * step_bytes + swizzled(warp % T::warps_n * T::warp_n + lane % 8 + lane / 16 * 8, lane / 8 % 2 * 16));

  float sum[T::fragments_m][T::fragments_n][4] = {};
#pragma unroll
  for (int ahead = 0; ahead < pipeline_depth - 1; ++ahead) {
    if (ahead < steps) load(ahead);
    copy_async_commit();
  }
  int load_slot = pipeline_depth - 1, slot = 0;
  for (int step = 0; step < steps; ++step) {
    copy_async_wait<pipeline_depth - 2>();
    __syncthreads();  // this step has landed for all, and all are done with the slot that is loaded next
    if (step + pipeline_depth - 1 < steps) load(load_slot);
    copy_async_commit();
    const unsigned base = tiles + static_cast<unsigned>(slot * T::bytes_per_step);
    if constexpr (Op::split) {
      multiply_step_split<T>(sum, base + a_lane, base + b_lane);
    } else {
      multiply_step<Op, T>(sum, base + a_lane, base + b_lane);
    }
    if (++slot == pipeline_depth) slot = 0;
    if (++load_slot == pipeline_depth) load_slot = 0;
  }

  // Through shared memory, so that a warp writes 32 neighbouring pixels of one filter.
  __syncthreads();
  auto* tile = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < T::fragments_m; ++i) {
#pragma unroll
    for (int j = 0; j < T::fragments_n; ++j) {
      const int m = warp / T::warps_n * T::warp_m + i * 16 + lane / 4;
      float* row = tile + m * T::output_pitch + warp % T::warps_n * T::warp_n + j * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(row) = {sum[i][j][0], sum[i][j][1]};
      *reinterpret_cast<float2*>(row + 8 * T::output_pitch) = {sum[i][j][2], sum[i][j][3]};
    }
  }
  __syncthreads();

  const int column = thread % T::block_n, pixel = first_pixel + column;
  if (pixel >= args.pixels) return;
  const int plane = args.geometry.out_height * args.geometry.out_width;
  const int image = pixel / plane;
  const int first_channel = group * args.group_out_channels + m_tile * T::block_m;
  const std::int64_t stride = args.splits > 1 ? args.pixels : plane;
  const std::int64_t corner =
      args.splits > 1
          ? (std::int64_t{split} * args.geometry.out_channels + first_channel) * args.pixels + pixel
          : (std::int64_t{image} * args.geometry.out_channels + first_channel) * plane + (pixel - image * plane);
  const int rows = min(T::block_m, args.group_out_channels - m_tile * T::block_m);
#pragma unroll 8
  for (int m = thread / T::block_n; m < rows; m += threads / T::block_n) {
    const float value = tile[m * T::output_pitch + column];
    if (args.splits > 1) {
      args.partial[corner + m * stride] = value;
    } else {
      finish<Op>(args, group, m_tile * T::block_m + m, pixel, corner + m * stride, value);
    }
  }
#endif
}

/// A Tile that launches this instantiation.
template <class Op, class T, int blocks_per_sm>
Tile make_tile() {
  return {T::block_m, T::block_n, T::shared_bytes,
          reinterpret_cast<const void*>(&implicit_gemm_kernel<Op, T, blocks_per_sm>)};
}

}  // namespace lamina::cuda::implicit_gemm
