#pragma once

// How a tile that no other block shares leaves the registers.

#include "lamina/cuda/conv2d/channels_last/chain.cuh"

namespace lamina::cuda::channels_last {

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
      if (in_f32<T> || args.output_type == DType::f32) {
        store_chained<T, float, 0, chunk / 8, n>(args, piece, buffers, d);
      } else if constexpr (!in_f32<T>) {
        store_chained<T, T, 0, chunk / 8, n>(args, piece, buffers, d);
      }
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
