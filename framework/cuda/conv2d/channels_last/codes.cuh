#pragma once

// From a warpgroup's sums of codes to the output. Of each sixteen filters the packed weights have the even ones first,
// so that a thread's two rows of sums are neighbouring channels: a pixel's bytes of both are 16 bits, which is what
// stmatrix transposes (PTX ISA, "stmatrix").

#include "lamina/cuda/conv2d/channels_last/reduce.cuh"
#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"

namespace lamina::cuda::channels_last {

/// A thread's two channels, and what becomes of their sums.
struct CodePair {
  int channel;
  int2 offset;
  float2 factor, bias;

  __device__ __forceinline__ CodePair(const Arguments& args, int first_filter) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
    channel = first_filter + warp * 16 + lane / 4 * 2;
    offset = __ldg(reinterpret_cast<const int2*>(args.ends.offset + channel));
    factor = __ldg(reinterpret_cast<const float2*>(args.ends.factor + channel));
    bias = __ldg(reinterpret_cast<const float2*>(args.ends.bias + channel));
  }
  /// q of a sum, not rounded yet.
  __device__ __forceinline__ float scaled(const int* sums, int i) const {
    return __fmul_rn(__int2float_rn(sums[i] + (i < 2 ? offset.x : offset.y)), i < 2 ? factor.x : factor.y);
  }
  /// Both channels' bytes of two pixels, whose sums are {first channel's, first channel's, second's, second's}, where
  /// SumsEnd::codes.
  __device__ __forceinline__ std::uint32_t codes(const Arguments& args, const int* sums) const {
    const eight_bits::SumsEnd& end = args.ends.end;
    const auto of = [&](int i) {
      return eight_bits::rounded(scaled(sums, i), end.low, end.high,
                                 static_cast<std::uint32_t>(end.quantization.zero_point));
    };
    return __byte_perm(__byte_perm(of(0), of(2), 0x0040), __byte_perm(of(1), of(3), 0x0040), 0x5410);
  }
  /// The same where Arguments::saturates, T being the output's type.
  template <class T>
  __device__ __forceinline__ std::uint32_t saturated(const Arguments& args, const int* sums) const {
    const auto of = [&](int i) { return __float2int_rn(scaled(sums, i)) + args.ends.end.quantization.zero_point; };
    return ptx::pack_saturated<T>(of(2), of(0), ptx::pack_saturated<T>(of(3), of(1), 0));
  }
  /// Stores the same one by one; `pixel`: the first of both.
  __device__ __forceinline__ void put(const Arguments& args, int pixel, const int* sums) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (pixel + i >= args.pixels || channel >= args.geometry.out_channels) continue;
      const auto index = static_cast<std::int64_t>(pixel + i) * args.out_pitch + channel;
      eight_bits::put<2>(args.ends.end, {sums[i] + offset.x, sums[i + 2] + offset.y}, {factor.x, factor.y},
                         {bias.x, bias.y}, args.output, index);
    }
  }
};

/// A warpgroup's rows of 64 channels in shared memory, `pixels` of them from `first` on, as far as they are there, in
/// pieces of 8 bytes or, where pixels do not lie so, of 2.
template <class Piece>
__device__ __forceinline__ void copy_rows(const Arguments& args, std::uint32_t buffer, int first_filter, int first,
                                          int pixels, int thread) {
  constexpr int size = sizeof(Piece);
  const int width = min(block_filters, args.geometry.out_channels - first_filter) / size;
  auto* const output = static_cast<std::uint8_t*>(args.output) + first_filter;
  for (int i = thread; i < pixels * width; i += 128) {
    const int row = i / width, byte = (i - row * width) * size;
    if (first + row >= args.pixels) break;
    const int place = row * block_filters + (byte / 16 ^ row / 2 % 4) * 16 + byte % 16;
    *reinterpret_cast<Piece*>(output + static_cast<std::int64_t>(first + row) * args.out_pitch + byte) =
        ptx::load_shared<Piece>(buffer + static_cast<std::uint32_t>(place));
  }
}

/// Boxes of pixels by 64 channels, under the swizzle of 64 bytes: eight rows of one matrix meet all banks once. `turn`:
/// those stored before, from the two buffers in turn. `codes(sums)`: those of CodePair.
template <bool boxed, int n, class Finished>
__device__ __forceinline__ void store_boxes(const Arguments& args, const CUtensorMap& map, const StoreBuffers& shared,
                                            int group, int first_filter, int first_pixel, const int (&d)[n / 2],
                                            unsigned& turn, const Finished& codes) {
  constexpr int pixels = code_box_pixels, row_bytes = block_filters;
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32, warp = thread / 32;
  const std::uint32_t buffers = ptx::shared_address(shared.stores) +
                                (static_cast<unsigned>(group) << args.log2_buffers) * (code_box_pixels * step_bytes);
#pragma unroll
  for (int first = 0; first < n / 8; first += pixels / 8, ++turn) {
    const std::uint32_t buffer = buffers + turn % 2 * (code_box_pixels * step_bytes);
    if (thread == 0) ptx::bulk_wait_read<1>();
    ptx::sync_warpgroup(group + 1);
    std::uint32_t m[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) m[i] = codes(d + 4 * (first + i));
    ptx::store_transposed(buffer + static_cast<std::uint32_t>(lane * row_bytes + (warp ^ lane / 2 % 4) * 16), m);
    ptx::fence_async_proxy();
    ptx::sync_warpgroup(group + 1);
    if constexpr (!boxed) {
      if (args.out_pitch % 8 == 0 && args.geometry.out_channels % 8 == 0) {
        copy_rows<uint2>(args, buffer, first_filter, first_pixel + first * 8, pixels, thread);
      } else {
        copy_rows<std::uint16_t>(args, buffer, first_filter, first_pixel + first * 8, pixels, thread);
      }
    } else if (thread == 0) {
      ptx::store_box(map, buffer, first_filter, first_pixel + first * 8);
      ptx::bulk_commit();
    }
  }
}

/// Adds up and finishes what this block owns of a split tile.
template <int groups, int n>
__device__ __forceinline__ void finish_code_sums(const Arguments& args, const Shared<Codes, groups, n>& shared,
                                                 int rank, int first_pixel, const CodePair& pair) {
  const OwnFragments own(n / 8, fragments_owned(n / 8, args.splits), rank);
  if (own.first >= own.last) return;
  const int apart = own.size * fragment_bytes<groups> / 16;
  ptx::barrier_wait_cluster(shared.landed, 0);
#pragma unroll 1
  for (int fragment = own.first; fragment < own.last; ++fragment) {
    const auto* part = reinterpret_cast<const int4*>(
                           shared.landing + static_cast<std::size_t>((fragment - own.first) * fragment_bytes<groups>)) +
                       threadIdx.x;
    int sums[4] = {};
    for (int i = 0; i < args.splits; ++i) {
      const int4 more = part[i * apart];
      sums[0] += more.x, sums[1] += more.y, sums[2] += more.z, sums[3] += more.w;
    }
    pair.put(args, first_pixel + fragment * 8 + static_cast<int>(threadIdx.x) % 4 * 2, sums);
  }
}

template <int groups, int n>
__device__ __forceinline__ void consume_codes(const Arguments& args, const CUtensorMap& output,
                                              Shared<Codes, groups, n> shared, int rank) {
  const int group = groups == 1 ? 0 : static_cast<int>(threadIdx.x) / 128;
  const Span span(args, rank);
  Ring ring{args.stages};
  unsigned turn = 0;
  for (Walk walk(args, rank); walk.more(); walk.next()) {
    const int first_filter = (walk.filter_tile() * groups + group) * block_filters, pixel = walk.pixel_tile() * n;
    const CodePair pair(args, first_filter);
    int d[n / 2];
    if (args.is_signed) {
      multiply<std::int8_t>(args, shared, ring, group, span.count, d);
    } else {
      multiply<std::uint8_t>(args, shared, ring, group, span.count, d);
    }
    if (args.splits > 1) {
      meet(args);
      send_sums<Codes, groups, n>(args, shared, rank, d);
      finish_code_sums<groups, n>(args, shared, rank, pixel, pair);
    } else if (args.ends.end.codes) {
      const auto store = [&](auto boxed, const auto& codes) {
        store_boxes<boxed.value, n>(args, output, shared, group, first_filter, pixel, d, turn, codes);
      };
      if (!args.boxed) {
        store(std::false_type(), [&](const int* sums) { return pair.codes(args, sums); });
      } else if (args.saturates && args.ends.end.type == DType::u8) {
        store(std::true_type(), [&](const int* sums) { return pair.saturated<std::uint8_t>(args, sums); });
      } else if (args.saturates) {
        store(std::true_type(), [&](const int* sums) { return pair.saturated<std::int8_t>(args, sums); });
      } else {
        store(std::true_type(), [&](const int* sums) { return pair.codes(args, sums); });
      }
    } else {
#pragma unroll
      for (int j = 0; j < n / 8; ++j) pair.put(args, pixel + j * 8 + static_cast<int>(threadIdx.x) % 4 * 2, d + 4 * j);
    }
  }
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
}

}  // namespace lamina::cuda::channels_last
