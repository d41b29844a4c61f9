#pragma once

// The map whose windows are added up is what a 1x1 convolution makes of the input, between channels-last tensors of 16
// bits, or of codes, whose sums are whole numbers. A block brings the input pixels that its windows see, all channels
// of them, into shared memory, multiplies them with the slice's filters by mma.sync, rounds what comes to the storage
// type, as the map would be, and puts it into shared memory. There: the slice's parameters; max_pixels * input_bytes;
// halo_height * halo_width * pixel_bytes. From pixel to pixel is an odd number of units of 16 bytes, so that 8
// neighbours are in different banks.
//
// The order of sums is K from first to last, then tap by tap: no bit depends on tiles or the batch.

#include "lamina/cuda/conv2d/depthwise/tile.cuh"
#include "lamina/cuda/conv2d/depthwise/windows.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/mma_codes.cuh"
#include "lamina/cuda/ptx/shared.cuh"

namespace lamina::cuda::depthwise {

/// Finishes a warp's sums of m times 16 pixels from `first` on, and of up to max_fragments times 8 filters, and stores
/// them as activations at `between`, where the rectangle's first pixel and the first of these filters belong.
/// `factors`: of codes, these filters'.
template <class T, int m>
__device__ __forceinline__ void store_between(const PairArguments& args, const Rectangle& from, int first,
                                              const float* factors, int fragments, unsigned char* between,
                                              Sum<T> (&sum)[m][max_fragments][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float per_width = __frcp_rn(static_cast<float>(from.width));
  if constexpr (!of_codes<T>) {
    const auto finish = [&](auto kind) {
#pragma unroll
      for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int j = 0; j < max_fragments; ++j) {
#pragma unroll
          for (float& value : sum[i][j]) value = finished<kind.value, T>(args.between, value);
        }
      }
    };
    using Kind = Finish::Kind;
    if (args.between.kind == Kind::silu) {
      finish(std::integral_constant<Kind, Kind::silu>());
    } else if (args.between.kind == Kind::hard_swish) {
      finish(std::integral_constant<Kind, Kind::hard_swish>());
    } else if (args.between.kind == Kind::leaky) {
      finish(std::integral_constant<Kind, Kind::leaky>());
    } else {
      finish(std::integral_constant<Kind, Kind::clamp>());
    }
  }
  // Of eight of the pixels the lane's; null if it is none.
  const auto place = [&](int eight) -> unsigned char* {
    const int pixel = first + eight * 8 + lane / 4;
    if (pixel >= from.pixels()) return nullptr;
    // Exact: a quotient is half a pixel away from the next row's, and pixels are fewer than 2^20.
    const int y = static_cast<int>((static_cast<float>(pixel) + 0.5f) * per_width), x = pixel - y * from.width;
    return between + (y * args.halo_width + x) * args.pixel_bytes + lane % 4 * 2 * static_cast<int>(sizeof(T));
  };
  if constexpr (of_codes<T>) {
    const CodesEnd& ends = args.between_ends;
    as_known(ends, [&](auto saturates, auto looks_up) {
#pragma unroll
      for (int i = 0; i < m; ++i) {
        unsigned char *const upper = place(2 * i), *const lower = place(2 * i + 1);
#pragma unroll
        for (int j = 0; j < max_fragments; ++j) {
          if (j >= fragments) continue;
          const int(&sums)[4] = sum[i][j];
          const auto by = *reinterpret_cast<const float2*>(factors + j * 8 + lane % 4 * 2);
          const float q[4] = {__fmul_rn(__int2float_rn(sums[0]), by.x), __fmul_rn(__int2float_rn(sums[1]), by.y),
                              __fmul_rn(__int2float_rn(sums[2]), by.x), __fmul_rn(__int2float_rn(sums[3]), by.y)};
          const std::uint32_t codes = four_codes<saturates.value, looks_up.value>(ends, q);
          if (upper != nullptr) *reinterpret_cast<std::uint16_t*>(upper + j * 8) = static_cast<std::uint16_t>(codes);
          if (lower != nullptr)
            *reinterpret_cast<std::uint16_t*>(lower + j * 8) = static_cast<std::uint16_t>(codes >> 16);
        }
      }
    });
  } else {
#pragma unroll
    for (int i = 0; i < 2 * m; ++i) {
      unsigned char* const to = place(i);
      if (to == nullptr) continue;
#pragma unroll
      for (int j = 0; j < max_fragments; ++j) {
        if (j >= fragments) continue;
        const float* pair = &sum[i / 2][j][i % 2 * 2];
        *reinterpret_cast<Pack<T, 2>*>(to + j * 8 * sizeof(T)) = {from_f32<T>(pair[0]), from_f32<T>(pair[1])};
      }
    }
  }
}

/// `pixels` and `parameters`: in shared memory. `between`: where the rectangle's first pixel belongs.
template <class T, int m>
__device__ __forceinline__ void expand(const PairArguments& args, const Rectangle& from, std::uint32_t pixels,
                                       const unsigned char* parameters, int bias_offset, unsigned char* between) {
  constexpr int warps = max_threads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int all = args.slice / 8, chunks = (all + max_fragments - 1) / max_fragments;
  const int groups = (from.pixels() + 16 * m - 1) / (16 * m);
  if (groups == 0) return;
  for (int group = warp, chunk = 0;; group += warps) {
    for (; group >= groups; group -= groups) ++chunk;
    if (chunk >= chunks) break;
    const int first = group * 16 * m, fragment = chunk * max_fragments;
    const int fragments = min(all - fragment, max_fragments);
    std::uint32_t source[m];
#pragma unroll
    for (int i = 0; i < m; ++i) {
      const int pixel = min(first + i * 16 + lane % 16, from.pixels() - 1);
      source[i] = pixels + static_cast<std::uint32_t>(pixel * args.input_bytes + lane / 16 * unit_bytes);
    }
    Sum<T> sum[m][max_fragments][4] = {};
    const unsigned char* weights = parameters + fragment * fragment_bytes + lane * 8;
#pragma unroll 2
    for (int step = 0; step < args.steps; ++step) {
      std::uint32_t a[m][4];
#pragma unroll
      for (int i = 0; i < m; ++i) {
        ptx::load_matrices(a[i], source[i]);
        source[i] += 2 * unit_bytes;
      }
#pragma unroll
      for (int j = 0; j < max_fragments; ++j) {
        if (j >= fragments) continue;
        const uint2 word = *reinterpret_cast<const uint2*>(weights + j * fragment_bytes);
        const std::uint32_t b[2] = {word.x, word.y};
#pragma unroll
        for (int i = 0; i < m; ++i) ptx::mma<T>(sum[i][j], a[i], b, sum[i][j]);
      }
      weights += all * fragment_bytes;
    }
#pragma unroll
    for (int j = 0; j < max_fragments; ++j) {
      if (j >= fragments) continue;
      const auto bias =
          *reinterpret_cast<const Pack<Sum<T>, 2>*>(parameters + bias_offset + ((fragment + j) * 8 + lane % 4 * 2) * 4);
#pragma unroll
      for (int i = 0; i < m; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[i][j][e] += bias.values[e % 2];
      }
    }
    const auto* const factors = reinterpret_cast<const float*>(parameters + bias_offset) + args.slice;
    store_between<T, m>(args, from, first, factors + fragment * 8, fragments,
                        between + fragment * 8 * static_cast<int>(sizeof(T)), sum);
  }
}

/// What surrounds the map where it has no pixels.
__device__ __forceinline__ void pad(const PairArguments& args, const Rectangle& inside, int top, int left,
                                    unsigned char* map) {
  if (inside.pixels() == args.halo_height * args.halo_width) return;
  const int units = args.pixel_bytes / unit_bytes, all = args.halo_height * args.halo_width * units;
  for (int i = static_cast<int>(threadIdx.x); i < all; i += max_threads) {
    const auto pixel = args.by_units.quotient(static_cast<std::uint32_t>(i));
    const int y = static_cast<int>(args.by_halo_width.quotient(pixel));
    const int row = top + y, column = left + static_cast<int>(pixel) - y * args.halo_width;
    if (row >= inside.top && row < inside.top + inside.height && column >= inside.left &&
        column < inside.left + inside.width) {
      continue;
    }
    *reinterpret_cast<uint4*>(map + i * unit_bytes) = {args.outside, args.outside, args.outside, args.outside};
  }
}

template <class T>
struct Expanded {
  using Element = T;
  using Arguments = PairArguments;
  static constexpr bool expands = true;

  const Arguments& args;
  const Place& place;
  const ParametersOf offset;
  const int top, left;
  unsigned char *const memory, *const pixels, *const map;
  const Sum<T>*const taps, *const biases;
  const float* const factors;  // of codes
  Rectangle from;              // of the input
  const unsigned char* input;  // the image's first pixel

  __device__ __forceinline__ Expanded(const Arguments& args_, const Place& place_, int taps_, int top_, int left_,
                                      unsigned char* memory_)
      : args(args_),
        place(place_),
        offset(args_.steps, args_.slice, taps_, of_codes<T>),
        top(top_),
        left(left_),
        memory(memory_),
        pixels(memory_ + offset.bytes),
        map(pixels + args_.max_pixels * args_.input_bytes),
        taps(reinterpret_cast<const Sum<T>*>(memory_ + offset.taps)),
        biases(reinterpret_cast<const Sum<T>*>(memory_ + offset.last)),
        factors(reinterpret_cast<const float*>(biases) + args_.slice),
        from{max(top_, 0), max(left_, 0), 0, 0},
        input(static_cast<const unsigned char*>(args_.input) + place_.image * args_.geometry.in_height *
                                                                   args_.geometry.in_width * args_.terms *
                                                                   static_cast<int>(sizeof(T))) {
    from.height = max(min(top + args.halo_height, args.geometry.in_height) - from.top, 0);
    from.width = max(min(left + args.halo_width, args.geometry.in_width) - from.left, 0);
    ptx::pin(from.height), ptx::pin(from.width), ptx::pin(input);  // found before the wait, not row by row behind it
  }

  template <int pack>
  __device__ __forceinline__ void load_parameters(int) const {
    const std::uint32_t to = ptx::shared_address(memory);
    const auto* parameters = args.parameters + static_cast<std::int64_t>(place.slice) * offset.bytes;
    for (int i = static_cast<int>(threadIdx.x) * 16; i < offset.bytes; i += max_threads * 16) {
      ptx::copy_async<16>(to + static_cast<std::uint32_t>(i), parameters + i);
    }
    pad(args, from, top, left, map);
  }

  __device__ __forceinline__ void load() const {
    const int bytes = args.terms * static_cast<int>(sizeof(T));
    load_pixels<true>(args, from, input, bytes, bytes, ptx::shared_address(pixels), args.input_bytes);
  }

  __device__ __forceinline__ void expand() const {
    unsigned char* const inside = map + ((from.top - top) * args.halo_width + from.left - left) * args.pixel_bytes;
    if (args.wide) {
      depthwise::expand<T, 2>(args, from, ptx::shared_address(pixels), memory, offset.bias, inside);
    } else {
      depthwise::expand<T, 1>(args, from, ptx::shared_address(pixels), memory, offset.bias, inside);
    }
    __syncthreads();
  }
};

}  // namespace lamina::cuda::depthwise
