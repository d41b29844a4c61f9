#pragma once

// From a warp's sums to the output: bias, the chain of functions, rounding, and the sums that have to be found again.

#include "lamina/cuda/conv2d/mma/load.cuh"
#include "lamina/cuda/conv2d/mma/operands.cuh"
#include "lamina/cuda/finish.cuh"

namespace lamina::cuda::mma {

/// One output's sum by plain fp32 multiply-adds, in short chains: where the tensor cores cannot do it (an Inf in a
/// neighbouring group meets a zero; fp32's split and accumulators overflow early), the sum is not finite, or in fp32
/// too small to trust.
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
                                  static_cast<std::size_t>(step_bytes_of(Op::precision, args.fragments)) /
                                  sizeof(Element);
  const auto* weight =
      static_cast<const Element*>(args.weight) + static_cast<std::size_t>(bundle * args.chunks) * chunk_words;
  float sum = 0.0f;
  for (int tap = 0; tap < g.kernel_height * g.kernel_width; ++tap) {
    const int y = row * g.stride_height - g.padding_height + tap / g.kernel_width * g.dilation_height;
    const int x = column * g.stride_width - g.padding_width + tap % g.kernel_width * g.dilation_width;
    if (y < 0 || y >= g.in_height || x < 0 || x >= g.in_width) continue;
    const auto* pixel = static_cast<const Element*>(args.input) +
                        ((static_cast<std::int64_t>(image) * g.in_height + y) * g.in_width + x) * g.in_channels +
                        place.channel;
    float chain = 0.0f;
    for (int channel = first; channel < first + in; ++channel) {
      const int unit = channel / unit_elements, chunk = unit / args.units;
      const Element* w = weight + static_cast<std::size_t>(chunk) * chunk_words +
                         place_of(Op::precision, args.fragments, tap * args.units + unit - chunk * args.units,
                                  channel % unit_elements, filter);
      float value = to_f32(*w);
      if constexpr (Op::split) value += w[2];
      chain = fmaf(value, Op::value(to_f32(pixel[channel])), chain);
      if (channel % 64 == 63) sum += chain, chain = 0.0f;
    }
    sum += chain;
  }
  return sum * scale;
}

/// Stores 16 m pixels x 8 n filters of bundle `bundle`. `pixel[i]`: of the 2 m output pixels of this lane, the row in
/// the upper and the column in the lower 16 bits, within the image; negative: none.
template <class Op, int m, int n>
__device__ __forceinline__ void store(const Arguments& args, const Place& block, int bundle, const int (&row)[2 * m],
                                      const int (&column)[2 * m], float (&sum)[m][n][4]) {
  using Element = typename Op::Element;
  const ConvGeometry& g = args.geometry;
  const BundlePlace place(g, args.bundling, bundle);
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
  const bool paired = g.out_channels % 2 == 0 && place.filter % 2 == 0 && place.filters % 2 == 0;
  const auto index_of = [&](int i) {
    return ((static_cast<std::int64_t>(block.image) * g.out_height + row[i]) * g.out_width + column[i]) *
               g.out_channels +
           place.filter;
  };
  const float* biases = args.bias + bundle * args.fragments * 8;
  const FilterRange* ranges = Op::split ? args.ranges + bundle * args.fragments * 8 : nullptr;
  std::uint64_t again = 0;  // pairs to be summed again
  static_assert(2 * m * n <= 64, "a bit each");
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const int filter = j * 8 + pair;
    const float2 bias = *reinterpret_cast<const float2*>(biases + filter);
    FilterRange range[2];
    if constexpr (Op::split) range[0] = ranges[filter], range[1] = ranges[filter + 1];
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      float v[2] = {sum[i / 2][j][i % 2 * 2], sum[i / 2][j][i % 2 * 2 + 1]};
      if constexpr (Op::split) v[0] *= range[0].scale, v[1] *= range[1].scale;
      if (row[i] < 0 || filter >= place.filters) continue;
      if (rare(v[0], range[0]) || (rare(v[1], range[1]) && filter + 1 < place.filters)) {
        again |= std::uint64_t{1} << (j * 2 * m + i);
        continue;
      }
      v[0] += bias.x, v[1] += bias.y;
      const std::int64_t index = index_of(i) + filter;
      float residual[2] = {};
      auto* output = static_cast<Element*>(args.output) + index;
      if (paired) {
        load_residual<Element>(args.finish, index, residual);
        apply<Element>(args.finish, v, residual);
        *reinterpret_cast<Pack<Element, 2>*>(output) = {from_f32<Element>(v[0]), from_f32<Element>(v[1])};
      } else {
        const bool two = filter + 1 < place.filters;
        if (args.finish.residual != nullptr) {
          residual[0] = to_f32(static_cast<const Element*>(args.finish.residual)[index]);
          if (two) residual[1] = to_f32(static_cast<const Element*>(args.finish.residual)[index + 1]);
        }
        apply<Element>(args.finish, v, residual);
        output[0] = from_f32<Element>(v[0]);
        if (two) output[1] = from_f32<Element>(v[1]);
      }
    }
  }
#pragma unroll 1
  for (; again != 0; again &= again - 1) {
    const int bit = __ffsll(static_cast<long long>(again)) - 1;
    const int i = bit % (2 * m), filter = bit / (2 * m) * 8 + pair;
    int y = 0, x = 0;
#pragma unroll
    for (int k = 0; k < 2 * m; ++k) {
      if (k == i) y = row[k], x = column[k];
    }
    for (int f = filter; f < min(filter + 2, place.filters); ++f) {
      const float scale = Op::split ? exact_scale(ranges[f]) : 1.0f;
      float v[1] = {exact_sum<Op>(args, bundle, f, block.image, y, x, scale) + biases[f]}, residual[1];
      const std::int64_t index =
          ((static_cast<std::int64_t>(block.image) * g.out_height + y) * g.out_width + x) * g.out_channels +
          place.filter + f;
      load_residual<Element>(args.finish, index, residual);
      apply<Element>(args.finish, v, residual);
      static_cast<Element*>(args.output)[index] = from_f32<Element>(v[0]);
    }
  }
}

}  // namespace lamina::cuda::mma
