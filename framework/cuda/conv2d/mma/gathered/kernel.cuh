#pragma once

// Convolution as a matrix product whose second matrix is never stored: implicit GEMM.
//
//   per group   output [M = filters, N = images * OH * OW]  =  weight [M, K]  *  columns [K, N],   K = channels * taps
//
// A block owns one tile after the other: block_m filters x block_n consecutive output pixels (which may span images)
// and one split of K. K advances in steps of 128 bytes: 32 TF32 or 64 f16 terms; T, a WarpTile, multiplies them. A
// thread gathers, for one fixed piece of the step, the same tap of several pixels: the channels of a pixel lie
// together, so a tap is one cp.async, and a tap in the padding is one that writes zeros. The steps of all of a block's
// tiles are one sequence: while a tile's last sums are finished, the first steps of the next one are on their way.
// Shared memory: 3 * (block_m + block_n) * 128 bytes of tiles (98 KB for 128 x 128) and 16 bytes per pixel. Sums go
// from registers to memory: row_of_filter makes each lane's neighbours. docs/inside/implicit_gemm.md draws it and
// counts banks. Preconditions: compute capability 8.0; Arguments filled in by gathered.cpp. Sources: implicit GEMM
// as in cuDNN (Chetlur et al. 2014) and CUTLASS; the split of fp32 into TF32 high and low words as in Ootomo and
// Yokota, "Recovering single precision accuracy from Tensor Cores" (2022), with their remedy for accumulation that
// rounds toward zero: short chains, folded into fp32 registers.

#include "lamina/cuda/conv2d/mma/gathered/epilogue.cuh"
#include "lamina/cuda/conv2d/mma/gathered/loader.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/shared.cuh"

namespace lamina::cuda::mma::gathered {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// So many steps of a tile, while as many of one tile are loaded. `slot` holds the first, and `load_slot`, the one
/// before, has room.
template <class T, int unit_bytes>
__device__ __forceinline__ void multiply(T& product, Loader<T, unit_bytes>& loader, unsigned tiles, int steps,
                                         int& slot, int& load_slot) {
  using Layout = Shared<T>;
  const auto at = [tiles](int of) { return tiles + static_cast<unsigned>(of * Layout::step); };
  constexpr int copies = T::stages > 2 ? 3 : 1;  // pieces beside which they start
  const auto on = [&] {
    if (++slot == T::stages) slot = 0;
    if (++load_slot == T::stages) load_slot = 0;
  };
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if constexpr (T::reads_ahead) {
      // The fragments of a piece are read while those of the one before are multiplied, over the border of a step too.
#pragma unroll
      for (int piece = 0; piece < 4; ++piece) {
        const bool last = piece == 3;
        if (last) {
          ptx::copy_async_commit();
          ptx::copy_async_wait<T::stages - 2>();
          __syncthreads();  // the next step has landed for all, and all are done with the slot that is loaded next
          on();
        }
        product.read(at(slot), (piece + 1) % 4);
        if (piece < copies) loader.load(at(load_slot), piece, copies);
        product.multiply(piece % 2);
      }
    } else {
      ptx::copy_async_wait<T::stages - 2>();
      __syncthreads();  // this step has landed for all, and all are done with the slot that is loaded next
      product.multiply_step(at(slot), [&](int quarter) { loader.load(at(load_slot), quarter, 4); });
      ptx::copy_async_commit();
      on();
    }
  }
}

/// Finishes a tile's sums in a loop, whatever there is to do, out of `room`, a step's shared memory that nobody uses.
template <class T>
__device__ __forceinline__ void finish_each(const Arguments& args, const Work& work, const T& product,
                                            unsigned char* room) {
  constexpr int threads = T::threads, fitting = Shared<T>::step / (threads * 2 * static_cast<int>(sizeof(float4)));
  constexpr int together = fitting < T::units ? fitting : T::units;
  auto* mine = reinterpret_cast<float4*>(room) + threadIdx.x;
  __syncthreads();
#pragma unroll 1
  for (int first = 0; first < T::units; first += together) {
#pragma unroll
    for (int unit = 0; unit < T::units; ++unit) {
      if (unit < first || unit >= first + together) continue;
      float v[8];
      product.take(unit, v);
      mine[(unit - first) * 2 * threads] = {v[0], v[1], v[2], v[3]};
      mine[((unit - first) * 2 + 1) * threads] = {v[4], v[5], v[6], v[7]};
    }
#pragma unroll 1
    for (int unit = first; unit < min(first + together, T::units); ++unit) {
      const int m = work.m_tile * T::block_m + T::filter_of(unit), pixel = work.first_pixel + T::pixel_of(unit);
      if (m >= args.group_out_channels || pixel >= args.pixels) continue;
      const float4 low = mine[(unit - first) * 2 * threads], high = mine[((unit - first) * 2 + 1) * threads];
      float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      finish(args, FilterEnd<typename T::Op, 8>(args, work.group, m), work.group, m, pixel, v);
    }
  }
  __syncthreads();
}

/// The way of most layers, out of registers: whole units of the storage type, a function that is inlined. The sums move
/// up by a fragment of pixels each time, so that the loop is one piece of code.
template <class T>
__device__ __forceinline__ void finish_whole(const Arguments& args, const Work& work, T& product) {
  using Op = typename T::Op;
  using Output = typename Op::Element;
  constexpr int together = T::units_of_fragment;
  const auto filter_of = [&](int unit) { return work.m_tile * T::block_m + T::filter_of(unit); };
  const FilterEnd<Op, 8> ends[2] = {{args, work.group, filter_of(0)}, {args, work.group, filter_of(together - 1)}};
  const auto functions = [&](float(&v)[8], const float(&added)[8]) { apply_inlined<Output>(args.finish, v, added); };
  unsigned again = 0;
  static_assert(T::units <= 32 && together <= 4, "a bit each, two ends");
#pragma unroll 1
  for (int fragment = 0; fragment < T::fragments_n; ++fragment) {
    Neighbours<Output, 8> residual[together];  // asked for together
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int m = filter_of(i), pixel = work.first_pixel + T::pixel_of(i) + fragment * 16;
      if (m < args.group_out_channels && pixel < args.pixels) {
        residual[i] = residual_at<Output, 8>(args, work.group, m, pixel, true);
      }
    }
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int m = filter_of(i), pixel = work.first_pixel + T::pixel_of(i) + fragment * 16;
      if (m >= args.group_out_channels || pixel >= args.pixels) continue;
      float values[8];
      product.take(i, values);
      if (!finish_as<Op, Output>(args, ends[i / 2], work.group, m, pixel, values, residual[i], true, functions)) {
        again |= 1u << (fragment * together + i);
      }
    }
    product.move_up();
  }
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const int unit = __ffs(static_cast<int>(again)) - 1;
    finish_exactly<Op, Output, 8>(args, work.group, filter_of(unit), work.first_pixel + T::pixel_of(unit));
  }
}

/// A split's sums, for the kernel that adds them up.
template <class T>
__device__ __forceinline__ void store_partial(const Arguments& args, const Work& work, const T& product) {
#pragma unroll
  for (int unit = 0; unit < T::units; ++unit) {
    const int m = work.m_tile * T::block_m + T::filter_of(unit), pixel = work.first_pixel + T::pixel_of(unit);
    if (m >= args.group_out_channels || pixel >= args.pixels) continue;
    float values[8];
    product.take(unit, values);
    float4* to = partial_at(args, work.split, work.group, m, pixel);
    to[0] = {values[0], values[1], values[2], values[3]};
    if (m + 4 < args.quads * 4) to[1] = {values[4], values[5], values[6], values[7]};
  }
}

/// The whole work of a block.
template <class T, int unit_bytes>
__device__ __forceinline__ void convolve(const Arguments& args) {
  extern __shared__ __align__(1024) unsigned char shared[];
  using Layout = Shared<T>;
  using Output = typename T::Op::Element;
  const unsigned tiles = ptx::shared_address(shared);
  Loader<T, unit_bytes> loader(args, reinterpret_cast<Position*>(shared + Layout::windows));
  const auto at = [tiles](int step) { return tiles + static_cast<unsigned>(step * Layout::step); };

  // Weights do not depend on the kernel before this one.
  const int early = min(T::stages - 1, loader.steps_left);
#pragma unroll
  for (int step = 0; step < T::stages - 1; ++step) {
    if (step < early) loader.load_weights(at(step), 0, 1, 1, step);
  }
  wait_for_predecessor();
#pragma unroll 1
  for (int step = 0; step < T::stages - 1; ++step) {
    if (step >= early) loader.load_weights(at(step), 0, 1, 1);
    loader.load_pixels(at(step), 0, 1, 1);
    loader.advance();
    ptx::copy_async_commit();
    if (step == 0) loader.find_following();
    __syncthreads();
    if (loader.steps_left == 0) loader.next_tile();
  }
  T product;
  int slot = 0, load_slot = T::stages - 1;
  if constexpr (T::reads_ahead) {
    ptx::copy_async_wait<T::stages - 2>();
    __syncthreads();
    product.read(at(0), 0);
  }
  const bool whole = args.out_in_eights && args.finish.kind != Finish::Kind::chain &&
                     (sizeof(Output) == sizeof(float) || args.output_type != DType::f32);
#pragma unroll 1
  for (unsigned tile = blockIdx.x; tile < args.tiles; tile += gridDim.x) {
    product.clear();
    for (int left = Work(args, tile, T::block_n).steps; left > 0;) {
      const int steps = min(left, loader.steps_left);
      multiply(product, loader, tiles, steps, slot, load_slot);
      left -= steps;
      if (loader.steps_left == 0) {
        if (!T::reads_ahead) __syncthreads();  // it has passed one after loading
        loader.next_tile();
      }
    }
    asm volatile("" : "+r"(tile));  // what follows of it is found now: the registers are needed until here
    const Work work(args, tile, T::block_n);
    if (args.splits > 1) {
      store_partial(args, work, product);
    } else if (whole) {
      finish_whole(args, work, product);
    } else {
      finish_each(args, work, product, shared + load_slot * Layout::step);
    }
  }
  ptx::copy_async_wait<0>();
}

#endif

template <class T, int unit_bytes, int blocks_per_sm>
__global__ void __launch_bounds__(T::threads, blocks_per_sm)
    implicit_gemm_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  let_successor_start();
  convolve<T, unit_bytes>(args);
#endif
}

/// A Tile that launches this instantiation.
template <class T, int unit_bytes, int blocks_per_sm>
Tile make_tile(double rate) {
  return {.block_m = T::block_m,
          .block_n = T::block_n,
          .threads = T::threads,
          .unit_bytes = unit_bytes,
          .resident = blocks_per_sm,
          .rate = rate,
          .shared_bytes = Shared<T>::bytes,
          .kernel = reinterpret_cast<const void*>(&implicit_gemm_kernel<T, unit_bytes, blocks_per_sm>)};
}

template <class Op>
KernelSet tiles_of_16_bits() {
  return {
      .tiles = {make_tile<WarpTile<Op, 256, 128, 64, 64>, 16, 1>(1220),
                make_tile<WarpTile<Op, 128, 128, 64, 64>, 16, 2>(800),
                make_tile<WarpTile<Op, 128, 64, 64, 32>, 16, 3>(790),
                make_tile<WarpTile<Op, 64, 128, 32, 64>, 16, 3>(620),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 16, 4>(560),
                make_tile<WarpTile<Op, 64, 128, 32, 64>, 8, 3>(430), make_tile<WarpTile<Op, 64, 64, 32, 32>, 8, 4>(390),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 4, 3>(250)},
      .reduce = reduce_kernel<Op>()};
}

template <class Op>
KernelSet tf32_tiles() {
  return {
      .tiles = {make_tile<WarpTile<Op, 128, 128, 64, 64>, 16, 2>(375),
                make_tile<WarpTile<Op, 64, 128, 32, 64>, 16, 3>(310),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 16, 3>(238), make_tile<WarpTile<Op, 64, 64, 32, 32>, 8, 3>(200),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 4, 3>(150)},
      .reduce = reduce_kernel<Op>()};
}

template <class Op>
KernelSet split_tiles() {
  return {
      .tiles = {make_tile<WarpTile<Op, 128, 64, 64, 32>, 16, 2>(152),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 16, 3>(136), make_tile<WarpTile<Op, 64, 64, 32, 32>, 8, 3>(136),
                make_tile<WarpTile<Op, 64, 64, 32, 32>, 4, 3>(136)},
      .reduce = reduce_kernel<Op>()};
}

}  // namespace lamina::cuda::mma::gathered
