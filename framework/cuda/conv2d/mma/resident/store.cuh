#pragma once

// From a warp's sums to the output: bias, the chain of functions, rounding, and the sums that have to be found again.

#include "lamina/cuda/conv2d/code_ends.cuh"
#include "lamina/cuda/conv2d/finish_all.cuh"
#include "lamina/cuda/conv2d/mma/resident/load.cuh"
#include "lamina/cuda/conv2d/mma/resident/sums.cuh"
#include "lamina/cuda/tensor_core/exact.cuh"

namespace lamina::cuda::mma::resident {

/// One output's sum, exactly, from the packed weights.
template <class Op>
__device__ __noinline__ float exact_sum(const Arguments& args, int bundle, int filter, int image, int row, int column,
                                        float scale) {
  using Element = typename Op::Element;
  constexpr int unit_elements = unit_bytes / static_cast<int>(sizeof(Element));
  const ConvGeometry& g = args.geometry;
  const BundlePlace place(g, args.bundling, bundle);
  const int in = g.in_channels / g.groups, out = g.out_channels / g.groups;
  const int first = (place.filter + filter) / out * in - place.channel;  // of the filter's channels within the bundle
  const std::size_t chunk_words = static_cast<std::size_t>(args.steps) *
                                  static_cast<std::size_t>(step_bytes_of(Op::split, args.fragments)) / sizeof(Element);
  const auto* weight =
      static_cast<const Element*>(args.weight) + static_cast<std::size_t>(bundle * args.chunks) * chunk_words;
  ExactSum exact;
  for (int tap = 0; tap < g.kernel_height * g.kernel_width; ++tap) {
    const int down = tap / g.kernel_width, right = tap % g.kernel_width;
    const int y = row * g.stride_height - g.padding_height + down * g.dilation_height;
    const int x = column * g.stride_width - g.padding_width + right * g.dilation_width;
    if (y < 0 || y >= g.in_height || x < 0 || x >= g.in_width) continue;
    const auto* pixel = static_cast<const Element*>(args.input) +
                        ((static_cast<std::int64_t>(image) * g.in_height + y) * g.in_width + x) * g.in_channels +
                        place.channel;
    for (int channel = first; channel < first + in; ++channel) {
      const int unit = channel / unit_elements, chunk = unit / args.units;
      const Element* w = weight + static_cast<std::size_t>(chunk) * chunk_words +
                         place_of(static_cast<int>(sizeof(Element)), Op::split, args.fragments,
                                  args.slot(down, right, unit - chunk * args.units), channel % unit_elements, filter);
      float value = to_f32(*w);
      if constexpr (Op::split) value += w[2];
      exact.add(value, Op::value(to_f32(pixel[channel])));
      if (channel % ExactSum::max_terms == ExactSum::max_terms - 1) exact.end_chain();
    }
    exact.end_chain();
  }
  return exact.sum * scale;
}

/// Stores 16 m pixels x 8 n filters of bundle `bundle`. `pixel`: this lane's 2 m outputs of the image; negative: none.
template <class Op, int m, int n>
__device__ __forceinline__ void store(const Arguments& args, const Place& block, int bundle, const int (&pixel)[2 * m],
                                      float (&sum)[m][n][4]) {
  using Element = typename Op::Element;
  const ConvGeometry& g = args.geometry;
  const BundlePlace place(g, args.bundling, bundle);
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
  const bool paired = args.paired && place.filter % 2 == 0 && place.filters % 2 == 0;
  const float* biases = static_cast<const float*>(args.bias) + bundle * args.fragments * 8;
  const FilterRange* ranges = Op::split ? args.ranges + bundle * args.fragments * 8 : nullptr;
  const std::int64_t first =
      static_cast<std::int64_t>(block.image) * g.out_height * g.out_width * args.output_pitch + place.filter + pair;
  const auto index = [&](int i, int j) {
    return first + pixel[i] * static_cast<std::int64_t>(args.output_pitch) + j * 8;
  };
  const auto is_there = [&](int i, int j, int e = 0) { return pixel[i] >= 0 && j * 8 + pair + e < place.filters; };

  std::uint64_t again = 0;  // pairs to be summed again
  static_assert(2 * m * n <= 64, "a bit each");
  const auto for_range = [&](auto f) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      FilterRange range[2];
      if constexpr (Op::split) range[0] = ranges[j * 8 + pair], range[1] = ranges[j * 8 + pair + 1];
#pragma unroll
      for (int i = 0; i < 2 * m; ++i) f(i, j, range, &sum[i / 2][j][i % 2 * 2]);
    }
  };
  const auto is_rare = [](float v, const FilterRange& range) {
    return Op::split ? rare(v, range) : !(fabsf(v) < INFINITY);
  };
  bool any = false;
  for_range([&](int, int, const FilterRange(&range)[2], float* v) {
    if constexpr (Op::split) v[0] *= range[0].scale, v[1] *= range[1].scale;
    any |= is_rare(v[0], range[0]) | is_rare(v[1], range[1]);
  });
  if (any) {
    for_range([&](int i, int j, const FilterRange(&range)[2], const float* v) {
      const bool found = (is_there(i, j) && is_rare(v[0], range[0])) || (is_there(i, j, 1) && is_rare(v[1], range[1]));
      again |= std::uint64_t{found} << (j * 2 * m + i);
    });
  }
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const float2 bias = *reinterpret_cast<const float2*>(biases + j * 8 + pair);
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) sum[i / 2][j][i % 2 * 2] += bias.x, sum[i / 2][j][i % 2 * 2 + 1] += bias.y;
  }
  finish_all<Element>(args.finish, [&](auto f) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
#pragma unroll
      for (int i = 0; i < 2 * m; ++i) {
        f(reinterpret_cast<float(&)[2]>(sum[i / 2][j][i % 2 * 2]), [&](float(&to)[2]) {
          if (!is_there(i, j) || args.finish.residual == nullptr) return;
          if (paired) return load_residual<Element>(args.finish, index(i, j), to);
          const auto* from = static_cast<const Element*>(args.finish.residual) + index(i, j);
          to[0] = to_f32(from[0]);
          if (is_there(i, j, 1)) to[1] = to_f32(from[1]);
        });
      }
    }
  });
#pragma unroll
  for (int i = 0; i < 2 * m; ++i) {
    auto* const output = static_cast<Element*>(args.output) + index(i, 0);
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (!is_there(i, j) || (again >> (j * 2 * m + i) & 1) != 0) continue;
      const float* v = &sum[i / 2][j][i % 2 * 2];
      if (paired) {
        *reinterpret_cast<Pack<Element, 2>*>(output + j * 8) = {from_f32<Element>(v[0]), from_f32<Element>(v[1])};
      } else {
        output[j * 8] = from_f32<Element>(v[0]);
        if (is_there(i, j, 1)) output[j * 8 + 1] = from_f32<Element>(v[1]);
      }
    }
  }
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const int bit = __ffsll(static_cast<long long>(again)) - 1;
    const int i = bit % (2 * m), filter = bit / (2 * m) * 8 + pair;
    int at = 0;
#pragma unroll
    for (int k = 0; k < 2 * m; ++k) {
      if (k == i) at = pixel[k];
    }
    for (int f = filter; f < min(filter + 2, place.filters); ++f) {
      const float scale = Op::split ? exact_scale(ranges[f]) : 1.0f;
      float v[1] = {exact_sum<Op>(args, bundle, f, block.image, at / g.out_width, at % g.out_width, scale) + biases[f]};
      float residual[1];
      const std::int64_t output = first - pair + at * static_cast<std::int64_t>(args.output_pitch) + f;
      load_residual<Element>(args.finish, output, residual);
      apply<Element>(args.finish, v, residual);
      static_cast<Element*>(args.output)[output] = from_f32<Element>(v[0]);
    }
  }
}

/// The same of codes, of which a lane has 2 n neighbouring filters; `biases`: those of the bundle, as Arguments::bias.
template <int m, int n>
__device__ __forceinline__ void store(const Arguments& args, const Place& block, int bundle, const int (&pixel)[2 * m],
                                      const int (&sum)[m][n][4], const int* biases) {
  const ConvGeometry& g = args.geometry;
  const BundlePlace place(g, args.bundling, bundle);
  const int own = static_cast<int>(threadIdx.x) % 4 * 2 * n;
  const std::int64_t first =
      static_cast<std::int64_t>(block.image) * g.out_height * g.out_width * args.output_pitch + place.filter + own;
  const auto* const others = static_cast<const std::uint8_t*>(args.finish.residual);
  const auto store_by = [&]<int count>(std::integral_constant<int, count>) {
#pragma unroll
    for (int j = 0; j < 2 * n; j += count) {
      if (own + j >= place.filters) return;
      int offset[count];
      float factor[count];
#pragma unroll
      for (int e = 0; e < count; ++e) {
        offset[e] = biases[own + j + e], factor[e] = __int_as_float(biases[8 * n + own + j + e]);
      }
#pragma unroll
      for (int i = 0; i < 2 * m; ++i) {
        if (pixel[i] < 0) continue;
        const std::int64_t index = first + static_cast<std::int64_t>(pixel[i]) * args.output_pitch + j;
        int values[count];
#pragma unroll
        for (int e = 0; e < count; ++e) values[e] = sum[i / 2][(j + e) / 2][i % 2 * 2 + e % 2] + offset[e];
        *reinterpret_cast<Pack<std::uint16_t, count / 2>*>(static_cast<std::uint8_t*>(args.output) + index) =
            eight_bits::codes_of(args.codes, values, factor, others == nullptr ? others : others + index);
      }
    }
  };
  constexpr int most = n % 4 == 0 ? 8 : n % 2 == 0 ? 4 : 2;
  if (args.store_width >= most) return store_by(std::integral_constant<int, most>());
  if constexpr (most > 2) store_by(std::integral_constant<int, 2>());
}

}  // namespace lamina::cuda::mma::resident
