#pragma once

// The store of a tile whose sums go through a chain of functions: as f32 through shared memory, out of which a loop
// takes four channels of a pixel at a time. That is a loop because unrolled over the registers of a tile all functions
// would be code of megabytes.

#include "lamina/cuda/conv2d/channels_last/epilogue.cuh"
#include "lamina/cuda/ptx/registers.cuh"

namespace lamina::cuda::channels_last {

/// Where 16 bytes of a pixel's 64 channels lie: the words of one store, four pixels x eight filters, meet all banks.
__device__ __forceinline__ std::uint32_t chained_place(int pixel, int chunk) {
  return static_cast<std::uint32_t>(pixel * 256 + (chunk ^ (pixel / 2 % 4 * 2)) * 16);
}

/// Four neighbouring channels, those that are `wanted`, by bit.
template <class Out>
__device__ __forceinline__ void write4(void* memory, std::int64_t index, const float (&v)[4], std::uint32_t wanted) {
  Out* output = static_cast<Out*>(memory) + index;
  if (wanted == 0xfu) {
    *reinterpret_cast<Pack<Out, 4>*>(output) = {from_f32<Out>(v[0]), from_f32<Out>(v[1]), from_f32<Out>(v[2]),
                                                from_f32<Out>(v[3])};
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if ((wanted >> k & 1u) != 0) output[k] = from_f32<Out>(v[k]);
  }
}

/// Four neighbouring channels of a pixel, as a thread has them in turns: `local` counts pixels from the part's first.
struct Quad {
  int local, chunk;
  std::int64_t index;  // in the output
  bool inside;

  template <class Place>
  __device__ __forceinline__ Quad(const Arguments& args, const Piece<Place>& piece, int first, int i) {
    local = i / 16, chunk = i % 16;
    const int pixel = piece.place.pixel(args, first * 8 + local), filter = piece.first_filter + chunk * 4;
    index = static_cast<std::int64_t>(pixel) * args.out_pitch + filter;
    inside = pixel >= 0 && filter < args.geometry.out_channels;
  }
};

/// Sums of a part, filters x pixels, into the buffers.
template <int fragments, int n>
__device__ __forceinline__ void stage_sums(int group, std::uint32_t buffers, const float (&d)[n / 2], int first,
                                           int thread) {
  const int lane = thread % 32, warp = thread / 32;
  ptx::sync_warpgroup(group + 1);
  // Registers have no index: every part has its own code, and its turn.
#pragma unroll
  for (int part = 0; part < n / 8; part += fragments) {
    if (part != first) continue;
#pragma unroll
    for (int j = 0; j < fragments; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int pixel = j * 8 + lane % 4 * 2 + i % 2, filter = warp * 16 + lane / 4 + i / 2 * 8;
        ptx::store_shared(buffers + chained_place(pixel, filter / 4) + static_cast<std::uint32_t>(filter % 4 * 4),
                          d[4 * (part + j) + i]);
      }
    }
  }
  ptx::sync_warpgroup(group + 1);
}

/// A quad's sums with the bias; `wanted`: those that are not rare.
template <class T>
__device__ __forceinline__ void load_sums(const Arguments& args, int filter, std::uint32_t buffers, const Quad& quad,
                                          float (&v)[4], std::uint32_t& wanted) {
  const auto sums = ptx::load_shared<float4>(buffers + chained_place(quad.local, quad.chunk));
  const float4 bias = __ldg(reinterpret_cast<const float4*>(args.bias + filter));
  v[0] = sums.x, v[1] = sums.y, v[2] = sums.z, v[3] = sums.w;
  wanted = 0xfu;
  if constexpr (Element<T>::repaired) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      FilterRange range;
      if constexpr (ranged<T>) range = args.ranges[filter + k];
      if (rare(v[k], range)) wanted &= ~(1u << k);
    }
  }
  v[0] += bias.x, v[1] += bias.y, v[2] += bias.z, v[3] += bias.w;
}

/// Stores a piece, `fragments` of 8 pixels at a time, through both buffers together. Leaves out sums that are rare:
/// repair() finds them again.
template <class T, int fragments, int n, class Place>
__device__ __forceinline__ void store_chained(const Arguments& args, const Piece<Place>& piece, std::uint32_t buffers,
                                              const float (&d)[n / 2]) {
  int thread = static_cast<int>(threadIdx.x) % 128;
  ptx::pin(thread);  // tiles without a chain are not to pay for its addresses with registers
#pragma unroll 1
  for (int first = 0; first < n / 8; first += fragments) {
    stage_sums<fragments, n>(piece.group, buffers, d, first, thread);
#pragma unroll 1
    for (int i = thread; i < fragments * 8 * 16; i += 128) {
      const Quad quad(args, piece, first, i);
      if (!quad.inside) continue;
      float v[4];
      const float nothing[4] = {};
      std::uint32_t wanted;
      load_sums<T>(args, piece.first_filter + quad.chunk * 4, buffers, quad, v, wanted);
      finish<T, false>(args, v, nothing);
      if (in_f32<T> || args.output_type == DType::f32) {
        write4<float>(args.output, quad.index, v, wanted);
      } else if constexpr (!in_f32<T>) {
        write4<T>(args.output, quad.index, v, wanted);
      }
    }
  }
}

}  // namespace lamina::cuda::channels_last
