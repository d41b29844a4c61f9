// A cluster of up to eight blocks owns one image or a few. An image has eight parts, each a slice of the channels and a
// share of the pixels; a block has as many of them as it takes, and as much of the hidden values and of the factors.
//
// A thread adds up 8 channels of every so many pixels, of which it reads several at a time: what takes the time is how
// soon they come. Sums meet in the block, then across the cluster, where every block needs all means: of each channel
// it reads as many sums as there are shares. In both layers a few threads share a row of weights, 16 bytes at a time;
// hidden values are exchanged across the cluster too. The factors are the result, or the block multiplies its pixels by
// them, which it reads again. Or squares are added up, and the factors are a norm of the channels' roots. All orders
// are those of the parts and the layers: no bit depends on the batch, or on the cluster. Means, roots, hidden values
// and factors are rounded as the activations that they would be. Of codes what a thread sums is a whole number, of
// products one of f32, weights being of f16, and what several threads sum of those one of i32:
// docs/inside/precision.md has the formulas. Their factors are those of detail::product_slopes.
//
// Shared memory: the parameters, which come while the predecessor ends; of each image the threads' sums
// [parts of the block, threads * 8], the block's sums, all means, all hidden values and all factors, in f32.
// Preconditions: Arguments filled in by squeeze_excite.cpp; compute capability 9.0.

#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/squeeze_excite/layers.cuh"

namespace lamina::cuda::squeeze_excite {
namespace {

[[maybe_unused]] __device__ __forceinline__ void add(float4& sum, const float4& v) {  // not used there before 9.0
  sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
}

/// Neighbouring channels of a pixel, as words: of elements of 16 bits each would be taken or left by itself, and the
/// registers would not do for several pixels on their way.
template <class T>
using Channels = Neighbouring<std::uint32_t, pack * sizeof(T) / 4>;

/// Reads channels of several pixels, `step` apart, before any is used; `none` behind the last.
template <int count, class T>
__device__ __forceinline__ void load(const T* map, int pixel, int last, int step, int channels, const Channels<T>& none,
                                     Channels<T> (&all)[count]) {
#pragma unroll
  for (int a = 0; a < count; ++a) {
    const int at = pixel + a * step;
    all[a] = none;
    if (at < last) all[a] = *reinterpret_cast<const Channels<T>*>(map + at * channels);
  }
}

/// Channel j of a pixel of 16 bits.
template <class T>
__device__ __forceinline__ float channel_of(const Channels<T>& all, int j) {
  const auto half = static_cast<unsigned short>(j % 2 == 0 ? all.values[j / 2] : all.values[j / 2] >> 16);
  if constexpr (std::is_same_v<T, __half>) return to_f32(__ushort_as_half(half));
  return to_f32(__ushort_as_bfloat16(half));
}

template <class T, int images, Result result>
__device__ __forceinline__ void run(const Arguments& args) {
  extern __shared__ __align__(16) unsigned char memory[];
  const Memory place(args, result);
  const int parameter_bytes = args.squeeze.bytes() + args.excite.bytes(), pitch = place.count;
  auto* const floats = reinterpret_cast<float*>(memory + parameter_bytes);
  const int thread = static_cast<int>(threadIdx.x), rank = static_cast<int>(ptx::cluster_rank());
  const std::int64_t image = static_cast<std::int64_t>(blockIdx.x >> args.log2_blocks) * images;
  {
    const unsigned char* from = args.parameters + static_cast<std::int64_t>(rank) * parameter_bytes;
    for (int i = thread * 16; i < parameter_bytes; i += threads * 16) {
      ptx::copy_async<16>(ptx::shared_address(memory) + static_cast<std::uint32_t>(i), from + i);
    }
    ptx::copy_async_commit();
  }
  const int slice_channels = args.slice_channels(), several = args.parts_of_block();
  const int log2_shares = log2_parts - args.log2_slices, log2_several = log2_parts - args.log2_blocks;
  const int packs = slice_channels / pack, groups = args.groups;
  const auto slice_of = [&](int c) { return static_cast<int>(args.slice.quotient(static_cast<unsigned>(c))); };
  const int group = static_cast<int>(args.pack_of_slice.quotient(threadIdx.x)), mine = thread - group * packs;
  /// Of one of the block's parts: this thread's first channel, and pixels.
  struct Part {
    int channel, first, last;
  };
  const auto part_of = [&](int e) {
    const int part = rank * several + e, slice = part >> log2_shares, share = part - (slice << log2_shares);
    return Part{slice * slice_channels + mine * pack, (args.pixels * share >> log2_shares) + group,
                args.pixels * (share + 1) >> log2_shares};
  };
  const auto map = [&](auto* whole, int i, int channel) {  // of a batch that may end before the cluster's images do
    const std::int64_t at = image + i < args.images ? image + i : args.images - 1;
    return whole + at * args.pixels * args.channels + channel;
  };
  // Behind the last hidden value weights are zero, but what they multiply is to be a number.
  for (int c = args.hidden + thread; c < args.excite.units() * pack; c += threads) {
#pragma unroll
    for (int i = 0; i < images; ++i) floats[i * pitch + place.hidden + c] = 0.0f;
  }
  const std::uint32_t flip = args.codes.image.image.flip;
  Channels<T> none = {};
  if constexpr (of_codes<T>) none = {flip, flip};  // zeros, as they are read
  constexpr bool responds = result == Result::response;
  const int channel = (args.channels * rank >> args.log2_blocks) + thread;  // of which this thread says the response
  const bool is_one = responds && channel < args.channels * (rank + 1) >> args.log2_blocks;
  const float scale = is_one ? args.norm[channel] : 0.0f, shift = is_one ? args.norm[args.channels + channel] : 0.0f;
  wait_for_predecessor();

  for (int e = 0; e < several && group < groups; ++e) {
    const Part part = part_of(e);
#pragma unroll
    for (int i = 0; i < images; ++i) {
      const auto* input = map(static_cast<const T*>(args.input), i, part.channel);
      ptx::pin(input);  // or it is computed again for each load
      __builtin_assume(__isGlobal(input));
      std::conditional_t<of_codes<T>, std::uint32_t, float> sum[pack] = {};
      constexpr int ahead = responds ? 4 : 8;
      for (int pixel = part.first; pixel < part.last; pixel += ahead * groups) {
        Channels<T> all[ahead];
        load(input, pixel, part.last, groups, args.channels, none, all);
#pragma unroll
        for (int a = 0; a < ahead; ++a) {
#pragma unroll
          for (int j = 0; j < pack; ++j) {
            if constexpr (of_codes<T>) {
              sum[j] = __dp4a(all[a].values[j / 4] ^ flip, 1u << j % 4 * 8, sum[j]);
            } else {
              const float value = channel_of<T>(all[a], j);
              sum[j] += responds ? value * value : value;
            }
          }
        }
      }
      const int at = place.of_threads + (e * groups + group) * slice_channels + mine * pack;
      const auto number = [&](int j) { return static_cast<float>(sum[j]); };
      auto* const to = reinterpret_cast<float4*>(floats + i * pitch + at);
      to[0] = {number(0), number(1), number(2), number(3)}, to[1] = {number(4), number(5), number(6), number(7)};
    }
  }
  ptx::copy_async_wait<0>();
  __syncthreads();
  const auto four = [&](int i, int offset) { return reinterpret_cast<float4*>(floats + i * pitch + offset); };
#pragma unroll
  for (int i = 0; i < images; ++i) {
    for (int c = thread * 4; c < several * slice_channels; c += threads * 4) {
      float4 total = {};
      const int from = place.of_threads + c + slice_of(c) * (groups - 1) * slice_channels;
#pragma unroll 8
      for (int g = 0; g < groups; ++g) add(total, *four(i, from + g * slice_channels));
      *four(i, place.sums + c) = total;
    }
  }
  ptx::cluster_sync();
  const auto pixels = static_cast<float>(args.pixels);
#pragma unroll
  for (int i = 0; i < images; ++i) {
    for (int c = thread * 4; c < args.channels; c += threads * 4) {
      float4 total = {};
      const int of = slice_of(c);
      const float* const sums = floats + i * pitch + place.sums + c - of * slice_channels;
#pragma unroll
      for (int r = 0; r < parts; ++r) {
        const int part = (of << log2_shares) + r, block = part >> log2_several;
        if (r < 1 << log2_shares)
          add(total, ptx::load_from(sums + (part - (block << log2_several)) * slice_channels, block));
      }
      const auto mean = [&](float sum, int at) {
        if (!responds && c + at >= args.squeeze.terms) return 0.0f;  // which the layer does not read
        if constexpr (of_codes<T>) {
          const float number = __fdiv_rn(__fmul_rn(__fsub_rn(sum, args.codes.zeros), args.codes.scale), pixels);
          return __fsub_rn(__uint_as_float(Results(args.codes.means).code<false>(number)), eight_bits::whole);
        } else {
          return to_f32(from_f32<T>(responds ? sqrtf(sum) : sum / pixels));
        }
      };
      *four(i, place.means + c) = {mean(total.x, 0), mean(total.y, 1), mean(total.z, 2), mean(total.w, 3)};
    }
  }
  __syncthreads();
  if constexpr (responds) {
    const float* const numbers = floats + place.means;
    average<images>(args.channels, numbers, pitch, floats + place.of_threads, [&](int i, float mean) {
      if (!is_one || image + i >= args.images) return;
      const float response = numbers[i * pitch + channel] / (mean + args.eps);
      static_cast<T*>(args.output)[(image + i) * args.channels + channel] = from_f32<T>(response * scale + shift);
    });
    return ptx::cluster_sync();  // others read this block's sums
  }
  const auto to_all = [&](float* own, float value) {
#pragma unroll
    for (int r = 0; r < parts; ++r) {
      if (r < 1 << args.log2_blocks) ptx::store_to(own, r, value);
    }
  };
  multiply<T, images>(args.squeeze, memory, args.squeeze_finish, args.codes.squeeze, floats + place.means, pitch,
                      [&](int i, int row, float value) {
                        const int s = rank * args.squeeze.rows + row;
                        if (s >= args.hidden) return;
                        to_all(floats + i * pitch + place.hidden + s, value);
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
      using Factor = std::conditional_t<of_codes<T>, float, T>;
      static_cast<Factor*>(args.output)[(image + i) * args.channels + c] = from_f32<Factor>(value);
    });
  } else {
    excite([&](int i, int c, float value) { to_all(floats + i * pitch + place.factors + c, value); });
    ptx::cluster_sync();
    for (int e = 0; e < several && group < groups; ++e) {
      const Part part = part_of(e);
#pragma unroll
      for (int i = 0; i < images; ++i) {
        if (image + i >= args.images) break;
        const float4 *const factors = four(i, place.factors + part.channel), low = factors[0], high = factors[1];
        const auto* input = map(static_cast<const T*>(args.input), i, part.channel);
        auto* output = map(static_cast<T*>(args.output), i, part.channel);
        constexpr int ahead = 4;
        for (int pixel = part.first; pixel < part.last; pixel += ahead * groups) {
          Channels<T> all[ahead];
          load(input, pixel, part.last, groups, args.channels, none, all);
#pragma unroll
          for (int a = 0; a < ahead && pixel + a * groups < part.last; ++a) {
            T* const to = output + (pixel + a * groups) * args.channels;
            if constexpr (of_codes<T>) {
              const std::uint32_t* const fours = all[a].values;
              *reinterpret_cast<Codes<pack>*>(to) = {multiplied(args.codes.image, fours[0], low),
                                                     multiplied(args.codes.image, fours[1], high)};
            } else {
              const float factor[pack] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
              float values[pack];
#pragma unroll
              for (int j = 0; j < pack; ++j) values[j] = channel_of<T>(all[a], j) * factor[j];
              write_floats(values, to);
            }
          }
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

int shared_bytes(const Arguments& args, int images, Result result) {
  return args.squeeze.bytes() + args.excite.bytes() + Memory(args, result).count * 4 * images;
}

const void* kernel(DType type, int images, Result result) {
  if (size_of(type) == 1) {
    return result == Result::product ? kernel_of<std::uint8_t, Result::product>(images)
                                     : kernel_of<std::uint8_t, Result::factors>(images);
  }
  return type == DType::f16 ? kernel_of<__half>(images, result) : kernel_of<__nv_bfloat16>(images, result);
}

}  // namespace lamina::cuda::squeeze_excite
