#pragma once

// How a tile that no other block shares leaves the registers.

#include "lamina/cuda/conv2d/channels_last/chain.cuh"

namespace lamina::cuda::channels_last {

using Addition = Finish::Addition;

/// Recomputes this thread's outputs whose sums are not finite, after the ordinary store.
template <class T, int n, class Place>
__device__ __forceinline__ void repair(const Arguments& args, const Piece<Place>& piece, const float (&d)[n / 2]) {
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
      const int pixel = piece.place.pixel(args, i / 4 * 8 + lane % 4 * 2 + i % 2);
      const int filter = piece.first_filter + warp * 16 + lane / 4 + i / 2 % 2 * 8;
      if (pixel < 0 || filter >= args.geometry.out_channels) continue;
      const bool second = i / 2 % 2 != 0;
      const FilterRange& range = second ? piece.range[1] : piece.range[0];
      write_finished<T>(
          args, static_cast<std::size_t>(pixel) * static_cast<unsigned>(args.out_pitch) + static_cast<unsigned>(filter),
          exact_sum<T>(args, filter, pixel, range) + (second ? piece.bias[1] : piece.bias[0]));
    }
  }
}

/// Writes fragments [first, last) of 8 pixels into a store buffer, pixel by pixel, 128 bytes of channels each: 64 of 16
/// bits, or two planes of 32 f32. Eight rows of one matrix, or the 32 words of one store, meet all banks once. What is
/// added lies there already.
template <class T, bool f32, Addition addition, Finish::Kind kind, int first, int last, int n>
__device__ __forceinline__ void fill(const Arguments& args, const float (&bias)[2], std::uint32_t buffer,
                                     int planes_apart, const float (&d)[n / 2]) {
  int thread = static_cast<int>(threadIdx.x);
  // Where sums are kept for repair(), addresses are worked out for each buffer anew: kept for all, they would be
  // spilled.
  if constexpr (Element<T>::repaired) ptx::pin(thread);
  const int lane = thread % 32, warp = thread / 32 % 4;
  if constexpr (f32) {
    const int g = lane / 4, pixel = lane % 4 * 2;
    const std::uint32_t plane = buffer + static_cast<std::uint32_t>(warp / 2 * planes_apart + g % 4 * 4);
#pragma unroll
    for (int j = first; j < last; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int chunk = (warp % 2 * 4 + i / 2 * 2 + g / 4) * 16;
        const std::uint32_t address =
            plane + static_cast<std::uint32_t>((j - first) * 1024 + swizzled(pixel + i % 2, chunk));
        float y = d[4 * j + i] + bias[i / 2];
        static_assert(addition != Addition::last);
        if constexpr (addition == Addition::first) y += ptx::load_shared<float>(address);
        ptx::store_shared(address, finished<kind, float>(args.finish, y));
      }
    }
  } else {
    const int matrix = lane / 8, row = lane % 8;
    const std::uint32_t corner =
        buffer + static_cast<std::uint32_t>(matrix / 2 * 1024 + swizzled(row, (warp * 2 + matrix % 2) * 16));
#pragma unroll
    for (int j = first; j < last; j += 2) {
      const std::uint32_t place = corner + static_cast<std::uint32_t>((j - first) * 1024);
      std::uint32_t m[4];
      if constexpr (addition != Addition::none) ptx::load_transposed(m, place);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float low = d[4 * j + 2 * i] + bias[i % 2], high = d[4 * j + 2 * i + 1] + bias[i % 2];
        if constexpr (addition == Addition::first) {
          const float2 added = unpack(m[i], T{});
          low += added.x, high += added.y;
        }
        low = finished<kind, T>(args.finish, low), high = finished<kind, T>(args.finish, high);
        if constexpr (addition == Addition::last) {
          const float2 added = unpack(m[i], T{});
          low += added.x, high += added.y;
        }
        m[i] = pack(low, high, T{});
      }
      ptx::store_transposed(place, m);
    }
  }
}

/// A block's store buffers, and barriers of [warpgroups, buffers]: what is added is there; the buffer is free.
struct StoreBuffers {
  unsigned char* stores;
  std::uint64_t *added, *stored;
};

/// Stores a piece through buffers of `chunk` pixels of 16-bit channels, or half as many of f32: two, or those that what
/// is added is brought to, which are used in turn from tile to tile; or one, if the whole piece goes into it.
template <class T, bool roomy, bool may_add_last, int n, int chunk, class Place>
struct Store {
  static_assert(n % chunk == 0 && chunk % 16 == 0, "whole boxes");
  static constexpr int buffer_bytes = chunk * step_bytes;
  static constexpr bool whole = chunk == n;

  const Arguments& args;
  const CUtensorMap& map;
  const StoreBuffers& shared;
  const int group;
  unsigned turn = 0;  // buffers used so far, if something is added: one register, where a Ring has two

  __device__ __forceinline__ unsigned stage(unsigned at) const { return at & ((1u << args.log2_buffers) - 1); }
  __device__ __forceinline__ std::uint32_t buffer(unsigned place) const {
    return ptx::shared_address(shared.stores) +
           ((static_cast<unsigned>(group) << args.log2_buffers) + place) * static_cast<unsigned>(buffer_bytes);
  }
  __device__ __forceinline__ void wait_for_added() const {
    ptx::barrier_wait(shared.added + (group << args.log2_buffers) + stage(turn),
                      static_cast<int>(turn >> args.log2_buffers & 1u));
  }
  /// Gives back the buffer before this one, which has been read. By the thread that stores.
  __device__ __forceinline__ void release_previous() const {
    ptx::bulk_wait_read<1>();
    ptx::barrier_arrive(shared.stored + (group << args.log2_buffers) + stage(turn - 1));
  }

  /// Fills a buffer with fragments [first, last) of the sums and stores it, as the pixels of column `column` on.
  template <int first, int last, bool f32, Addition addition, Finish::Kind kind>
  __device__ __forceinline__ void store_part(const Piece<Place>& piece, const float (&d)[n / 2], unsigned place,
                                             int column, bool begins) {
    constexpr int planes_apart = buffer_bytes / 2;
    constexpr bool adds = addition != Addition::none;
    const bool storing = threadIdx.x % 128 == 0;
    if constexpr (adds) {
      wait_for_added();
    } else {
      // The buffers alternate within a tile; a tile may end with the one that the next begins with.
      if (storing) begins || whole ? ptx::bulk_wait_read<0>() : ptx::bulk_wait_read<1>();
      ptx::sync_warpgroup(piece.group + 1);
    }
    fill<T, f32, addition, kind, first, last, n>(args, piece.bias, place, planes_apart, d);
    ptx::fence_async_proxy();
    ptx::sync_warpgroup(piece.group + 1);
    if (storing) {
      piece.place.store(map, place, piece.first_filter, column);
      if constexpr (f32) {
        piece.place.store(map, place + static_cast<std::uint32_t>(planes_apart), piece.first_filter + 32, column);
      }
      ptx::bulk_commit();
      if constexpr (adds) release_previous();
    }
    if constexpr (adds) ++turn;
  }

  template <int first, int fragments, bool f32, Addition addition, Finish::Kind kind>
  __device__ __forceinline__ void run_from(const Piece<Place>& piece, const float (&d)[n / 2]) {
    if constexpr (first < n / 8) {
      constexpr int last = first + fragments;
      store_part<first, last, f32, addition, kind>(piece, d,
                                                   buffer(addition != Addition::none ? stage(turn)
                                                          : whole                    ? 0
                                                                                     : first / fragments % 2),
                                                   first * 8, first == 0);
      run_from<last, fragments, f32, addition, kind>(piece, d);
    }
  }

  /// The same by one code for all parts, which take turns in the first registers: what a function unrolls to would
  /// otherwise come from L2 part by part, in a small layer for longer than it runs.
  template <int fragments, Addition addition, Finish::Kind kind>
  __device__ __forceinline__ void run_in_turn(const Piece<Place>& piece, float (&d)[n / 2]) {
    constexpr int values = 4 * fragments;
    static_assert(n / 2 % values == 0);
#pragma unroll 1
    for (unsigned part = 0; part < n / 2 / values; ++part) {
      store_part<0, fragments, false, addition, kind>(piece, d,
                                                      buffer(addition == Addition::none ? part % 2 : stage(turn)),
                                                      static_cast<int>(part) * fragments * 8, part == 0);
      if constexpr (n / 2 > values) {
        float done[values];
#pragma unroll
        for (int i = 0; i < values; ++i) done[i] = d[i];
#pragma unroll
        for (int i = 0; i < n / 2 - values; ++i) d[i] = d[i + values];
#pragma unroll
        for (int i = 0; i < values; ++i) d[n / 2 - values + i] = done[i];
      }
    }
  }

  /// Leaves the sums as they are.
  __device__ __forceinline__ void run(const Piece<Place>& piece, float (&d)[n / 2]) {
    using Kind = Finish::Kind;
    if (roomy && args.chained) {
      if constexpr (roomy) store_chained<T, chunk / (whole ? 16 : 8), n>(args, piece, buffer(0), d);
    } else if (in_f32<T> && roomy && args.adds) {
      if constexpr (in_f32<T> && roomy) run_from<0, chunk / 16, true, Addition::first, Kind::clamp>(piece, d);
    } else if (in_f32<T> || args.output_type == DType::f32) {
      run_from<0, chunk / 16, true, Addition::none, Kind::clamp>(piece, d);
    } else if constexpr (!in_f32<T> && roomy) {
      if (may_add_last && args.finish.addition == Addition::last) {
        if constexpr (may_add_last)
          with_kind(args.finish.kind, [&](auto kind) { run_in_turn<chunk / 8, Addition::last, kind.value>(piece, d); });
      } else if (args.adds) {
        run_from<0, chunk / 8, false, Addition::first, Kind::clamp>(piece, d);
      } else {
        with_kind(args.finish.kind, [&](auto kind) {
          if constexpr (kind.value == Kind::clamp) {
            run_from<0, chunk / 8, false, Addition::none, kind.value>(piece, d);
          } else {
            run_in_turn<chunk / 8, Addition::none, kind.value>(piece, d);
          }
        });
      }
    } else if constexpr (!in_f32<T>) {
      run_from<0, chunk / 8, false, Addition::none, Kind::clamp>(piece, d);
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
