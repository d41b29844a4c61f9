#pragma once

// What happens to a sum between the tensor cores and the output: exact repair, bias, the chain of functions, rounding;
// and the kernel that adds up the splits of K. All of it takes a few neighbouring filters of one pixel at a time.

#include <type_traits>

#include "lamina/cuda/conv2d/mma/gathered/arguments.h"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/exact.cuh"
#include "lamina/cuda/tensor_core/operands.cuh"

namespace lamina::cuda::mma::gathered {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

/// The window of one output pixel of this launch. Offsets wrap around modulo 2^32 where the corner lies in the padding;
/// the sum with a tap inside the image is right again.
__device__ inline Position window_at(const Arguments& args, int group, int pixel) {
  const ConvGeometry& g = args.geometry;
  const int plane = g.out_height * g.out_width;
  const int image = static_cast<int>(args.by.plane.quotient(static_cast<unsigned>(pixel)));
  const int row = static_cast<int>(args.by.out_width.quotient(static_cast<unsigned>(pixel - image * plane)));
  const int top = row * g.stride_height - g.padding_height;
  const int left = (pixel - image * plane - row * g.out_width) * g.stride_width - g.padding_width;

  // The first tap of an axis inside the image, and one past the last.
  const auto first = [](int corner, int dilation, Divider by) {
    const int before = static_cast<int>(by.quotient(static_cast<unsigned>(max(dilation - 1 - corner, 0))));
    return static_cast<unsigned>(min(corner < 0 ? before : 0, max_kernel));
  };
  const auto end = [](int corner, Divider by, int size, int kernel) {
    const int last = static_cast<int>(by.quotient(static_cast<unsigned>(max(size - 1 - corner, 0))));
    return static_cast<unsigned>(corner < size ? min(last + 1, kernel) : 0);
  };
  const unsigned rows = 128 - first(top, g.dilation_height, args.by.dilation_height) |
                        end(top, args.by.dilation_height, g.in_height, g.kernel_height) << 8;
  const unsigned columns = 128 - first(left, g.dilation_width, args.by.dilation_width) |
                           end(left, args.by.dilation_width, g.in_width, g.kernel_width) << 8;
  const unsigned corner =
      (static_cast<unsigned>(image) * static_cast<unsigned>(g.in_height) + static_cast<unsigned>(top)) *
          static_cast<unsigned>(g.in_width) +
      static_cast<unsigned>(left);
  return {corner * args.units_per_pixel + static_cast<unsigned>(group) * args.units_per_group, rows | columns << 16};
}

__device__ __forceinline__ bool inside(Position window, Position tap) {
  return ((window.bounds + tap.bounds) & 0x80808080u) == 0x80808080u;
}

/// One output's sum, exactly, from the packed weights.
template <class Op>
__device__ __noinline__ float exact_sum(const Arguments& args, int group, int m, int pixel) {
  using Element = typename Op::Element;
  const Position window = window_at(args, group, pixel);
  const int tile = group * args.m_tiles + m / args.block_m;
  const auto* weight = static_cast<const unsigned char*>(args.weight);
  constexpr unsigned terms = step_bytes / sizeof(Element);
  static_assert(terms <= ExactSum::max_terms);
  ExactSum exact;
  for (unsigned step = 0; step < static_cast<unsigned>(args.steps); ++step) {
    const unsigned char* rows = weight + (static_cast<std::size_t>(tile) * static_cast<unsigned>(args.steps) + step) *
                                             static_cast<unsigned>(args.block_m * step_bytes);
    for (unsigned k = 0; k < terms; ++k) {
      const Position tap = args.taps[(step * terms + k) / args.unit_elements];
      if (!inside(window, tap)) continue;
      const unsigned within = (step * terms + k) % args.unit_elements;
      // The zero weight that fills a folded kernel must not meet an Inf there.
      if (args.folded_kernel != 0 &&
          static_cast<int>((tap.bounds >> 16 & 0xffu) * Fold::pixels + within / Fold::channels) >= args.folded_kernel) {
        continue;
      }
      const std::size_t element = static_cast<std::size_t>(window.offset + tap.offset) * args.unit_elements + within;
      const int byte = swizzled(row_of_filter(m % args.block_m), static_cast<int>(k * sizeof(Element)));
      exact.add(static_cast<float>(*reinterpret_cast<const Element*>(rows + byte)),
                Op::value(static_cast<float>(static_cast<const Element*>(args.input)[element])));
    }
    exact.end_chain();
  }
  return exact.sum;
}

/// What finishing needs to know of n neighbouring filters.
template <class Op, int n>
struct FilterEnd {
  float bias[n] = {};
  FilterRange range[Op::split ? n : 1];

  /// Of filters m, m + 1, ... of `group`, as many as there are.
  __device__ __forceinline__ FilterEnd(const Arguments& args, int group, int m) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (m + j >= args.group_out_channels) continue;
      const int channel = group * args.group_out_channels + m + j;
      if (args.bias != nullptr) bias[j] = __ldg(args.bias + channel);
      if constexpr (Op::split) range[j] = args.filters[channel];
    }
  }

  /// Scales the sums, as fp32 wants it, and adds the bias; false if one of them must be summed again. All are asked at
  /// once: zero times a number that is not finite is NaN.
  __device__ __forceinline__ bool complete(float (&values)[n], int filters) const {
    float zero = 0.0f;
    bool small = false;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if constexpr (Op::split) {
        values[j] *= range[j].scale;
        small |= j < filters && fabsf(values[j]) < range[j].smallest && values[j] != 0.0f;
      }
      if (j < filters) zero = fmaf(values[j], 0.0f, zero);
      values[j] += bias[j];
    }
    return zero == 0.0f && !small;
  }
};

__device__ __forceinline__ std::int64_t index_of(const Arguments& args, int group, int m, int pixel) {
  return std::int64_t{pixel} * args.out_pitch + group * args.group_out_channels + m;
}

/// n neighbouring elements, in accesses of at most 16 bytes if they are `whole`, of which else some may not exist.
template <class T, int n>
struct Neighbours {
  static constexpr int together = n * sizeof(T) < 16 ? n : 16 / static_cast<int>(sizeof(T));
  Pack<T, together> packs[n / together] = {};

  __device__ __forceinline__ T& operator[](int j) { return packs[j / together].values[j % together]; }

  __device__ __forceinline__ void load(const T* from, bool whole, int count) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (whole && j % together == 0) packs[j / together] = *reinterpret_cast<const Pack<T, together>*>(from + j);
      if (!whole && j < count) (*this)[j] = from[j];
    }
  }
  __device__ __forceinline__ void store(T* to, bool whole, int count) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      if (whole && j % together == 0) *reinterpret_cast<Pack<T, together>*>(to + j) = packs[j / together];
      if (!whole && j < count) to[j] = (*this)[j];
    }
  }
};

/// What is added to filters m, m + 1, ... of `group` of an output pixel: zeros, if nothing is.
template <class Output, int n>
__device__ __forceinline__ Neighbours<Output, n> residual_at(const Arguments& args, int group, int m, int pixel,
                                                             bool whole) {
  Neighbours<Output, n> result;
  if (args.finish.residual != nullptr) {
    result.load(static_cast<const Output*>(args.finish.residual) + index_of(args, group, m, pixel), whole,
                args.group_out_channels - m);
  }
  return result;
}

/// Finishes filters m ... m + n - 1 of `group` of one output pixel from their sums; false, and nothing is stored, if
/// one must be summed again. `whole`: all of them exist, and are stored 16 bytes at a time. `apply` as in finish.cuh.
template <class Op, class Output, int n, class Apply>
__device__ __forceinline__ bool finish_as(const Arguments& args, const FilterEnd<Op, n>& end, int group, int m,
                                          int pixel, float (&values)[n], Neighbours<Output, n>& residual, bool whole,
                                          Apply&& apply) {
  const int filters = whole ? n : args.group_out_channels - m;
  if (!end.complete(values, filters)) return false;
  float added[n];
#pragma unroll
  for (int j = 0; j < n; ++j) added[j] = to_f32(residual[j]);
  apply(values, added);
  Neighbours<Output, n> result;
#pragma unroll
  for (int j = 0; j < n; ++j) result[j] = from_f32<Output>(values[j]);
  result.store(static_cast<Output*>(args.output) + index_of(args, group, m, pixel), whole, filters);
  return true;
}

/// The same from the operands, one sum after the other.
template <class Op, class Output, int n>
__device__ __noinline__ void finish_exactly(const Arguments& args, int group, int m, int pixel) {
  const int filters = min(n, args.group_out_channels - m);
  const std::int64_t index = index_of(args, group, m, pixel);
#pragma unroll 1
  for (int j = 0; j < filters; ++j) {
    const int channel = group * args.group_out_channels + m + j;
    float y = exact_sum<Op>(args, group, m + j, pixel);
    if constexpr (Op::split) y *= exact_scale(args.filters[channel]);
    if (args.bias != nullptr) y += args.bias[channel];
    float value[1] = {y}, added[1] = {};
    if (args.finish.residual != nullptr) {
      added[0] = to_f32(static_cast<const Output*>(args.finish.residual)[index + j]);
    }
    apply<Output>(args.finish, value, added);
    static_cast<Output*>(args.output)[index + j] = from_f32<Output>(value[0]);
  }
}

/// Finishes n filters of a pixel, whatever their number, type and functions.
template <class Op, int n>
__device__ __forceinline__ void finish(const Arguments& args, const FilterEnd<Op, n>& end, int group, int m, int pixel,
                                       float (&values)[n]) {
  const auto as = [&](auto* type) {
    using Output = std::remove_pointer_t<decltype(type)>;
    const auto functions = [&](float(&v)[n], const float(&added)[n]) { apply<Output>(args.finish, v, added); };
    auto residual = residual_at<Output, n>(args, group, m, pixel, args.out_in_eights);
    if (!finish_as<Op, Output>(args, end, group, m, pixel, values, residual, args.out_in_eights, functions)) {
      finish_exactly<Op, Output, n>(args, group, m, pixel);
    }
  };
  using Element = typename Op::Element;
  if (sizeof(Element) == sizeof(float) || args.output_type == DType::f32) {
    as(static_cast<float*>(nullptr));
  } else {
    as(static_cast<Element*>(nullptr));
  }
}

/// Where a split's sums of a quad are.
__device__ __forceinline__ float4* partial_at(const Arguments& args, int split, int group, int m, int pixel) {
  return reinterpret_cast<float4*>(args.partial) +
         (static_cast<std::int64_t>(split) * args.pixels + pixel) * (args.geometry.groups * args.quads) +
         group * args.quads + m / 4;
}

#endif

/// Adds the splits of K in their order, so that the bits are the same every time. One thread per quad of filters of a
/// pixel of the launch.
template <class Op>
__global__ void __launch_bounds__(reduce_threads) implicit_gemm_reduce_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  let_successor_start();
  const std::int64_t thread = std::int64_t{blockIdx.x} * reduce_threads + threadIdx.x;
  const int quads = args.geometry.groups * args.quads;
  if (thread >= std::int64_t{args.pixels} * quads) return;
  const int pixel = static_cast<int>(thread / quads), quad = static_cast<int>(thread - std::int64_t{pixel} * quads);
  const int group = quad / args.quads, m = (quad - group * args.quads) * 4;
  const FilterEnd<Op, 4> end(args, group, m);
  wait_for_predecessor();
  const float4* partial = partial_at(args, 0, group, m, pixel);
  float sum[4] = {};
  constexpr int together = std::is_same_v<Op, Tf32> ? 4 : 8;  // on 8.0 it would go through local memory
#pragma unroll together
  for (int split = 0; split < args.splits; ++split) {
    const float4 part = partial[static_cast<std::int64_t>(split) * args.pixels * quads];
    sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
  }
  finish(args, end, group, m, pixel, sum);
#endif
}

template <class Op>
const void* reduce_kernel() {
  return reinterpret_cast<const void*>(&implicit_gemm_reduce_kernel<Op>);
}

}  // namespace lamina::cuda::mma::gathered
