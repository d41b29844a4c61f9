#pragma once

// How a tile that no other block shares leaves the registers.

#include "lamina/cuda/conv2d/channels_last/chain.cuh"

namespace lamina::cuda::channels_last {

/// One sum, bias included, as it is stored.
template <class T>
__device__ __forceinline__ void write_finished(const Arguments& args, std::size_t index, float y) {
  float v[1] = {activate(args, y)};
  if (args.chained) {
    const float nothing[1] = {};
    apply_chain(args.finish, v, nothing);
  }
  write<T>(args, index, v[0]);
}

/// Recomputes this thread's outputs whose sums are not finite, after the ordinary store.
template <class T, int n>
__device__ __forceinline__ void repair(const Arguments& args, const Piece& piece, const float (&d)[n / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  std::uint32_t found[4] = {};
#pragma unroll
  for (int i = 0; i < n / 2; ++i) {
    if (rare(d[i], piece.range[i / 2 % 2])) found[i / 32] |= 1u << i % 32;
  }
#pragma unroll 1
  for (int word = 0; word < (n / 2 + 31) / 32; ++word) {
    std::uint32_t bits = word == 0 ? found[0] : word == 1 ? found[1] : word == 2 ? found[2] : found[3];
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1) {
      const int i = word * 32 + __ffs(static_cast<int>(bits)) - 1;
      const int pixel = piece.first_pixel + i / 4 * 8 + lane % 4 * 2 + i % 2;
      const int filter = piece.first_filter + warp * 16 + lane / 4 + i / 2 % 2 * 8;
      if (pixel >= args.pixels || filter >= args.geometry.out_channels) continue;
      const bool second = i / 2 % 2 != 0;
      const FilterRange& range = second ? piece.range[1] : piece.range[0];
      write_finished<T>(args,
                        static_cast<std::size_t>(pixel) * static_cast<unsigned>(args.geometry.out_channels) +
                            static_cast<unsigned>(filter),
                        exact_sum<T>(args, filter, pixel, range) + (second ? piece.bias[1] : piece.bias[0]));
    }
  }
}

/// Writes fragments [first, last) of 8 pixels into a store buffer, pixel by pixel, 128 bytes of channels each: 64 of 16
/// bits, or two planes of 32 f32. Eight rows of one matrix, or the 32 words of one store, meet all banks once.
template <class T, bool f32, int first, int last, int n>
__device__ __forceinline__ void fill(const Arguments& args, const Piece& piece, std::uint32_t buffer, int planes_apart,
                                     const float (&d)[n / 2]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  if constexpr (f32) {
    const int g = lane / 4, pixel = lane % 4 * 2;
    const std::uint32_t plane = buffer + static_cast<std::uint32_t>(warp / 2 * planes_apart + g % 4 * 4);
#pragma unroll
    for (int j = first; j < last; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int chunk = (warp % 2 * 4 + i / 2 * 2 + g / 4) * 16;
        const float y = activate(args, d[4 * j + i] + piece.bias[i / 2]);
        const std::uint32_t address =
            plane + static_cast<std::uint32_t>((j - first) * 1024 + swizzled(pixel + i % 2, chunk));
        ptx::store_shared(address, y);
      }
    }
  } else {
    const int matrix = lane / 8, row = lane % 8;
    const std::uint32_t corner =
        buffer + static_cast<std::uint32_t>(matrix / 2 * 1024 + swizzled(row, (warp * 2 + matrix % 2) * 16));
#pragma unroll
    for (int j = first; j < last; j += 2) {
      std::uint32_t m[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        m[i] = pack(activate(args, d[4 * j + 2 * i] + piece.bias[i % 2]),
                    activate(args, d[4 * j + 2 * i + 1] + piece.bias[i % 2]), T{});
      }
      ptx::store_transposed(corner + static_cast<std::uint32_t>((j - first) * 1024), m);
    }
  }
}

/// Stores a piece through two buffers of `chunk` pixels of 16-bit channels, or half as many of f32.
template <class T, int n, int chunk>
struct Store {
  static_assert(n % chunk == 0 && chunk % 16 == 0, "whole boxes");
  static constexpr int buffer_bytes = chunk * step_bytes;

  template <int first, int fragments, bool f32>
  __device__ __forceinline__ static void run_from(const Arguments& args, const CUtensorMap& map, const Piece& piece,
                                                  std::uint32_t buffers, const float (&d)[n / 2]) {
    if constexpr (first < n / 8) {
      constexpr int last = first + fragments;
      constexpr int planes_apart = buffer_bytes / 2;
      const bool storing = threadIdx.x % 128 == 0;
      const std::uint32_t buffer = buffers + first / fragments % 2 * buffer_bytes;
      // The buffers alternate within a tile; a tile may end with the one that the next begins with.
      if (storing) ptx::bulk_wait_read<first == 0 ? 0 : 1>();
      ptx::sync_warpgroup(piece.group + 1);
      fill<T, f32, first, last, n>(args, piece, buffer, planes_apart, d);
      ptx::fence_async_proxy();
      ptx::sync_warpgroup(piece.group + 1);
      if (storing) {
        const int pixel = piece.first_pixel + first * 8;
        ptx::store_box(map, buffer, piece.first_filter, pixel);
        if constexpr (f32) {
          ptx::store_box(map, buffer + static_cast<std::uint32_t>(planes_apart), piece.first_filter + 32, pixel);
        }
        ptx::bulk_commit();
      }
      run_from<last, fragments, f32>(args, map, piece, buffers, d);
    }
  }

  __device__ __forceinline__ static void run(const Arguments& args, const CUtensorMap& map, const Piece& piece,
                                             std::uint32_t buffers, const float (&d)[n / 2]) {
    if (args.chained) {
      store_chained<T, chunk / 8, n>(args, piece, buffers, d);
    } else if (in_f32<T> || args.output_type == DType::f32) {
      run_from<0, chunk / 16, true>(args, map, piece, buffers, d);
    } else if constexpr (!in_f32<T>) {
      run_from<0, chunk / 8, false>(args, map, piece, buffers, d);
    }
    if constexpr (Element<T>::repaired) {
      bool any = false;
      if constexpr (ranged<T>) {
#pragma unroll
        for (int i = 0; i < n / 2; ++i) any |= rare(d[i], piece.range[i / 2 % 2]);
      } else {
        float check = 0.0f;
#pragma unroll
        for (int i = 0; i < n / 2; ++i) check = fmaf(d[i], 0.0f, check);
        any = check != 0.0f;
      }
      if (ptx::any_of_warpgroup(piece.group + 1, any)) {
        ptx::bulk_wait();
        ptx::sync_warpgroup(piece.group + 1);
        repair<T, n>(args, piece, d);
      }
    }
  }
};

}  // namespace lamina::cuda::channels_last
