#pragma once

#include <type_traits>

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/squeeze_excite/squeeze_excite.h"

/// What a block does with the means of an image's channels: its rows of a layer, or the mean of all of them.
namespace lamina::cuda::squeeze_excite {

/// An image's elements: of 16 bits, or codes of either sign.
template <class T>
inline constexpr bool of_codes = std::is_integral_v<T>;

/// `ends`: what lies behind the weights.
__device__ __forceinline__ float finish_one(const Layer& layer, const eight_bits::SumsEnd& end, const float* ends,
                                            int sum, int row) {
  const float *offsets = ends + 256, *factors = offsets + layer.rows;
  const float q = __fmul_rn(__int2float_rn(sum + __float_as_int(offsets[row])), factors[row]);
  return ends[eight_bits::rounded(q, end.low, end.high, static_cast<std::uint32_t>(end.quantization.zero_point)) &
              0xffu];
}

template <class T>
__device__ __forceinline__ float finish_one(const Finish& finish, float sum) {
  float v[1] = {sum};
  const float nothing[1] = {};
  apply<T>(finish, v, nothing);
  return to_f32(from_f32<T>(v[0]));
}

/// A layer's rows of this block, of each image: of `values`, `pitch` floats from image to image. `put(i, row, result)`
/// is called by one thread.
template <class T, int images, class Put>
__device__ __forceinline__ void multiply(const Layer& layer, const unsigned char* parameters, const Finish& finish,
                                         const eight_bits::SumsEnd& end, const float* values, int pitch,
                                         const Put& put) {
  using Weight = std::conditional_t<of_codes<T>, __half, T>;
  const auto* ends = reinterpret_cast<const float*>(parameters + layer.weight_bytes());
  const int log2_lanes = 31 - __clz(layer.lanes), units = layer.units();
  const int thread = static_cast<int>(threadIdx.x), lane = thread & (layer.lanes - 1), step = threads >> log2_lanes;
  // All threads of a warp stay for the shuffles.
  for (int first = 0; first < layer.rows; first += step) {
    const int row = first + (thread >> log2_lanes);
    const unsigned char* weights = parameters + min(row, layer.rows - 1) * layer.pitch();
    float chain[images] = {};
    for (int unit = lane; unit < units; unit += layer.lanes) {
      const auto w = *reinterpret_cast<const Pack<Weight>*>(weights + unit * 16);
#pragma unroll
      for (int i = 0; i < images; ++i) {
        const float* v = values + i * pitch + unit * pack;
        const float4 low = *reinterpret_cast<const float4*>(v), high = *reinterpret_cast<const float4*>(v + 4);
        chain[i] = fmaf(to_f32(w.values[0]), low.x, chain[i]), chain[i] = fmaf(to_f32(w.values[1]), low.y, chain[i]);
        chain[i] = fmaf(to_f32(w.values[2]), low.z, chain[i]), chain[i] = fmaf(to_f32(w.values[3]), low.w, chain[i]);
        chain[i] = fmaf(to_f32(w.values[4]), high.x, chain[i]), chain[i] = fmaf(to_f32(w.values[5]), high.y, chain[i]);
        chain[i] = fmaf(to_f32(w.values[6]), high.z, chain[i]), chain[i] = fmaf(to_f32(w.values[7]), high.w, chain[i]);
      }
    }
#pragma unroll
    for (int i = 0; i < images; ++i) {
      auto sum = static_cast<std::conditional_t<of_codes<T>, int, float>>(chain[i]);
      for (int other = layer.lanes / 2; other > 0; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
      if (lane != 0 || row >= layer.rows) continue;
      if constexpr (of_codes<T>) {
        put(i, row, finish_one(layer, end, ends, sum, row));
      } else {
        put(i, row, finish_one<T>(finish, sum + ends[row]));
      }
    }
  }
}

/// put(i, mean) the mean of each image's numbers, by all threads.
template <int images, class Put>
__device__ __forceinline__ void average(int channels, const float* numbers, int pitch, float* sums, const Put& put) {
  constexpr int warp = 32;
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < images; ++i) {
    float sum = 0;
    for (int c = thread; c < channels; c += threads) sum += numbers[i * pitch + c];
    for (int other = warp / 2; other > 0; other /= 2) sum += __shfl_xor_sync(~0u, sum, other);
    if (thread % warp == 0) sums[thread / warp] = sum;
    __syncthreads();
    sum = 0;
#pragma unroll
    for (int w = 0; w < threads / warp; ++w) sum += sums[w];
    __syncthreads();  // before the next image's are written
    put(i, sum / static_cast<float>(channels));
  }
}

}  // namespace lamina::cuda::squeeze_excite
