#pragma once

// From a window's sums to the output. They go through shared memory as f32, and a loop takes neighbouring filters of a
// pixel out of it: as many as one store holds, so that what follows (the sums that have to be found again, bias, chain
// of functions, rounding) is code once and not for every register, and stores are whole rows.

#include "lamina/cuda/conv2d/mma/resident/store.cuh"

namespace lamina::cuda::mma::resident {

template <int n>
__device__ __forceinline__ void load_floats(const float* from, float (&to)[n]) {
  constexpr int each = n < 4 ? n : 4;
#pragma unroll
  for (int i = 0; i < n; i += each) {
    const auto pack = *reinterpret_cast<const Pack<float, each>*>(from + i);
#pragma unroll
    for (int k = 0; k < each; ++k) to[i + k] = pack.values[k];
  }
}

/// Finishes and stores the pixels of `results`, `filters` of each from bundle `bundle` on, `width` at a time.
template <class Op, class Rows, int width>
__device__ __forceinline__ void store_rows(const Arguments& args, const Place& block, int bundle, int filters,
                                           const float* biases, unsigned char* results) {
  using Element = typename Op::Element;
  const ConvGeometry& g = args.geometry;
  const std::int64_t first = static_cast<std::int64_t>(block.image) * g.out_height * g.out_width * args.output_pitch +
                             BundlePlace(g, args.bundling, bundle).filter;
  const int bundle_filters = args.fragments * 8, lane = static_cast<int>(threadIdx.x) % 32, pieces = filters / width;
  static_assert(!Op::split, "windows are multiplied in 16 bits, where filters have no range");
  const auto is_rare = [](float v) { return !(fabsf(v) < INFINITY); };
  // Lanes for one pixel: a power of two.
  const int shift = pieces > 16 ? 5 : pieces > 1 ? 32 - __clz(pieces - 1) : 0;
#pragma unroll 1
  for (int p = lane >> shift; p < Rows::pixels; p += 32 >> shift) {
    const int pixel = reinterpret_cast<const int*>(results + Rows::pixels * Rows::pitch)[p];
    if (pixel < 0) continue;
    auto* const row = reinterpret_cast<float*>(results + p * Rows::pitch);
#pragma unroll 1
    for (int i = lane & ((1 << shift) - 1); i < pieces; i += 32) {
      const int f = i * width;
      float v[width];
      load_floats(row + f, v);
      bool again = false;
#pragma unroll
      for (int e = 0; e < width; ++e) again |= is_rare(v[e]);
      if (again) {
#pragma unroll 1
        for (int e = f; e < f + width; ++e) {
          if (!is_rare(row[e])) continue;
          row[e] = exact_sum<Op>(args, bundle + e / bundle_filters, e % bundle_filters, block.image,
                                 pixel / g.out_width, pixel % g.out_width, 1.0f);
        }
        load_floats(row + f, v);
      }
      const std::int64_t index = first + pixel * static_cast<std::int64_t>(args.output_pitch) + f;
      float other[width];
      load_floats(biases + f, other);
#pragma unroll
      for (int e = 0; e < width; ++e) v[e] += other[e];
      if (args.finish.residual != nullptr || args.finish.kind == Finish::Kind::chain) {
        load_residual<Element>(args.finish, index, other);
        apply<Element>(args.finish, v, other);
      } else {
        with_kind(args.finish.kind, [&](auto kind) {
#pragma unroll
          for (int e = 0; e < width; ++e) v[e] = finished<kind.value, Element>(args.finish, v[e]);
        });
      }
      Pack<Element, width> result;
#pragma unroll
      for (int e = 0; e < width; ++e) result.values[e] = from_f32<Element>(v[e]);
      *reinterpret_cast<Pack<Element, width>*>(static_cast<Element*>(args.output) + index) = result;
    }
  }
}

/// Stores a warp's 16 m pixels x 8 n filters of bundle `bundle` + `local`, those of `bundles` bundles together with the
/// last of them. `pixel`: this lane's 2 m outputs of the image; negative: none. `biases`: from `bundle` on.
template <class Op, int run, int m, int n>
__device__ __forceinline__ void store_sums(const Arguments& args, const Place& block, int bundle, int local,
                                           int bundles, const int (&pixel)[2 * m], const float (&sum)[m][n][4],
                                           const float* biases, unsigned char* results) {
  using Rows = Results<m, n, run>;
  constexpr int most = unit_bytes / static_cast<int>(sizeof(typename Op::Element));
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int part = 0; part < m; part += Rows::fragments) {
    // Registers have no index: every fragment has its own code, and its turn.
#pragma unroll
    for (int i = 0; i < m; ++i) {
      if (i / Rows::fragments * Rows::fragments != part) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int p = i % Rows::fragments * 16 + half * 8 + lane / 4;
        unsigned char* const row = results + p * Rows::pitch + local * n * 32 + lane % 4 * 8;
#pragma unroll
        for (int j = 0; j < n; ++j) {
          const float* v = &sum[i][j][half * 2];
          *reinterpret_cast<float2*>(row + j * 32) = {v[0], v[1]};
        }
        if (lane % 4 == 0) reinterpret_cast<int*>(results + Rows::pixels * Rows::pitch)[p] = pixel[2 * i + half];
      }
    }
    if (local + 1 < bundles) return;
    const BundlePlace last(args.geometry, args.bundling, bundle + local);
    const int filters = last.filter + last.filters - BundlePlace(args.geometry, args.bundling, bundle).filter;
    __syncwarp();
    if (args.store_width >= most) {
      store_rows<Op, Rows, most>(args, block, bundle, filters, biases, results);
    } else if (args.store_width >= 2) {
      store_rows<Op, Rows, 2>(args, block, bundle, filters, biases, results);
    } else {
      store_rows<Op, Rows, 1>(args, block, bundle, filters, biases, results);
    }
    __syncwarp();
  }
}

}  // namespace lamina::cuda::mma::resident
