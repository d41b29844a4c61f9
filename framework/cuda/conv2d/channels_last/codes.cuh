#pragma once

// From a warpgroup's sums of codes to the output. Of each sixteen filters the packed weights have the even ones first,
// so that a thread's two rows of sums are neighbouring channels: a pixel's bytes of both are 16 bits, which is what
// stmatrix transposes (PTX ISA, "stmatrix").

#include "lamina/cuda/conv2d/channels_last/reduce.cuh"
#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/ptx/arithmetic.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::channels_last {

__device__ __forceinline__ const CodesAgain* again_of(const Arguments& args) {
  return reinterpret_cast<const CodesAgain*>(args.sums);
}

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
    const int known = min(channel, args.geometry.out_channels - 2);  // nothing is behind what is input 1
    bias = __ldg(reinterpret_cast<const float2*>(args.ends.bias + known));
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
    return ptx::lowest_bytes(of(0), of(2), of(1), of(3));
  }
  /// The same, which become codes again with the channels' numbers: `bias`.
  __device__ __forceinline__ std::uint32_t again(const Arguments& args, const CodesAgain& to, const int* sums) const {
    const eight_bits::SumsEnd& end = args.ends.end;
    const Results results(to.rounding);
    const auto of = [&](int i) {
      const float q = __fadd_rn(fminf(fmaxf(scaled(sums, i), end.low), end.high), eight_bits::whole);
      const float number = __fmul_rn(__fsub_rn(q, eight_bits::whole), to.scale);
      const float other = i < 2 ? bias.x : bias.y;
      return results.code<false>(to.product ? __fmul_rn(number, other) : __fadd_rn(number, other));
    };
    return ptx::lowest_bytes(of(0), of(2), of(1), of(3));
  }
  /// The same where Arguments::saturates.
  __device__ __forceinline__ std::uint32_t saturated(const Arguments& args, const int* sums) const {
    return eight_bits::saturated(args.saturation, scaled(sums, 0), scaled(sums, 2), scaled(sums, 1), scaled(sums, 3));
  }
  /// Both channels' numbers of pixel `i`, as they stand in memory, where Arguments::boxed and not SumsEnd::codes.
  __device__ __forceinline__ std::uint32_t numbers(const Arguments& args, const int* sums, int i) const {
    const eight_bits::SumsEnd& end = args.ends.end;
    const auto y = [&](int j, float added) { return clamped(__fadd_rn(scaled(sums, j), added), end.low, end.high); };
    const float first = y(i, bias.x), second = y(i + 2, bias.y);
    return end.type == DType::f16 ? pack(first, second, __half{}) : pack(first, second, __nv_bfloat16{});
  }
  /// Stores the same one by one; `pixel`: the first of both.
  __device__ __forceinline__ void put(const Arguments& args, int pixel, const int* sums) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (pixel + i >= args.pixels || channel >= args.geometry.out_channels) continue;
      const auto index = static_cast<std::int64_t>(pixel + i) * args.out_pitch + channel;
      if (args.ends.table != nullptr || args.sums != nullptr) {
        const int same[4] = {sums[i], sums[i], sums[i + 2], sums[i + 2]};
        std::uint32_t two = args.adds || args.sums == nullptr ? codes(args, same) : again(args, *again_of(args), same);
        if (args.adds) {
          const auto* others = static_cast<const std::uint8_t*>(args.finish.residual) + index;
          const auto sum = [&](std::uint32_t own, int j) {
            return std::uint32_t{__ldg(args.sums + own * eight_bits::sums_pitch + others[j])};
          };
          two = sum(two & 0xffu, 0) | sum(two >> 8 & 0xffu, 1) << 8;
        } else if (args.ends.table != nullptr) {
          two = eight_bits::looked_up(args.ends.table, two);
        }
        *reinterpret_cast<std::uint16_t*>(static_cast<std::uint8_t*>(args.output) + index) =
            static_cast<std::uint16_t>(two);
        continue;
      }
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
/// those stored before, from the buffers in turn: two, or those that others' codes are brought to, which a box is added
/// to. `codes(sums, others)`: those of CodePair.
template <bool boxed, bool adds, int n, int pixels, class Finished>
__device__ __forceinline__ void store_boxes(const Arguments& args, const CUtensorMap& map, const StoreBuffers& shared,
                                            int group, int first_filter, int first_pixel, const int (&d)[n / 2],
                                            unsigned& turn, const Finished& codes) {
  static_assert(n % pixels == 0 && pixels % 32 == 0, "stores of four matrices");
  constexpr int row_bytes = block_filters, box_bytes = pixels * row_bytes, words = pixels / 8;
  const int first_buffer = group << args.log2_buffers;
  const unsigned last = adds ? (1u << args.log2_buffers) - 1 : 1;
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32, warp = thread / 32;
  const std::uint32_t buffers = ptx::shared_address(shared.stores) + static_cast<unsigned>(first_buffer * box_bytes);
#pragma unroll
  for (int first = 0; first < n / 8; first += words, ++turn) {
    const std::uint32_t buffer = buffers + (turn & last) * box_bytes;
    const std::uint32_t place = buffer + static_cast<std::uint32_t>(lane * row_bytes + (warp ^ lane / 2 % 4) * 16);
    if constexpr (adds) {
      ptx::barrier_wait(shared.added + first_buffer + (turn & last), static_cast<int>(turn >> args.log2_buffers & 1u));
    }
#pragma unroll
    for (int i = 0; i < words; i += 4) {
      std::uint32_t m[4] = {};
      if constexpr (adds) ptx::load_transposed(m, place + static_cast<std::uint32_t>(i * 8 * row_bytes));
#pragma unroll
      for (int j = 0; j < 4; ++j) m[j] = codes(d + 4 * (first + i + j), m[j]);
      ptx::store_transposed(place + static_cast<std::uint32_t>(i * 8 * row_bytes), m);
    }
    ptx::fence_async_proxy();
    // The next box goes to the other of two buffers, which the one before this was stored from.
    if (boxed && !adds && thread == 0) ptx::bulk_wait_read<0>();
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
      if constexpr (adds) {
        ptx::bulk_wait_read<1>();
        ptx::barrier_arrive(shared.stored + first_buffer + (turn - 1 & last));
      }
    }
  }
}

/// Boxes of pixels by 64 channels of 16 bits, under the swizzle of 128 bytes, in the place of those of codes: a
/// thread's two channels of a pixel are a word, and the words of a warp meet all banks once.
template <int n, int pixels>
__device__ __forceinline__ void store_number_boxes(const Arguments& args, const CUtensorMap& map,
                                                   const StoreBuffers& shared, int group, int first_filter,
                                                   int first_pixel, const int (&d)[n / 2], unsigned& turn,
                                                   const CodePair& pair) {
  static_assert(n % pixels == 0 && pixels % 8 == 0, "whole boxes");
  constexpr int box_bytes = pixels * step_bytes, words = pixels / 8;
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32, warp = thread / 32;
  const std::uint32_t buffers =
      ptx::shared_address(shared.stores) + static_cast<unsigned>((group << args.log2_buffers) * box_bytes);
  const int chunk = warp * 2 + lane / 16, word = lane / 4 % 4;  // of 16 bytes, of 4
#pragma unroll
  for (int first = 0; first < n / 8; first += words, ++turn) {
    const std::uint32_t buffer = buffers + (turn & 1) * box_bytes;
#pragma unroll
    for (int j = 0; j < words; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int place = j * 8 * step_bytes + swizzled(lane % 4 * 2 + i, chunk * 16) + word * 4;
        ptx::store_shared(buffer + static_cast<std::uint32_t>(place),
                          __uint_as_float(pair.numbers(args, d + 4 * (first + j), i)));
      }
    }
    ptx::fence_async_proxy();
    if (thread == 0) ptx::bulk_wait_read<0>();  // as store_boxes does
    ptx::sync_warpgroup(group + 1);
    if (thread == 0) {
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

template <int groups, int n, int box_pixels>
__device__ __forceinline__ void consume_codes(const Arguments& args, const CUtensorMap& output,
                                              Shared<Codes, groups, n> shared, int rank) {
  const int group = groups == 1 ? 0 : static_cast<int>(threadIdx.x) / 128;
  const Span span(args, rank);
  Ring ring{args.stages};
  unsigned turn = 0;
  // Copies wait by themselves, but of a split tile what is added is read here.
  if (args.adds) wait_for_predecessor(args.neighbours);
  if (args.adds && args.splits == 1) ptx::barrier_wait(shared.landed, 0);
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
      const auto store = [&]<bool boxed, bool adds>(const auto& codes) {
        store_boxes<boxed, adds, n, box_pixels>(args, output, shared, group, first_filter, pixel, d, turn, codes);
      };
      const auto plain = [&](const int* sums, std::uint32_t) { return pair.codes(args, sums); };
      const auto looked_up = [&](const int* sums, std::uint32_t) {
        return eight_bits::looked_up(args.ends.table, pair.codes(args, sums));
      };
      // Apart from each other: a question for each code costs as much as the answer.
      if (!args.boxed) {
        args.ends.table == nullptr ? store.template operator()<false, false>(plain)
                                   : store.template operator()<false, false>(looked_up);
      } else if (args.sums != nullptr && !args.adds) {
        const CodesAgain to = *again_of(args);
        const auto again = [&](const int* sums, std::uint32_t) { return pair.again(args, to, sums); };
        const auto again_looked_up = [&](const int* sums, std::uint32_t) {
          return eight_bits::looked_up(args.ends.table, pair.again(args, to, sums));
        };
        args.ends.table == nullptr ? store.template operator()<true, false>(again)
                                   : store.template operator()<true, false>(again_looked_up);
      } else if (args.ends.table != nullptr) {
        store.template operator()<true, false>(looked_up);
      } else if (args.adds) {
        const std::uint32_t table = ptx::shared_address(shared.table);
        store.template operator()<true, true>([&](const int* sums, std::uint32_t others) {
          return eight_bits::added(table, args.saturates ? pair.saturated(args, sums) : pair.codes(args, sums), others);
        });
      } else if (args.saturates) {
        store.template operator()<true, false>(
            [&](const int* sums, std::uint32_t) { return pair.saturated(args, sums); });
      } else {
        store.template operator()<true, false>(plain);
      }
    } else if (args.boxed) {
      store_number_boxes<n, box_pixels / 2>(args, output, shared, group, first_filter, pixel, d, turn, pair);
    } else {
#pragma unroll
      for (int j = 0; j < n / 8; ++j) pair.put(args, pixel + j * 8 + static_cast<int>(threadIdx.x) % 4 * 2, d + 4 * j);
    }
  }
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
}

}  // namespace lamina::cuda::channels_last
