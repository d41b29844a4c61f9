#pragma once

// A tile whose K is split over the blocks of a cluster (tensor_core/split_k.cuh): what a block owns of it is some of
// its pixels, in fragments of eight.

#include "lamina/cuda/conv2d/channels_last/ring.cuh"

namespace lamina::cuda::channels_last {

/// Bytes of one fragment's sums: four of each thread that multiplies, as it holds them.
template <int groups>
inline constexpr int fragment_bytes = groups * 128 * 16;

/// Before blocks that split K send each other sums: all of them expect some, and have a place for them.
__device__ __forceinline__ void meet(const Arguments& args) {
  ptx::cluster_wait();
  if (args.in_ring) ptx::cluster_sync();
}

/// To be called by one thread before the cluster's blocks meet: how much this block will be sent.
template <class T, int groups, int n>
__device__ __forceinline__ void expect_sums(const Arguments& args, const Shared<T, groups, n>& shared, int rank) {
  const OwnFragments own(n / 8, fragments_owned(n / 8, args.splits), rank);
  if (own.first >= own.last) return;
  ptx::barrier_arrive_expect(shared.landed,
                             static_cast<std::uint32_t>(args.splits * (own.last - own.first) * fragment_bytes<groups>));
}

template <class T, int groups, int n, class Sum>
__device__ __forceinline__ void send_sums(const Arguments& args, const Shared<T, groups, n>& shared, int rank,
                                          const Sum (&d)[n / 2]) {
  const int size = fragments_owned(n / 8, args.splits);
  const std::uint32_t own = ptx::shared_address(shared.landing) +
                            static_cast<std::uint32_t>(rank * size * fragment_bytes<groups>) + threadIdx.x * 16;
  std::uint32_t owner = 0, offset = 0;
#pragma unroll
  for (int j = 0; j < n / 8; ++j) {
    const auto word = [&](int i) {
      if constexpr (std::is_same_v<Sum, int>) return __int_as_float(d[4 * j + i]);
      if constexpr (std::is_same_v<Sum, float>) return d[4 * j + i];
    };
    lamina::cuda::send_sums(own + offset, {word(0), word(1), word(2), word(3)}, shared.landed, owner);
    offset += fragment_bytes<groups>;
    if (offset == static_cast<std::uint32_t>(size * fragment_bytes<groups>)) offset = 0, ++owner;
  }
}

/// Two neighbouring channels of one pixel; channels are a multiple of four.
template <class T>
__device__ __forceinline__ void write2(const Arguments& args, std::size_t index, float low, float high) {
  if (args.output_type == DType::f32) {
    *reinterpret_cast<float2*>(static_cast<float*>(args.output) + index) = {low, high};
  } else if constexpr (!in_f32<T>) {
    *reinterpret_cast<std::uint32_t*>(static_cast<T*>(args.output) + index) = pack(low, high, T{});
  }
}

/// A sum that is not finite, or too small to trust, found again.
template <class T>
__device__ __forceinline__ float repaired(const Arguments& args, float sum, int filter, int pixel) {
  if (pixel >= args.pixels || filter >= args.geometry.out_channels) return sum;
  FilterRange range;
  if constexpr (ranged<T>) range = args.ranges[filter];
  return rare(sum, range) ? exact_sum<T>(args, filter, pixel, range) : sum;
}

/// What is added to what this thread stores of a fragment: two filters of one pixel, and the two eight further. Zeros
/// where nothing is.
template <class T>
struct Added {
  using Pair = std::conditional_t<in_f32<T>, float2, std::uint32_t>;
  Pair x = {}, y = {};
};

template <class T, int groups, int n>
__device__ __forceinline__ Added<T> load_added(const Arguments& args, const Piece<Run>& piece, int fragment) {
  Added<T> added;
  if (!roomy<groups, n> || !args.adds) return added;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int odd = lane / 4 % 2;
  const int pixel = piece.place.first + fragment * 8 + lane % 4 * 2 + odd;
  const int filter = piece.first_filter + warp * 16 + lane / 4 - odd;
  if (pixel >= args.pixels || filter >= args.geometry.out_channels) return added;
  const auto* pairs = reinterpret_cast<const typename Added<T>::Pair*>(
      static_cast<const typename Element<T>::Stored*>(args.finish.residual) +
      static_cast<std::size_t>(pixel) * static_cast<unsigned>(args.geometry.out_channels) +
      static_cast<unsigned>(filter));
  added.x = pairs[0];
  if (filter + 8 < args.geometry.out_channels) added.y = pairs[4];
  return added;
}

/// Adds up and finishes what this block owns.
template <class T, int groups, int n>
__device__ __forceinline__ void finish_sums(const Arguments& args, const Shared<T, groups, n>& shared, int rank,
                                            const Piece<Run>& piece) {
  const OwnFragments own(n / 8, fragments_owned(n / 8, args.splits), rank);
  if (own.first >= own.last) return;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const bool odd = lane / 4 % 2 != 0;
  const int filter = piece.first_filter + warp * 16 + lane / 4;
  // What is added to a fragment comes while the one before it is finished.
  Added<T> added = load_added<T, groups, n>(args, piece, own.first);
  ptx::barrier_wait_cluster(shared.landed, 0);
#pragma unroll 1
  for (int fragment = own.first; fragment < own.last; ++fragment) {
    Added<T> next;
    if (fragment + 1 < own.last) next = load_added<T, groups, n>(args, piece, fragment + 1);
    const auto* part = reinterpret_cast<const float4*>(
                           shared.landing + static_cast<std::size_t>((fragment - own.first) * fragment_bytes<groups>)) +
                       threadIdx.x;
    const int apart = own.size * fragment_bytes<groups> / 16;
    const float4 sum = add_parts(part, args.splits, apart);
    float y[4] = {sum.x, sum.y, sum.z, sum.w};  // of pixels p, p + 1, of filter `filter` and of the eighth after it
    const int pixel = piece.place.first + fragment * 8 + lane % 4 * 2;
    if constexpr (Element<T>::repaired) {
#pragma unroll
      for (int i = 0; i < 4; ++i) y[i] *= piece.range[i / 2].scale;
      if (rare(y[0], piece.range[0]) || rare(y[1], piece.range[0]) || rare(y[2], piece.range[1]) ||
          rare(y[3], piece.range[1])) {
#pragma unroll 1
        for (int i = 0; i < 4; ++i) {
          const float sum_i = i < 2 ? (i == 0 ? y[0] : y[1]) : (i == 2 ? y[2] : y[3]);
          const float again = repaired<T>(args, sum_i, filter + i / 2 * 8, pixel + i % 2);
          y[0] = i == 0 ? again : y[0], y[1] = i == 1 ? again : y[1];
          y[2] = i == 2 ? again : y[2], y[3] = i == 3 ? again : y[3];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) y[i] += piece.bias[i / 2];
    // Neighbouring filters are four lanes apart: of each two lanes one takes both filters' first pixel, one the second.
    const int mine = pixel + (odd ? 1 : 0);
    float v[4];  // two filters, and the two that are eight further
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float kept = odd ? y[2 * half + 1] : y[2 * half];
      const float got = __shfl_xor_sync(0xffffffffu, odd ? y[2 * half] : y[2 * half + 1], 4);
      v[2 * half] = odd ? got : kept, v[2 * half + 1] = odd ? kept : got;
    }
    const int first = filter - (odd ? 1 : 0);
    const std::size_t index =
        static_cast<std::size_t>(mine) * static_cast<unsigned>(args.out_pitch) + static_cast<unsigned>(first);
    const bool stored = mine < args.pixels && first < args.geometry.out_channels,
               both = stored && first + 8 < args.geometry.out_channels;
    float r[4] = {};
    if constexpr (roomy<groups, n>) {
      using Stored = typename Element<T>::Stored;
      const float2 low = unpack(added.x, Stored{}), high = unpack(added.y, Stored{});
      r[0] = low.x, r[1] = low.y, r[2] = high.x, r[3] = high.y;
    }
    if constexpr (roomy<groups, n>) {
      finish<T, may_add_last<groups, n>>(args, v, r);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = finished<Finish::Kind::clamp, T>(args.finish, v[i] + r[i]);
    }
    added = next;
    if (stored) write2<T>(args, index, v[0], v[1]);
    if (both) write2<T>(args, index + 8, v[2], v[3]);
  }
}

}  // namespace lamina::cuda::channels_last
