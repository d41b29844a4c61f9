// A cluster of blocks owns one image or a few, each block an eighth of their pixels, of the hidden values and of the
// factors.
//
// A thread adds up 8 channels of every so many pixels; sums meet in the block, then across the cluster, where every
// block needs all means. In both layers a few threads share a row of weights, 16 bytes at a time; hidden values are
// exchanged across the cluster too. The factors are the result, or the block multiplies its pixels by them, which it
// reads again. Or squares are added up, and the factors are a norm of the channels' roots. All orders are those of the
// layer: no bit depends on the batch. Means, roots, hidden values and factors are rounded as the activations that they
// would be. Of codes what a thread sums is a whole number of f32, weights being of f16, and what several threads sum of
// products one of i32: docs/inside/precision.md has the formulas.
// Shared memory: the parameters, which come while the predecessor ends; of each image the threads' sums [groups, C],
// the block's sums, all means, all hidden values and all factors, in f32. Preconditions: Arguments filled in by
// squeeze_excite.cpp; compute capability 9.0.

#include <algorithm>

#include "lamina/cuda/conv2d/eight_bits_ends.cuh"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/squeeze_excite/squeeze_excite.h"

namespace lamina::cuda::squeeze_excite {
namespace {

__device__ __forceinline__ void add(float4& sum, const float4& v) {
  sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
}

/// An image's elements: of 16 bits, or codes of either sign.
template <class T>
inline constexpr bool of_codes = std::is_integral_v<T>;

__device__ __forceinline__ float finish_one(const CodeEnd& to, int sum, float factor) {
  std::uint32_t code = eight_bits::code(to.ends.end, sum, factor, 0.0f);
  if (to.ends.table != nullptr) code = __ldg(to.ends.table + (code & 0xffu));
  return Meaning(to.reading)(code, 0);
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
                                         const CodeEnd& codes, const float* values, int pitch, const Put& put) {
  using Weight = std::conditional_t<of_codes<T>, __half, T>;
  const auto* biases = reinterpret_cast<const float*>(parameters + layer.weight_bytes());
  const int lane = static_cast<int>(threadIdx.x) % layer.lanes, units = layer.units();
  const int step = threads / layer.lanes;
  // All threads of a warp stay for the shuffles.
  for (int first = 0; first < layer.rows; first += step) {
    const int row = first + static_cast<int>(threadIdx.x) / layer.lanes;
    const unsigned char* weights = parameters + min(row, layer.rows - 1) * layer.pitch();
    int offset = 0;
    float factor = 0;
    if constexpr (of_codes<T>) {
      const int at = static_cast<int>(ptx::cluster_rank()) * layer.rows + min(row, layer.rows - 1);
      offset = __ldg(codes.ends.offset + at), factor = __ldg(codes.ends.factor + at);
    }
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
        put(i, row, finish_one(codes, sum + offset, factor));
      } else {
        put(i, row, finish_one<T>(finish, sum + biases[row]));
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

template <class T, int images, Result result>
__device__ __forceinline__ void run(const Arguments& args) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Memory place(args);
  const int parameter_bytes = args.squeeze.bytes() + args.excite.bytes(), pitch = place.count;
  auto* const floats = reinterpret_cast<float*>(memory + parameter_bytes);
  const int thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(ptx::cluster_rank());
  const std::int64_t image = static_cast<std::int64_t>(blockIdx.x / blocks) * images;
  {
    const unsigned char* from = args.parameters + static_cast<std::int64_t>(rank) * parameter_bytes;
    for (int i = thread * 16; i < parameter_bytes; i += threads * 16) {
      ptx::copy_async<16>(ptx::shared_address(memory) + static_cast<std::uint32_t>(i), from + i);
    }
    ptx::copy_async_commit();
  }
  const int packs = args.channels / pack, groups = threads / packs;
  const int group = thread / packs, mine = thread - group * packs;
  const int first = static_cast<int>(static_cast<std::int64_t>(args.pixels) * rank / blocks);
  const int last = static_cast<int>(static_cast<std::int64_t>(args.pixels) * (rank + 1) / blocks);
  const auto map = [&](auto* whole, int i) {  // of a batch that may end before the cluster's images do
    const std::int64_t at = image + i < args.images ? image + i : args.images - 1;
    return whole + at * args.pixels * args.channels + mine * pack;
  };
  // Beyond the values that meet weights of zero.
  for (int c = args.hidden + thread; c < args.excite.units() * pack; c += threads) {
#pragma unroll
    for (int i = 0; i < images; ++i) floats[i * pitch + place.hidden + c] = 0.0f;
  }
  constexpr bool responds = result == Result::response;
  const int channel = args.channels * rank / blocks + thread;  // of which this thread says the response
  const bool is_one = responds && channel < args.channels * (rank + 1) / blocks;
  const float scale = is_one ? args.norm[channel] : 0.0f, shift = is_one ? args.norm[args.channels + channel] : 0.0f;
  wait_for_predecessor();

  if (group < groups) {
#pragma unroll
    for (int i = 0; i < images; ++i) {
      const auto* input = map(static_cast<const T*>(args.input), i);
      float sum[pack] = {};
#pragma unroll 8
      for (int pixel = first + group; pixel < last; pixel += groups) {
        float values[pack];
        read_values(input + static_cast<std::int64_t>(pixel) * args.channels, Meaning(args.codes.whole), values);
#pragma unroll
        for (int j = 0; j < pack; ++j) sum[j] += responds ? values[j] * values[j] : values[j];
      }
      auto* parts = reinterpret_cast<float4*>(floats + i * pitch + place.parts + group * args.channels + mine * pack);
      parts[0] = {sum[0], sum[1], sum[2], sum[3]}, parts[1] = {sum[4], sum[5], sum[6], sum[7]};
    }
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  const auto four = [&](int i, int offset) { return reinterpret_cast<float4*>(floats + i * pitch + offset); };
#pragma unroll
  for (int i = 0; i < images; ++i) {
    for (int c = thread * 4; c < args.channels; c += threads * 4) {
      float4 total = {};
#pragma unroll 8
      for (int g = 0; g < groups; ++g) add(total, *four(i, place.parts + g * args.channels + c));
      *four(i, place.sums + c) = total;
    }
  }
  ptx::cluster_sync();
  const auto pixels = static_cast<float>(args.pixels);
#pragma unroll
  for (int i = 0; i < images; ++i) {
    for (int c = thread * 4; c < args.channels; c += threads * 4) {
      float4 total = {};
#pragma unroll
      for (int r = 0; r < blocks; ++r) add(total, ptx::load_from(floats + i * pitch + place.sums + c, r));
      const auto mean = [&](float sum) {
        if constexpr (of_codes<T>) {
          const float number = __fdiv_rn(__fmul_rn(sum, args.codes.image.scale), pixels);
          return Meaning(args.codes.of_means)(Results(args.codes.means).code<false>(number), 0);
        } else {
          return to_f32(from_f32<T>(responds ? sqrtf(sum) : sum / pixels));
        }
      };
      *four(i, place.means + c) = {mean(total.x), mean(total.y), mean(total.z), mean(total.w)};
    }
  }
  __syncthreads();
  if constexpr (responds) {
    const float* const numbers = floats + place.means;
    average<images>(args.channels, numbers, pitch, floats + place.parts, [&](int i, float mean) {
      if (!is_one || image + i >= args.images) return;
      const float response = numbers[i * pitch + channel] / (mean + args.eps);
      static_cast<T*>(args.output)[(image + i) * args.channels + channel] = from_f32<T>(response * scale + shift);
    });
    return ptx::cluster_sync();  // others read this block's sums
  }
  multiply<T, images>(args.squeeze, memory, args.squeeze_finish, args.codes.squeeze, floats + place.means, pitch,
                      [&](int i, int row, float value) {
                        const int s = rank * args.squeeze.rows + row;
                        if (s >= args.hidden) return;
#pragma unroll
                        for (int r = 0; r < blocks; ++r) ptx::store_to(floats + i * pitch + place.hidden + s, r, value);
                      });
  ptx::cluster_sync();
  const unsigned char* const second = memory + args.squeeze.bytes();
  const auto excite = [&](const auto& put) {
    multiply<T, images>(args.excite, second, args.excite_finish, args.codes.excite, floats + place.hidden, pitch,
                        [&](int i, int row, float value) {
                          const int c = rank * args.excite.rows + row;
                          if (c < args.channels) put(i, c, value);
                        });
  };
  if constexpr (result == Result::factors) {
    excite([&](int i, int c, float value) {
      if (image + i >= args.images) return;
      static_cast<T*>(args.output)[(image + i) * args.channels + c] = from_f32<T>(value);
    });
  } else {
    excite([&](int i, int c, float value) {
#pragma unroll
      for (int r = 0; r < blocks; ++r) ptx::store_to(floats + i * pitch + place.factors + c, r, value);
    });
    ptx::cluster_sync();
#pragma unroll
    for (int i = 0; i < images; ++i) {
      if (group >= groups || image + i >= args.images) break;
      float factor[pack];
#pragma unroll
      for (int j = 0; j < pack; ++j) factor[j] = floats[i * pitch + place.factors + mine * pack + j];
      const auto* input = map(static_cast<const T*>(args.input), i);
      auto* output = map(static_cast<T*>(args.output), i);
#pragma unroll 4
      for (int pixel = first + group; pixel < last; pixel += groups) {
        const std::int64_t at = static_cast<std::int64_t>(pixel) * args.channels;
        float values[pack];
        read_values(input + at, Meaning(args.codes.image), values);
#pragma unroll
        for (int j = 0; j < pack; ++j) values[j] *= factor[j];
        if constexpr (of_codes<T>) {
          *reinterpret_cast<Codes<pack>*>(output + at) = Results(args.codes.output).codes<false>(values);
        } else {
          write_floats(values, output + at);
        }
      }
    }
  }
}

template <class T, int images, Result result>
__global__ void __launch_bounds__(threads, 2) squeeze_excite_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 900
  let_successor_start();
  run<T, images, result>(args);
#endif
}

template <class T, Result result>
const void* kernel_of(int images) {
  const auto address = [](auto* function) { return reinterpret_cast<const void*>(function); };
  static_assert(max_images == 3);
  return images == 1   ? address(&squeeze_excite_kernel<T, 1, result>)
         : images == 2 ? address(&squeeze_excite_kernel<T, 2, result>)
                       : address(&squeeze_excite_kernel<T, 3, result>);
}
template <class T>
const void* kernel_of(int images, Result result) {
  return result == Result::product   ? kernel_of<T, Result::product>(images)
         : result == Result::factors ? kernel_of<T, Result::factors>(images)
                                     : kernel_of<T, Result::response>(images);
}

}  // namespace

int shared_bytes(const Arguments& args, int images) {
  return args.squeeze.bytes() + args.excite.bytes() + Memory(args).count * 4 * images;
}

const void* kernel(DType type, int images, Result result) {
  if (size_of(type) == 1) return kernel_of<std::uint8_t, Result::product>(images);
  return type == DType::f16 ? kernel_of<__half>(images, result) : kernel_of<__nv_bfloat16>(images, result);
}

}  // namespace lamina::cuda::squeeze_excite
