#pragma once

// What a thread does with the windows of a filter for each channel: columns x rows outputs of `pack` channels, from
// pixels in shared memory.

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/conv2d/finish_all.cuh"

namespace lamina::cuda::depthwise {

template <class T, int pack>
__device__ __forceinline__ void to_floats(const unsigned char* from, float (&to)[pack]) {
  const auto values = *reinterpret_cast<const Pack<T, pack>*>(from);
#pragma unroll
  for (int j = 0; j < pack; ++j) to[j] = to_f32(values.values[j]);
}

/// Adds up the windows of rows x columns outputs, of which `source` is the first pixel, tap by tap in the order of the
/// kernel's rows. Each input is read and converted once, and used for all outputs that see it. `tap(kh, kw, to)` gives
/// the weights. `unrolled`: where they are in registers. Elsewhere one row's code serves for all rows: instructions
/// that run once come from L2, at some seven cycles each, and would take most of a small layer's time.
template <class T, int kernel, int stride, bool unrolled, int rows, int columns, int pack, class Tap>
__device__ __forceinline__ void add_windows(const unsigned char* source, int row_bytes, int pixel_bytes, const Tap& tap,
                                            float (&sum)[rows][columns][pack]) {
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
        tap(kh, kw, w);
#pragma unroll
        for (int c = 0; c < columns; ++c) {
#pragma unroll
          for (int j = 0; j < pack; ++j) sum[r][c][j] = fmaf(x[c * stride + kw][j], w[j], sum[r][c][j]);
        }
      }
    }
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

/// The same of codes: their sums, which are whole numbers of f32, their ends.
template <int rows, int columns, int pack, class Index, class Inside>
__device__ __forceinline__ void store_codes(const eight_bits::Ends& ends, int channel, const float (&offset)[pack],
                                            float (&sum)[rows][columns][pack], void* output, const Index& index,
                                            const Inside& inside) {
  float factor[pack], bias[pack];
  to_floats<float, pack>(reinterpret_cast<const unsigned char*>(ends.factor + channel), factor);
  to_floats<float, pack>(reinterpret_cast<const unsigned char*>(ends.bias + channel), bias);
  const auto zero = static_cast<std::uint32_t>(ends.end.quantization.zero_point);
  const auto each = [&](const auto& store) {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        if (inside(r, c)) store(sum[r][c], index(r, c));
      }
    }
  };
  const auto codes = [&](const auto& finished) {
    each([&](const float(&sums)[pack], std::int64_t at) {
      Pack<std::uint8_t, pack> result;
#pragma unroll
      for (int j = 0; j < pack; ++j) {
        const float q = __fmul_rn(sums[j] + offset[j], factor[j]);
        result.values[j] =
            finished(static_cast<std::uint8_t>(eight_bits::rounded(q, ends.end.low, ends.end.high, zero)));
      }
      *reinterpret_cast<Pack<std::uint8_t, pack>*>(static_cast<std::uint8_t*>(output) + at) = result;
    });
  };
  if (ends.table != nullptr) return codes([&](std::uint8_t code) { return __ldg(ends.table + code); });
  if (ends.end.codes) return codes([](std::uint8_t code) { return code; });
  each([&](const float(&sums)[pack], std::int64_t at) {
    int whole[pack];
#pragma unroll
    for (int j = 0; j < pack; ++j) whole[j] = __float2int_rn(sums[j] + offset[j]);
    eight_bits::put<pack>(ends.end, whole, factor, bias, output, at);
  });
}

}  // namespace lamina::cuda::depthwise
