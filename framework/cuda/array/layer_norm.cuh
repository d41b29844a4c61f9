#pragma once

#include "lamina/cuda/array/norm_rows.cuh"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

/// Layer norms of up to 1024 elements, floats or codes, 16 or four bytes at a time: a warp owns a row, and nobody waits
/// for another warp.
namespace lamina::cuda {

inline constexpr int rows_of_block = 4;  // of a layer norm: small blocks reach more multiprocessors

/// Of a layer norm: as many find room at once, and what counts is how soon they are done after their predecessor.
inline constexpr std::int64_t few_rows = 2048;

/// Rows of floats, a pack of 16 bytes at a time.
template <class T>
struct FloatRows {
  using Stored = Pack<T>;
  using Held = Stored;
  static constexpr int size = Held::size;
  const T* input;
  T* output;

  __device__ const Held& held(const Stored& stored) const { return stored; }
  __device__ float value(const Held& held, int j) const { return to_f32(held.values[j]); }
  __device__ Stored packed(const float (&values)[size]) const {
    Stored result;
#pragma unroll
    for (int j = 0; j < size; ++j) result.values[j] = from_f32<T>(values[j]);
    return result;
  }
};

/// Rows of codes, of which four at a time leave the fewest lanes idle. They are read once, not each time that they
/// count: that takes four instructions.
struct CodeRows {
  using Stored = Codes<4>;
  using Held = Pack<float, 4>;
  static constexpr int size = 4;
  const std::uint8_t* input;
  std::uint8_t* output;
  Meaning meaning;
  Results results;

  __device__ Held held(const Stored& stored) const {
    Held result;
#pragma unroll
    for (int j = 0; j < size; ++j) result.values[j] = meaning(stored.values[0], j);
    return result;
  }
  __device__ float value(const Held& held, int j) const { return held.values[j]; }
  __device__ Stored packed(const float (&values)[size]) const {
    return results.divides() ? results.codes<true>(values) : results.codes<false>(values);
  }
};

/// A row's packs in one warp: lane l holds packs l, l + 32, ..., `packs` of them. Rows and parameters are whole packs;
/// scale and shift are there. `early`: they are nobody's result, and come while the predecessor ends, into registers
/// that would leave room for half as many warps where there are many rows.
template <class Rows, int packs, bool early>
__global__ void __launch_bounds__(rows_of_block* warp)
    layer_norm_kernel(const __grid_constant__ Rows all, std::int64_t rows, const __grid_constant__ NormSettings s) {
  constexpr int size = Rows::size;
  using Stored = typename Rows::Stored;
  let_successor_start();
  const int lane = static_cast<int>(threadIdx.x) % warp, count = static_cast<int>(s.length) / size;
  const auto four = [&](const float* of_row, int pack, int j) {
    return reinterpret_cast<const float4*>(of_row + pack * size)[j];
  };
  float4 scale[packs][size / 4], shift[packs][size / 4];
  if constexpr (early) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int pack = min(lane + k * warp, count - 1);
#pragma unroll
      for (int j = 0; j < size / 4; ++j) scale[k][j] = four(s.scale, pack, j), shift[k][j] = four(s.shift, pack, j);
    }
  } else {
    wait_for_predecessor();
  }
  const std::int64_t step = std::int64_t{gridDim.x} * rows_of_block;
  for (std::int64_t row = std::int64_t{blockIdx.x} * rows_of_block + static_cast<int>(threadIdx.x) / warp; row < rows;
       row += step) {
    // Behind a branch: ptxas would put the parameters' loads behind a wait that they could not pass otherwise.
    if (early && row < step) wait_for_predecessor();
    const auto* x = reinterpret_cast<const Stored*>(all.input + row * s.length);
    typename Rows::Held held[packs];
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      if (lane + k * warp < count) held[k] = all.held(x[lane + k * warp]);
    }
    const float first = s.centred() ? __shfl_sync(0xffffffffu, all.value(held[0], 0), 0) : 0.0f;
    const auto sum = [&](auto f) {
      float total = 0;
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        if (lane + k * warp >= count) continue;
#pragma unroll
        for (int j = 0; j < size; ++j) total += f(all.value(held[k], j));
      }
      return sum_of_row<warp>(total, nullptr);
    };
    const auto length = static_cast<float>(s.length);
    const float mean = s.centred() ? sum([&](float v) { return v - first; }) / length : 0.0f;
    const float squares = sum([&](float v) { return s.counted(v - first - mean); });
    const float factor = s.factor(squares);
    auto* y = reinterpret_cast<Stored*>(all.output + row * s.length);
#pragma unroll
    for (int k = 0; k < packs; ++k) {
      const int pack = lane + k * warp;
      if (pack >= count) continue;
      float result[size];
#pragma unroll
      for (int j = 0; j < size; j += 4) {
        const float4 a = early ? scale[k][j / 4] : four(s.scale, pack, j / 4),
                     b = early ? shift[k][j / 4] : four(s.shift, pack, j / 4);
        const auto at = [&](int i, float scaled, float shifted) {
          result[j + i] = (all.value(held[k], j + i) - first - mean) * factor * scaled + shifted;
        };
        at(0, a.x, b.x), at(1, a.y, b.y), at(2, a.z, b.z), at(3, a.w, b.w);
      }
      y[pack] = all.packed(result);
    }
  }
}

/// Of rows of up to 1024 elements.
template <class Rows>
void start_layer_norm(const Rows& all, const NormSettings& settings, std::int64_t rows, Stream stream) {
  const auto start = [&](auto kernel) {
    launch_kernel(kernel, {.grid = dim3(grid_for(rows, rows_of_block)), .block = dim3(rows_of_block * warp)}, stream,
                  all, rows, settings);
  };
  const auto start_either = [&]<int packs>(std::integral_constant<int, packs>) {
    rows <= few_rows ? start(layer_norm_kernel<Rows, packs, true>) : start(layer_norm_kernel<Rows, packs, false>);
  };
  constexpr int of_all = 1024 / warp / Rows::size;
  if constexpr (of_all >= 8) {
    if (settings.length * 8 <= 1024) return start_either(std::integral_constant<int, of_all / 8>());
  }
  if (settings.length * 4 <= 1024) return start_either(std::integral_constant<int, of_all / 4>());
  if (settings.length * 2 <= 1024) return start_either(std::integral_constant<int, of_all / 2>());
  start_either(std::integral_constant<int, of_all>());
}

}  // namespace lamina::cuda
