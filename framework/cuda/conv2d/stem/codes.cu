// A first layer in eight bits: small windows over up to four channels, of codes or of numbers that become codes; max
// pooling of 3x3 windows with stride 2 behind it.
//
// A block owns a rectangle of outputs of an image, rows x columns, of some slices of 8 n filters, one after the other.
// It brings the pixels that its windows see into shared memory, four bytes each: channels that are not there meet
// weights of zero, and what surrounds the image is the zero point. Of planes four neighbours are read at once, and
// turned. A row of a window is then four or eight neighbouring words, which is how mma.sync wants 16 or 32 bytes of K
// from the lanes: nothing is gathered. All weights of a slice stay in registers. A warp multiplies 16 outputs of a row
// at a time, neighbours, or the first and the second columns of 8 neighbouring windows of the pooling, of which the
// last gives but its first column: the third of the one before. It walks down the rows then, and keeps every other
// one's sums, the third of a window and the first of the next. What is not rounded yet is pooled, for factors are
// positive: a quarter of the sums become codes. Strides of 2 and, of neighbours, 4 meet all banks.
//
// Shared memory: in_rows * in_columns * 4 bytes. Preconditions: Arguments filled in by codes.cpp; compute capability
// 8.0.

#include <type_traits>

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/conv2d/stem/codes.h"
#include "lamina/cuda/conv2d/stem/place.cuh"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/ptx/mma_codes.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::stem::codes {
namespace {

/// Of a plane or of a pixel: codes, a byte each, or numbers.
template <class S>
using Four = std::conditional_t<std::is_same_v<S, float>, Neighbouring<float, 4>, std::uint32_t>;

/// As u8.
template <class S>
__device__ __forceinline__ std::uint32_t codes_of(const Arguments& args, const Four<S>& four) {
  if constexpr (std::is_same_v<S, float>) return Results(args.rounding).codes<false>(four.values).values[0];
  if constexpr (!std::is_same_v<S, float>) return four ^ args.flip;
}

/// From `row` and `column` of the input on, a multiple of four. Neighbouring threads take neighbouring fours of pixels,
/// each several at a time.
template <class S, bool fours, int at_a_time>
__device__ __forceinline__ void load_pixels(const Arguments& args, std::int64_t image, int top, int left,
                                            std::uint32_t* to) {
  constexpr bool numbers = std::is_same_v<S, float>;
  constexpr int words = !fours ? 4 : numbers ? max_numbers : max_channels;
  const auto* input = static_cast<const S*>(args.input) + image * args.image;
  const int across = args.in_columns / 4, count = args.in_rows * across;
  for (int first = static_cast<int>(threadIdx.x); first < count; first += threads * at_a_time) {
    Four<S> value[at_a_time][words];  // by channel, four pixels each; or by pixel
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      const auto at = static_cast<std::uint32_t>(min(first + i * threads, count - 1));
      const auto y = args.by_fours.quotient(at);
      const int row = top + static_cast<int>(y),
                column = left + (static_cast<int>(at) - static_cast<int>(y) * across) * 4;
      const bool row_inside = row >= 0 && row < args.height;
      const S* line = input + static_cast<std::int64_t>(row) * args.width * args.pixel_step;
#pragma unroll
      for (int j = 0; j < words; ++j) {
        if constexpr (numbers) value[i][j] = {};  // whose code is the zero point
        if constexpr (!numbers) value[i][j] = args.padding;
        const int x = fours ? column : column + j;
        if (!row_inside || x < 0 || x >= args.width) continue;
        if constexpr (fours) {
          if (j < args.channels) value[i][j] = *reinterpret_cast<const Four<S>*>(line + j * args.channel_step + x);
        } else {
          const S* pixel = line + x * args.pixel_step;
          value[i][j] = {};
#pragma unroll
          for (int c = 0; c < max_channels; ++c) {
            if (c >= args.channels) continue;
            if constexpr (numbers) value[i][j].values[c] = pixel[c * args.channel_step];
            if constexpr (!numbers) value[i][j] |= std::uint32_t{pixel[c * args.channel_step]} << 8 * c;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      if (first + i * threads >= count) continue;
      std::uint32_t v[4] = {};
#pragma unroll
      for (int j = 0; j < words; ++j) {
        if (!fours || j < args.channels) v[j] = codes_of<S>(args, value[i][j]);
      }
      uint4 four = {v[0], v[1], v[2], v[3]};
      if constexpr (fours) {
        const std::uint32_t low = __byte_perm(v[0], v[1], 0x5140), high = __byte_perm(v[2], v[3], 0x5140),
                            third = __byte_perm(v[0], v[1], 0x7362), last = __byte_perm(v[2], v[3], 0x7362);
        four = {__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632), __byte_perm(third, last, 0x5410),
                __byte_perm(third, last, 0x7632)};
      }
      reinterpret_cast<uint4*>(to)[first + i * threads] = four;
    }
  }
}

/// What becomes of the sums of a lane's 2 n neighbouring filters.
template <int n>
struct Ends {
  Neighbouring<int, 2 * n> offset;
  Neighbouring<float, 2 * n> factor;

  __device__ __forceinline__ Ends(const Arguments& args, int filter)
      : offset(*reinterpret_cast<const Neighbouring<int, 2 * n>*>(args.ends.offset + filter)),
        factor(*reinterpret_cast<const Neighbouring<float, 2 * n>*>(args.ends.factor + filter)) {}
};

/// The codes of one pixel.
template <bool looks_up, int n>
__device__ __forceinline__ void store(const Arguments& args, const Ends<n>& ends, const int (&sum)[2 * n],
                                      std::uint8_t* to) {
  constexpr int count = n > 1 ? 4 : 2;  // that are stored together, and looked up
  const auto q = [&](int i) {
    return __fmul_rn(__int2float_rn(sum[i] + ends.offset.values[i]), ends.factor.values[i]);
  };
  const eight_bits::SumsEnd& end = args.ends.end;
  const auto zero = static_cast<std::uint32_t>(end.quantization.zero_point);
  const auto code = [&](int i) { return eight_bits::rounded(q(i), end.low, end.high, zero); };
  Pack<std::conditional_t<n == 1, std::uint16_t, std::uint32_t>, 2 * n / count> result;
#pragma unroll
  for (int j = 0; j < 2 * n; j += count) {
    const int last = j + count - 1;
    std::uint32_t four = 0;
    if (args.saturates) {
      four = eight_bits::saturated(args.saturation, q(j), q(j + 1), q(min(j + 2, last)), q(last));
    } else {
      four = ptx::lowest_bytes(code(j), code(j + 1), code(min(j + 2, last)), code(last));
    }
    if constexpr (looks_up) four = eight_bits::looked_up(args.ends.table, four);
    result.values[j / count] = static_cast<std::remove_reference_t<decltype(result.values[0])>>(four);
  }
  *reinterpret_cast<decltype(result)*>(to) = result;
}

/// A lane's part of a slice of the weights.
template <int steps, int n>
struct Weights {
  std::uint32_t values[steps][n][2];

  __device__ __forceinline__ void load(const Arguments& args, int slice, int lane) {
    const auto* from = reinterpret_cast<const uint2*>(args.weights) + (slice * steps * n * 32 + lane);
#pragma unroll
    for (int i = 0; i < steps * n; ++i) {
      const uint2 pair = from[i * 32];
      values[i / n][i % n][0] = pair.x, values[i / n][i % n][1] = pair.y;
    }
  }
};

/// Of a lane's two outputs.
template <int n>
struct Sums {
  int of[n][4] = {};

  __device__ __forceinline__ void keep_larger(const Sums& others) {
#pragma unroll
    for (int i = 0; i < n * 4; ++i) of[i / 4][i % 4] = max(of[i / 4][i % 4], others.of[i / 4][i % 4]);
  }
};

/// Whose windows begin `apart` words from each other. `wide`: rows of eight pixels, each a step; else two of four are
/// one.
template <bool wide, int steps, int n>
__device__ __forceinline__ Sums<n> multiply(const Weights<steps, n>& weights, const std::uint32_t* at, int apart,
                                            int in_columns) {
  Sums<n> sums;
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const std::uint32_t* const second = wide ? at + 4 : at + in_columns;
    const std::uint32_t a[4] = {at[0], at[apart], second[0], second[apart]};
#pragma unroll
    for (int j = 0; j < n; ++j) ptx::mma<std::uint8_t>(sums.of[j], a, weights.values[step][j], sums.of[j]);
    at += (wide ? 1 : 2) * in_columns;
  }
  return sums;
}

template <int steps, bool wide, int n, bool pools>
__global__ void __launch_bounds__(threads, steps == 2 && !pools ? 3 : 2)
    stem_codes_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) std::uint32_t pixels[];
  let_successor_start();
  const Place place(args);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x / 32), 0);  // in a register of the warp
  Weights<steps, n> weights;
  weights.load(args, place.slice, lane);
  wait_for_predecessor();
  // The first pixel that the windows of an output see; that of the block begins what is in shared memory.
  const auto first_of = [](int output, int pool_padding, int stride, int padding) {
    return (pools ? output * pool_stride - pool_padding : output) * stride - padding;
  };
  const int top = first_of(place.row, args.pool_padding_height, args.stride_height, args.padding_height);
  const int left = first_of(place.column, args.pool_padding_width, args.stride_width, args.padding_width) & ~3;
  constexpr int numbers = pools ? 5 : 3;  // fours of them that there are registers for
  const auto load = [&](auto loads) { loads(args, place.image, top, left, pixels); };
  if (args.rounds) {
    args.fours ? load(load_pixels<float, true, numbers>) : load(load_pixels<float, false, 1>);
  } else {
    args.fours ? load(load_pixels<std::uint8_t, true, 3>) : load(load_pixels<std::uint8_t, false, 1>);
  }
  __syncthreads();

  constexpr int columns = fragment_columns<pools>;
  for (int slice = place.slice; slice < args.all_slices; slice += args.slices) {
    const int filter = slice * 8 * n + lane % 4 * 2 * n;
    if (slice >= args.slices) weights.load(args, slice, lane);
    const Ends<n> ends(args, filter);  // not where sums are kept: no registers are left, and few sums become codes
    for (int item = warp; item < args.items; item += warps) {
      const int walk = static_cast<int>(args.by_fragments.quotient(static_cast<std::uint32_t>(item)));
      const int across = item * columns - walk * args.columns, down = walk * args.walk;
      const int row = place.row + down, column = place.column + across + lane / 4;
      if (row >= args.out_height || place.column + across >= args.out_width) continue;  // of the whole warp
      std::uint8_t* to = static_cast<std::uint8_t*>(args.output) + filter +
                         ((place.image * args.out_height + row) * args.out_width + column) * args.out_pitch;
      // Of an output of the convolution, what its window begins with.
      const auto line_of = [&](int y) {
        return (y * args.stride_height - args.padding_height - top) * args.in_columns;
      };
      const auto pixel_of = [&](int x) { return x * args.stride_width - args.padding_width - left + lane % 4; };
      if constexpr (!pools) {
        const Sums<n> sums =
            multiply<wide>(weights, pixels + line_of(row) + pixel_of(column), 8 * args.stride_width, args.in_columns);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          int own[2 * n];
#pragma unroll
          for (int j = 0; j < 2 * n; ++j) own[j] = sums.of[j / 2][half * 2 + j % 2];
          if (column + half * 8 < args.out_width) {
            args.ends.table == nullptr ? store<false>(args, ends, own, to) : store<true>(args, ends, own, to);
          }
          to += 8 * std::int64_t{args.out_pitch};
        }
      } else {
        // What is outside the map is as its neighbour inside, which the window has, too.
        const auto inside = [](int i, int size) { return min(max(i, 0), size - 1); };
        const int x = column * pool_stride - args.pool_padding_width;
        const std::uint32_t* const from = pixels + pixel_of(inside(x, args.map_width));
        const int apart = pixel_of(inside(x + 1, args.map_width)) - pixel_of(inside(x, args.map_width));
        int y = row * pool_stride - args.pool_padding_height;
        const auto next = [&] {
          return multiply<wide>(weights, from + line_of(inside(y++, args.map_height)), apart, args.in_columns);
        };
        const bool stores = lane / 4 < columns && column < args.out_width;
        Sums<n> kept = next();
        for (int i = min(args.walk, min(args.rows - down, args.out_height - row)); i > 0; --i) {
          kept.keep_larger(next());
          const Sums<n> third_row = next();
          kept.keep_larger(third_row);
          int own[2 * n];
#pragma unroll
          for (int j = 0; j < 2 * n; ++j) {
            const int here = kept.of[j / 2][j % 2], third = __shfl_down_sync(0xffffffffu, here, 4);
            own[j] = max(max(here, kept.of[j / 2][2 + j % 2]), third);
          }
          kept = third_row;
          if (stores) store<false>(args, Ends<n>(args, filter), own, to);
          to += std::int64_t{args.out_width} * args.out_pitch;
        }
      }
    }
  }
#endif
}

template <bool pools>
const void* find(int steps, bool wide, int n) {
  const void* found = nullptr;
  const auto each = [&]<int s, bool w>(std::integral_constant<int, s>, std::bool_constant<w>) {
    if (steps != s || wide != w) return;
    if (n == 1) found = reinterpret_cast<const void*>(&stem_codes_kernel<s, w, 1, pools>);
    if (n == 2) found = reinterpret_cast<const void*>(&stem_codes_kernel<s, w, 2, pools>);
    if (n == 4) found = reinterpret_cast<const void*>(&stem_codes_kernel<s, w, 4, pools>);
  };
  each(std::integral_constant<int, 2>(), std::false_type());  // 3x3 and 4x4
  each(std::integral_constant<int, 5>(), std::true_type());
  each(std::integral_constant<int, 7>(), std::true_type());
  return found;
}

}  // namespace

const void* kernel(int steps, bool wide, int n, bool pools) {
  return pools ? find<true>(steps, wide, n) : find<false>(steps, wide, n);
}

}  // namespace lamina::cuda::stem::codes
