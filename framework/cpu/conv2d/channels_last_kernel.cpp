// The multiply-adds of one tile of channels-last pixels, written once and compiled for each instruction set by Highway.
// P * V accumulators, V weights and one broadcast input value fill the vector registers.
//
// Source: Goto, van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/channels_last_kernel.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "lamina/cpu/conv2d/channels_last.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

// Accumulators and as many weights as there are vectors of filters fill the registers, but for a value: 32 of them, 4 x
// 6, 3 x 9, 2 x 14; 16 of them, 2 x 6. One vector of filters has no use for more than hide a multiply-add's latency.
// The most filters a pixel's values are read for, the least is read.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr int max_pixels[] = {14, 14, 9, 6};
#else
constexpr int max_pixels[] = {12, 6};
#endif

/// Stores a finished tile vector by vector: where the last vector has fewer filters.
HWY_NOINLINE void store_tile_part(const ChannelsLastTile& t, const float* sums, int pixels, int width) {
  const Tag d;
  for (int p = 0; p < pixels; ++p, sums += width) {
    for (int f = 0; f < t.filters; f += lanes) {
      const int n = std::min(lanes, t.filters - f);
      const float* const before = t.before + p * t.next_before + f;
      Vector y = hn::Add(hn::Load(d, sums + f), load_part(before, n));
      if (t.finish != nullptr) {
        if (t.residual != nullptr) y = hn::Add(y, load_part(t.residual + p * t.pitch + f, n));
        y = clamped(y, hn::Set(d, t.finish->low), hn::Set(d, t.finish->high));
      }
      store_part(y, n, t.output + p * t.pitch + f);
    }
  }
}

template <int V, int P>
HWY_NOINLINE void tile(const ChannelsLastTile& t) {
  const Tag d;
  Vector sum[P][V];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[p][v] = hn::Zero(d);
  }
  // The residual is wanted at the end, and comes from memory: that of the next tile is fetched, as this one is short.
  if (t.residual != nullptr) {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) __builtin_prefetch(t.residual + (P + p) * t.pitch + v * lanes, 0, 3);
    }
  }
  const std::int64_t pixel = t.pixel, fetch_step = t.fetch_step;
  const float* fetch = t.fetch;
  for (const Stretch *stretch = t.stretches, *const last = stretch + t.count; stretch != last; ++stretch) {
    const float* x = t.input + stretch->input;
    const float* w = t.weights + stretch->weights;
    const float* const end = w + std::int64_t{stretch->count} * (V * lanes);
    do {
      Vector weight[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) weight[v] = hn::Load(d, w + v * lanes);
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        const Vector value = hn::Set(d, x[p * pixel]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[p][v] = hn::MulAdd(value, weight[v], sum[p][v]);
      }
      __builtin_prefetch(fetch, 0, 2);
      fetch += fetch_step;
      ++x;
      w += V * lanes;
    } while (w != end);
    fetch += t.fetch_skip;
  }

  if (t.filters < V * lanes) {
    HWY_ALIGN float sums[P * V * lanes];
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) hn::Store(sum[p][v], d, sums + (p * V + v) * lanes);
    }
    return store_tile_part(t, sums, P, V * lanes);
  }
  const float* before = t.before;
  float* output = t.output;
  const auto store = [&](auto finish) HWY_ATTR {
#pragma GCC unroll 16
    for (int p = 0; p < P; ++p, before += t.next_before, output += t.pitch) {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const Vector y = hn::Add(sum[p][v], hn::LoadU(d, before + v * lanes));
        hn::StoreU(finish(y, p, v), d, output + v * lanes);
      }
    }
  };
  if (t.finish == nullptr) return store([](Vector y, int, int) HWY_ATTR { return y; });
  const Vector low = hn::Set(d, t.finish->low), high = hn::Set(d, t.finish->high);
  if (t.residual == nullptr) return store([&](Vector y, int, int) HWY_ATTR { return clamped(y, low, high); });
  store([&](Vector y, int p, int v)
            HWY_ATTR { return clamped(hn::Add(y, hn::LoadU(d, t.residual + p * t.pitch + v * lanes)), low, high); });
}

template <int V, int... index>
constexpr std::array<void (*)(const ChannelsLastTile&), sizeof...(index)> tiles(std::integer_sequence<int, index...>) {
  return {tile<V, index + 1>...};
}

template <int V>
constexpr auto functions = tiles<V>(std::make_integer_sequence<int, max_pixels[V - 1]>());

template <int... index>
constexpr std::array<ChannelsLastTiles, sizeof...(index)> all_tiles(std::integer_sequence<int, index...>) {
  return {ChannelsLastTiles{max_pixels[index], functions<index + 1>.data()}...};
}

constexpr auto tiles_by_vectors = all_tiles(std::make_integer_sequence<int, std::size(max_pixels)>());
constexpr ChannelsLastKernel kernel = {LAMINA_SIMD_SET, lanes, tiles_by_vectors};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const ChannelsLastKernel> channels_last_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
