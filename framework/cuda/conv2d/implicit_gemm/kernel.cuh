#pragma once

// Convolution as a matrix product whose second matrix is never stored: implicit GEMM.
//
//   per group   output [M = filters, N = images * OH * OW]  =  weight [M, K]  *  columns [K, N],   K = channels * taps
//
// A block owns block_m filters x block_n consecutive output pixels (which may span images) and one split of K. K
// advances in steps of 128 bytes: 32 TF32 or 64 f16 terms. How a step is multiplied is T's business: WarpTile gives
// each warp a part of the tile (mma.sync, sm_80 and up), WarpgroupTile all four together (wgmma, sm_90a). A thread
// gathers, for one fixed piece of the step, the same tap of several pixels: the channels of a pixel lie together, so a
// tap is one cp.async, and a tap in the padding is one that writes zeros.
// Shared memory: 3 * (block_m + block_n) * 128 bytes of tiles (97 KB for 128 x 128) and 8 bytes per pixel; fp32 on
// wgmma has 32 KB of low words besides. The epilogue reuses the tiles to turn fragments, whose neighbours are pixels,
// into rows of neighbouring channels. docs/implicit_gemm.md draws it and counts banks.
// Preconditions: compute capability 8.0; Arguments filled in by implicit_gemm.cpp.
// Sources: implicit GEMM as in cuDNN (Chetlur et al. 2014) and CUTLASS; the split of fp32 into TF32 high and low words
// as in Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022), with their remedy for
// accumulation that rounds toward zero: short chains, folded into fp32 registers.

#include "lamina/cuda/conv2d/implicit_gemm/epilogue.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/shared.cuh"

namespace lamina::cuda::implicit_gemm {

/// Shared memory of a tile, in bytes from its start: the pipeline's tiles, what T wants besides, the pixels' windows.
template <class T>
struct Shared {
  static constexpr int step = (T::block_m + T::block_n) * step_bytes;
  static constexpr int extra = T::stages * step;
  static constexpr int windows = extra + T::extra_bytes;
  static constexpr int bytes = windows + T::block_n * static_cast<int>(sizeof(Position));
  static constexpr int output_pitch = T::block_m + 4;  // floats, of a pixel's sums in the epilogue

  static_assert(T::block_n * output_pitch * 4 <= extra, "the sums fit where the pipeline's tiles were");
  static_assert(output_pitch % 32 == 4, "two by four pixels, apart 8 banks, of eight filters are 32 different banks");
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// Brings one step after another of both operands into shared memory.
template <class T, int unit_bytes>
struct Loader {
  static constexpr int units = step_bytes / unit_bytes;  // of a row; a thread stays with one of them
  static constexpr int rows_per_pass = T::threads / units;
  static constexpr int passes = T::block_n / rows_per_pass;
  static constexpr int weight_copies = T::block_m * step_bytes / (T::threads * 16);
  static_assert(passes % 4 == 0, "a step is loaded in quarters");

  const unsigned char* weight;
  const Position* taps;
  const unsigned char* input;
  const Position* windows;  // shared
  Position tap;
  int steps_left;

  __device__ Loader(const Arguments& args, const Position* shared_windows, int tile, int first_step, int steps)
      : weight(
            static_cast<const unsigned char*>(args.weight) +
            (static_cast<std::size_t>(tile) * static_cast<unsigned>(args.steps) + static_cast<unsigned>(first_step)) *
                (T::block_m * step_bytes) +
            threadIdx.x * 16),
        taps(args.taps + first_step * units + static_cast<int>(threadIdx.x) % units),
        input(static_cast<const unsigned char*>(args.input)),
        windows(shared_windows + static_cast<int>(threadIdx.x) / units),
        tap(*taps),
        steps_left(steps) {}

  /// Starts a quarter of the copies of weights, of the step `ahead` of the next one, into the tiles at shared address
  /// `tiles`; zeros after the last step.
  __device__ __forceinline__ void load_weights(unsigned tiles, int quarter, int ahead = 0) const {
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = quarter * weight_copies / 4; i < (quarter + 1) * weight_copies / 4; ++i) {
      ptx::copy_async_once(tiles + static_cast<unsigned>(thread + i * T::threads) * 16,
                           weight + ahead * (T::block_m * step_bytes) + i * T::threads * 16, steps_left > ahead);
    }
  }

  /// The same of the next step's pixels.
  __device__ __forceinline__ void load_pixels(unsigned tiles, int quarter) const {
    const int thread = static_cast<int>(threadIdx.x);
    Position window[passes / 4];
#pragma unroll
    for (int i = 0; i < passes / 4; ++i) window[i] = windows[(quarter * (passes / 4) + i) * rows_per_pass];
#pragma unroll
    for (int i = 0; i < passes / 4; ++i) {
      const int row = thread / units + (quarter * (passes / 4) + i) * rows_per_pass;
      const unsigned destination =
          tiles + static_cast<unsigned>(T::block_m * step_bytes + swizzled(row, thread % units * unit_bytes));
      ptx::copy_async<unit_bytes>(destination,
                                  input + static_cast<std::size_t>(window[i].offset + tap.offset) * unit_bytes,
                                  inside(window[i], tap));
    }
  }

  /// On to the next step.
  __device__ __forceinline__ void advance() {
    --steps_left;
    weight += T::block_m * step_bytes;
    taps += units;
    tap = steps_left > 0 ? *taps : no_tap;
  }

  __device__ __forceinline__ void load(unsigned tiles, int quarter) {
    load_weights(tiles, quarter);
    load_pixels(tiles, quarter);
    if (quarter == 3) advance();
  }
};

/// All steps of a block, each multiplied as T does it.
template <class T, int unit_bytes>
__device__ __forceinline__ void multiply(T& product, Loader<T, unit_bytes>& loader, unsigned char* shared, int steps) {
  using Layout = Shared<T>;
  const unsigned tiles = ptx::shared_address(shared);
  const auto load = [&](int slot, int quarter) {
    loader.load(tiles + static_cast<unsigned>(slot * Layout::step), quarter);
  };
  int load_slot = T::stages - 1, slot = 0;
  if constexpr (T::reads_ahead) {
    // The fragments of a piece are read while those of the one before are multiplied, over the border of a step too.
    ptx::copy_async_wait<T::stages - 2>();
    __syncthreads();
    product.read(tiles, 0);
    for (int step = 0; step < steps; ++step) {
#pragma unroll
      for (int piece = 0; piece < 4; ++piece) {
        load(load_slot, piece);
        if (piece == 3) {
          ptx::copy_async_commit();
          ptx::copy_async_wait<T::stages - 2>();
          __syncthreads();  // the next step has landed for all, and all are done with the slot that is loaded next
          if (++slot == T::stages) slot = 0;
          if (++load_slot == T::stages) load_slot = 0;
        }
        product.read(tiles + static_cast<unsigned>(slot * Layout::step), (piece + 1) % 4);
        product.multiply(piece % 2);
      }
    }
  } else {
    for (int step = 0; step < steps; ++step) {
      ptx::copy_async_wait<T::stages - 2>();
      product.prepare(shared + slot * Layout::step);
      if constexpr (T::needs_wgmma) ptx::fence_async_proxy();
      __syncthreads();  // this step has landed for all, and all are done with the slot that is loaded next
      product.multiply_step(tiles + static_cast<unsigned>(slot * Layout::step),
                            [&](int quarter) { load(load_slot, quarter); });
      ptx::copy_async_commit();
      if (++slot == T::stages) slot = 0;
      if (++load_slot == T::stages) load_slot = 0;
    }
  }
}

/// The whole work of a block.
template <class T, int unit_bytes>
__device__ __forceinline__ void convolve_tile(const Arguments& args) {
  extern __shared__ __align__(1024) unsigned char shared[];
  using Layout = Shared<T>;
  using Op = typename T::Op;
  auto* windows = reinterpret_cast<Position*>(shared + Layout::windows);
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

  for (int i = thread; i < T::block_n; i += T::threads) {
    const int pixel = first_pixel + i;
    windows[i] = pixel < args.pixels ? window_at(args, group, pixel) : Position{};
  }
  __syncthreads();

  Loader<T, unit_bytes> loader(args, windows, group * args.m_tiles + m_tile, first_step, steps);
  const unsigned tiles = ptx::shared_address(shared);
  // Weights do not depend on the kernel before this one.
#pragma unroll
  for (int i = 0; i < 4 * (T::stages - 1); ++i) {
    loader.load_weights(tiles + static_cast<unsigned>(i / 4 * Layout::step), i % 4, i / 4);
  }
  wait_for_predecessor();
#pragma unroll
  for (int ahead = 0; ahead < T::stages - 1; ++ahead) {
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      loader.load_pixels(tiles + static_cast<unsigned>(ahead * Layout::step), quarter);
    }
    loader.advance();
    ptx::copy_async_commit();
  }
  T product(shared + Layout::extra);
  multiply<T, unit_bytes>(product, loader, shared, steps);

  // Through shared memory, so that a thread has neighbouring filters of a pixel, and a warp whole rows of them.
  ptx::copy_async_wait<0>();  // the zeros after the last step
  constexpr int quads = T::block_m / 4, apart = T::threads / quads, batch = 4;
  static_assert(T::threads % quads == 0 && T::block_n % (apart * batch) == 0, "whole batches of pixels");
  const int m = m_tile * T::block_m + thread % quads * 4;
  const QuadEnd<Op> end(args, group, m);
  __syncthreads();
  auto* tile = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int i = 0; i < T::fragments_m; ++i) {
#pragma unroll
    for (int j = 0; j < T::fragments_n; ++j) {
      float* at = tile + (T::column(warp, j) + lane % 4 * 2) * Layout::output_pitch + T::row(warp, i) + lane / 4;
      at[0] = product.sum[i][j][0];
      at[Layout::output_pitch] = product.sum[i][j][1];
      at[8] = product.sum[i][j][2];
      at[Layout::output_pitch + 8] = product.sum[i][j][3];
    }
  }
  __syncthreads();
  if (m >= args.group_out_channels) return;
#pragma unroll 1
  for (int row = thread / quads; row < T::block_n; row += apart * batch) {
    const int pixel = first_pixel + row;
    if (pixel >= args.pixels) break;
    float sum[batch][4];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const float4 four =
          *reinterpret_cast<const float4*>(tile + (row + i * apart) * Layout::output_pitch + thread % quads * 4);
      sum[i][0] = four.x, sum[i][1] = four.y, sum[i][2] = four.z, sum[i][3] = four.w;
    }
    if (args.splits == 1) {
      finish<Op>(args, end, group, m, pixel, apart, sum);
    } else {
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        if (pixel + i * apart >= args.pixels) continue;
        *partial_at(args, split, group, m, pixel + i * apart) = {sum[i][0], sum[i][1], sum[i][2], sum[i][3]};
      }
    }
  }
}

#endif

template <class T, int unit_bytes, int blocks_per_sm>
__global__ void __launch_bounds__(T::threads, blocks_per_sm)
    implicit_gemm_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  let_successor_start();
  if constexpr (!T::compiled) {
    __trap();  // never launched: DeviceDescription::wgmma
  } else {
    convolve_tile<T, unit_bytes>(args);
  }
#endif
}

/// A Tile that launches this instantiation.
template <class T, int unit_bytes, int blocks_per_sm>
Tile make_tile(const char* instruction, double rate) {
  return {.instruction = instruction,
          .block_m = T::block_m,
          .block_n = T::block_n,
          .threads = T::threads,
          .unit_bytes = unit_bytes,
          .resident = blocks_per_sm,
          .rate = rate,
          .shared_bytes = Shared<T>::bytes,
          .kernel = reinterpret_cast<const void*>(&implicit_gemm_kernel<T, unit_bytes, blocks_per_sm>)};
}

}  // namespace lamina::cuda::implicit_gemm
