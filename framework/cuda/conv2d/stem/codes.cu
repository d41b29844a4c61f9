// A first layer in eight bits: small windows over up to four channels.
//
// A block owns a rectangle of outputs of an image, rows x columns, and 8 n filters. It brings the pixels that its
// windows see into shared memory, four bytes each: channels that are not there meet weights of zero, and what surrounds
// the image is the zero point. Of planes four neighbours are read as a word, and turned. A row of a window is then four
// or eight neighbouring words, which is how mma.sync wants 16 or 32 bytes of K from the lanes: nothing is gathered. All
// weights stay in registers. A warp multiplies 16 neighbouring outputs of a row at a time; strides of 2 and 4 meet all
// banks. Shared memory: in_rows * in_columns * 4 bytes. Preconditions: Arguments filled in by codes.cpp; compute
// capability 8.0.

#include <type_traits>

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/conv2d/stem/codes.h"
#include "lamina/cuda/conv2d/stem/place.cuh"
#include "lamina/cuda/ptx/mma_codes.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::stem::codes {
namespace {

/// Neighbouring threads take neighbouring fours of pixels, each several at a time.
template <bool fours>
__device__ __forceinline__ void load_pixels(const Arguments& args, const Place& place, std::uint32_t* to) {
  constexpr int at_a_time = 3;
  const int top = place.row * args.stride_height - args.padding_height,
            left = place.column * args.stride_width - args.padding_width - args.shift;
  const auto* input = static_cast<const std::uint8_t*>(args.input) + place.image * args.image;
  const int across = args.in_columns / 4, count = args.in_rows * across;
  for (int first = static_cast<int>(threadIdx.x); first < count; first += threads * at_a_time) {
    std::uint32_t value[at_a_time][4];  // by channel, four pixels each; or by pixel
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      const auto at = static_cast<std::uint32_t>(min(first + i * threads, count - 1));
      const auto y = args.by_fours.quotient(at);
      const int row = top + static_cast<int>(y),
                column = left + (static_cast<int>(at) - static_cast<int>(y) * across) * 4;
      const bool row_inside = row >= 0 && row < args.height;
      const std::uint8_t* line = input + static_cast<std::int64_t>(row) * args.width * args.pixel_step;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        value[i][j] = args.padding;
        const int x = fours ? column : column + j;
        if (!row_inside || x < 0 || x >= args.width) continue;
        if constexpr (fours) {
          if (j < args.channels)
            value[i][j] = __ldg(reinterpret_cast<const unsigned*>(line + j * args.channel_step + x));
        } else {
          const std::uint8_t* pixel = line + x * args.pixel_step;
          value[i][j] = 0;
#pragma unroll
          for (int c = 0; c < max_channels; ++c) {
            if (c < args.channels) value[i][j] |= std::uint32_t{pixel[c * args.channel_step]} << 8 * c;
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      if (first + i * threads >= count) continue;
      const std::uint32_t(&v)[4] = value[i];
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

/// The codes of a lane's 2 n neighbouring filters of one pixel.
template <int n, bool looks_up>
__device__ __forceinline__ void store(const Arguments& args, const int (&offset)[2 * n], const float (&factor)[2 * n],
                                      const int (&sum)[2 * n], std::uint8_t* to) {
  constexpr int count = n > 1 ? 4 : 2;  // that are stored together, and looked up
  const auto q = [&](int i) { return __fmul_rn(__int2float_rn(sum[i] + offset[i]), factor[i]); };
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

/// `wide`: rows of eight pixels, each a step; else two of four are one.
template <class T, int steps, bool wide, int n>
__global__ void __launch_bounds__(threads, 2) stem_codes_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) std::uint32_t pixels[];
  let_successor_start();
  const Place place(args);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t w[steps][n][2];
  const auto* weights = reinterpret_cast<const uint2*>(args.weights) + place.slice * steps * n * 32 + lane;
#pragma unroll
  for (int i = 0; i < steps * n; ++i) {
    const uint2 pair = weights[i * 32];
    w[i / n][i % n][0] = pair.x, w[i / n][i % n][1] = pair.y;
  }
  const int filter = place.slice * 8 * n + lane % 4 * 2 * n;
  int offset[2 * n];
  float factor[2 * n];
#pragma unroll
  for (int j = 0; j < 2 * n; ++j) offset[j] = args.ends.offset[filter + j], factor[j] = args.ends.factor[filter + j];
  wait_for_predecessor();
  args.fours ? load_pixels<true>(args, place, pixels) : load_pixels<false>(args, place, pixels);
  __syncthreads();

  const int fragments = args.columns / 16;
  for (int item = warp; item < args.rows * fragments; item += warps) {
    const int down = static_cast<int>(args.by_fragments.quotient(static_cast<std::uint32_t>(item)));
    const int across = (item - down * fragments) * 16, row = place.row + down, column = place.column + across;
    if (row >= args.out_height || column >= args.out_width) continue;  // of the whole warp
    const std::uint32_t* at = pixels + down * args.stride_height * args.in_columns + args.shift +
                              (across + lane / 4) * args.stride_width + lane % 4;
    const int below = 8 * args.stride_width;
    int sum[n][4] = {};
#pragma unroll
    for (int step = 0; step < steps; ++step) {
      const std::uint32_t* const second = wide ? at + 4 : at + args.in_columns;
      const std::uint32_t a[4] = {at[0], at[below], second[0], second[below]};
#pragma unroll
      for (int j = 0; j < n; ++j) ptx::mma<T>(sum[j], a, w[step][j], sum[j]);
      at += (wide ? 1 : 2) * args.in_columns;
    }
    auto* const to = static_cast<std::uint8_t*>(args.output) +
                     ((place.image * args.out_height + row) * args.out_width + column) * args.out_pitch + filter;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = lane / 4 + half * 8;
      int own[2 * n];
#pragma unroll
      for (int j = 0; j < 2 * n; ++j) own[j] = sum[j / 2][half * 2 + j % 2];
      if (column + pixel < args.out_width) {
        std::uint8_t* const at_pixel = to + static_cast<std::int64_t>(pixel) * args.out_pitch;
        args.ends.table == nullptr ? store<n, false>(args, offset, factor, own, at_pixel)
                                   : store<n, true>(args, offset, factor, own, at_pixel);
      }
    }
  }
#endif
}

template <class T>
const void* find(int steps, bool wide, int n) {
  const void* found = nullptr;
  const auto each = [&]<int s, bool w>(std::integral_constant<int, s>, std::bool_constant<w>) {
    if (steps != s || wide != w) return;
    if (n == 1) found = reinterpret_cast<const void*>(&stem_codes_kernel<T, s, w, 1>);
    if (n == 2) found = reinterpret_cast<const void*>(&stem_codes_kernel<T, s, w, 2>);
    if (n == 4) found = reinterpret_cast<const void*>(&stem_codes_kernel<T, s, w, 4>);
  };
  each(std::integral_constant<int, 2>(), std::false_type());  // 3x3 and 4x4
  each(std::integral_constant<int, 5>(), std::true_type());
  each(std::integral_constant<int, 7>(), std::true_type());
  return found;
}

}  // namespace

const void* kernel(bool is_signed, int steps, bool wide, int n) {
  return is_signed ? find<std::int8_t>(steps, wide, n) : find<std::uint8_t>(steps, wide, n);
}

}  // namespace lamina::cuda::stem::codes
