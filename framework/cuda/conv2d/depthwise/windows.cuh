#pragma once

// What a thread does with the windows of a filter for each channel: columns x rows outputs of `pack` channels, from
// pixels in shared memory.

#include "lamina/cuda/conv2d/depthwise/arguments.h"
#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/conv2d/finish_all.cuh"

namespace lamina::cuda::depthwise {

/// Neighbouring words of 4 bytes.
template <class Word, int pack>
__device__ __forceinline__ void load_words(const Word* from, Word (&to)[pack]) {
  const auto words = *reinterpret_cast<const Pack<Word, pack>*>(from);
#pragma unroll
  for (int j = 0; j < pack; ++j) to[j] = words.values[j];
}

template <class T, int pack>
__device__ __forceinline__ void to_floats(const unsigned char* from, float (&to)[pack]) {
  const auto values = *reinterpret_cast<const Pack<T, pack>*>(from);
#pragma unroll
  for (int j = 0; j < pack; ++j) to[j] = to_f32(values.values[j]);
}

/// Adds up the windows of rows x columns outputs, of which `source` is the first pixel, tap by tap in the order of the
/// kernel's rows. Each input is read and converted once, and used for all outputs that see it. `taps(i, to)` gives
/// the weights of tap i. `unrolled`: where they are in registers. Elsewhere one row's code serves for all rows:
/// instructions that run once come from L2, at some seven cycles each, and would take most of a small layer's time.
template <class T, int kernel, int stride, bool unrolled, int rows, int columns, int pack, class Taps>
__device__ __forceinline__ void add_windows(const unsigned char* source, int row_bytes, int pixel_bytes,
                                            const Taps& taps, float (&sum)[rows][columns][pack]) {
  constexpr int width = (columns - 1) * stride + kernel, height = (rows - 1) * stride + kernel;
#pragma unroll(unrolled ? height : 1)
  for (int y = 0; y < height; ++y) {
    float x[width][pack];
#pragma unroll
    for (int i = 0; i < width; ++i) to_floats<T, pack>(source + i * pixel_bytes, x[i]);
    source += row_bytes;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const int kh = y - r * stride;
      if (kh < 0 || kh >= kernel) continue;  // in a loop: a branch that all take alike
#pragma unroll
      for (int kw = 0; kw < kernel; ++kw) {
        float w[pack];
        taps(kh * kernel + kw, w);
#pragma unroll
        for (int c = 0; c < columns; ++c) {
#pragma unroll
          for (int j = 0; j < pack; ++j) sum[r][c][j] = fmaf(x[c * stride + kw][j], w[j], sum[r][c][j]);
        }
      }
    }
  }
}

/// Four rows of four channels, or fewer, as a word for each channel. What a word has beyond its rows is anything: its
/// weights are zeros. Of one row every word has all channels, of which its weights choose one.
template <int rows>
__device__ __forceinline__ void turn(const std::uint32_t (&row)[4], std::uint32_t (&channel)[4]) {
  if constexpr (rows == 1) {
#pragma unroll
    for (int j = 0; j < 4; ++j) channel[j] = row[0];
  } else if constexpr (rows == 2) {
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) channel[j] = __byte_perm(row[0], row[1], j | (4 + j) << 4);
  } else {
    const std::uint32_t low = __byte_perm(row[0], row[1], 0x5140), high = __byte_perm(row[0], row[1], 0x7362);
    const bool all = rows == 4;
    const std::uint32_t last_low = all ? __byte_perm(row[2], row[3], 0x5140) : row[2];
    const std::uint32_t last_high = all ? __byte_perm(row[2], row[3], 0x7362) : row[2];
    channel[0] = __byte_perm(low, last_low, all ? 0x5410 : 0x0410);
    channel[1] = __byte_perm(low, last_low, all ? 0x7632 : 0x0532);
    channel[2] = __byte_perm(high, last_high, all ? 0x5410 : 0x0610);
    channel[3] = __byte_perm(high, last_high, all ? 0x7632 : 0x0732);
  }
}

/// The same of codes, whose sums are whole numbers: rows of pixels in fours, as CodeTaps has their weights. `taps(i,
/// to)` gives row i of these, of a thread's four channels. Sums begin with `start`.
template <class T, int kernel, int stride, int rows, int columns, int four = 0, class Taps>
__device__ __forceinline__ void add_code_windows(const unsigned char* source, int row_bytes, int pixel_bytes,
                                                 const Taps& taps, const int (&start)[4],
                                                 int (&sum)[rows][columns][4]) {
  constexpr CodeTaps all = {kernel, stride, rows};
  constexpr int width = (columns - 1) * stride + kernel, height = all.rows_of(four);
  std::uint32_t x[width][4];
#pragma unroll
  for (int i = 0; i < width; ++i) {
    std::uint32_t row[4];
#pragma unroll
    for (int y = 0; y < height; ++y) {
      row[y] = *reinterpret_cast<const std::uint32_t*>(source + y * row_bytes + i * pixel_bytes);
    }
    turn<height>(row, x[i]);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    if (!all.sees(four, r)) continue;
#pragma unroll
    for (int kw = 0; kw < kernel; ++kw) {
      int w[4];
      taps(all.word(four, r) * kernel + kw, w);
#pragma unroll
      for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool first = four == r * stride / 4 && kw == 0;
          sum[r][c][j] = ptx::dot_four<T>(x[c * stride + kw][j], w[j], first ? start[j] : sum[r][c][j]);
        }
      }
    }
  }
  if constexpr (four + 1 < all.fours()) {
    add_code_windows<T, kernel, stride, rows, columns, four + 1>(source + 4 * row_bytes, row_bytes, pixel_bytes, taps,
                                                                 start, sum);
  }
}

/// Adds the bias, finishes and stores those outputs that are `inside(r, c)`, at `index(r, c)`.
template <class T, int rows, int columns, int pack, class Index, class Inside>
__device__ __forceinline__ void store_windows(const Finish& finish, const float (&bias)[pack],
                                              float (&sum)[rows][columns][pack], T* output, const Index& index,
                                              const Inside& inside) {
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
#pragma unroll
      for (int j = 0; j < pack; ++j) sum[r][c][j] += bias[j];
    }
  }
  finish_all<T>(finish, [&](auto f) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        f(sum[r][c], [&](float(&to)[pack]) {
          if (inside(r, c)) load_residual<T>(finish, index(r, c), to);
        });
      }
    }
  });
#pragma unroll
  for (int r = 0; r < rows; ++r) {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
      if (!inside(r, c)) continue;
      Pack<T, pack> result;
#pragma unroll
      for (int j = 0; j < pack; ++j) result.values[j] = from_f32<T>(sum[r][c][j]);
      *reinterpret_cast<Pack<T, pack>*>(output + index(r, c)) = result;
    }
  }
}

/// `act` with whether clamping is to saturate and whether codes are looked up, known when it is compiled: instructions
/// that are passed over take time to come, too.
template <class Act>
__device__ __forceinline__ void as_known(const CodesEnd& ends, const Act& act) {
  const auto known = [&](auto saturates) {
    ends.table == nullptr ? act(saturates, std::false_type()) : act(saturates, std::true_type());
  };
  ends.saturates ? known(std::true_type()) : known(std::false_type());
}

/// Four codes of numbers that are to be rounded.
template <bool saturates, bool looks_up>
__device__ __forceinline__ std::uint32_t four_codes(const CodesEnd& ends, const float (&q)[4]) {
  std::uint32_t codes;
  if constexpr (saturates) {
    codes = eight_bits::saturated(ends.saturation, q[0], q[1], q[2], q[3]);
  } else {
    const auto zero = static_cast<std::uint32_t>(ends.end.quantization.zero_point);
    const auto code = [&](int j) { return eight_bits::rounded(q[j], ends.end.low, ends.end.high, zero); };
    codes = ptx::lowest_bytes(code(0), code(1), code(2), code(3));
  }
  if constexpr (looks_up) return eight_bits::looked_up(ends.table, codes);
  return codes;
}

/// The same of codes, whose sums have their offsets; `factor`: of the four from `channel` on. `asked_first`: which end
/// it is, not for each four codes; of many sums that takes registers, and layers of 7x7 some 10 % longer.
template <bool asked_first, int rows, int columns, class Index, class Inside>
__device__ __forceinline__ void store_codes(const CodesEnd& ends, int channel, const float (&factor)[4],
                                            const int (&sum)[rows][columns][4], void* output, const Index& index,
                                            const Inside& inside) {
  const auto each = [&](const auto& store) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        if (inside(r, c)) store(sum[r][c], index(r, c));
      }
    }
  };
  if (!ends.end.codes) {
    float bias[4];
    load_words(ends.bias + channel, bias);
    return each(
        [&](const int(&sums)[4], std::int64_t at) { eight_bits::put<4>(ends.end, sums, factor, bias, output, at); });
  }
  const auto codes = [&](const auto& of_four) {
    each([&](const int(&sums)[4], std::int64_t at) {
      float q[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) q[j] = __fmul_rn(__int2float_rn(sums[j]), factor[j]);
      *reinterpret_cast<std::uint32_t*>(static_cast<std::uint8_t*>(output) + at) = of_four(q);
    });
  };
  if constexpr (asked_first) {
    as_known(ends, [&](auto saturates, auto looks_up) {
      codes([&](const float(&q)[4]) { return four_codes<saturates.value, looks_up.value>(ends, q); });
    });
  } else {
    const auto four = [&](const float(&q)[4]) {
      return ends.saturates ? four_codes<true, false>(ends, q) : four_codes<false, false>(ends, q);
    };
    if (ends.table == nullptr) return codes(four);
    codes([&](const float(&q)[4]) { return eight_bits::looked_up(ends.table, four(q)); });
  }
}

}  // namespace lamina::cuda::depthwise
