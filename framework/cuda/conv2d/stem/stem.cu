// A first layer of 3x3 windows with stride 2 over up to four channels, as mobile networks begin: from planes of f32 or
// 16 bits to channels-last 16 bits.
//
// A block owns a rectangle of outputs of an image, rows x columns, and 8 n filters. It brings the pixels that its
// windows see into shared memory, rounded, 8 bytes each: channels that are not there are zeros, as the padding is.
// There a row of a window is three pixels from an address of a multiple of 16 bytes on, so that ldmatrix finds rows of
// 16 outputs without any gathering: a step of 16 of mma.sync is one row of the window and a fourth pixel, which is made
// zero in the registers, for it may be Inf. All weights stay in registers. A warp multiplies 16 neighbouring outputs of
// a row at a time. Shared memory: in_rows * in_columns * 8 bytes. Preconditions: Arguments filled in by stem.cpp;
// compute capability 8.0.

#include "lamina/cuda/conv2d/stem/arguments.h"
#include "lamina/cuda/conv2d/stem/place.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/ptx/mma.cuh"
#include "lamina/cuda/ptx/shared.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::stem {
namespace {

/// Neighbouring threads take neighbouring pixels of a plane, each several at a time.
template <class S, class T>
__device__ __forceinline__ void load_pixels(const Arguments& args, const Place& place, unsigned char* to) {
  constexpr int at_a_time = 4;
  const int top = place.row * stride - args.padding_height, left = place.column * stride - args.padding_width;
  const std::int64_t plane = static_cast<std::int64_t>(args.height) * args.width;
  const auto* input = static_cast<const S*>(args.input) + place.image * args.channels * plane;
  const int count = args.in_rows * args.in_columns;
  for (int first = static_cast<int>(threadIdx.x); first < count; first += threads * at_a_time) {
    float value[at_a_time][max_channels];
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      const auto at = static_cast<std::uint32_t>(min(first + i * threads, count - 1));
      const auto y = args.by_in_columns.quotient(at);
      const int row = top + static_cast<int>(y),
                column = left + static_cast<int>(at) - static_cast<int>(y) * args.in_columns;
      const bool inside = row >= 0 && row < args.height && column >= 0 && column < args.width;
      const S* pixel = input + (inside ? static_cast<std::int64_t>(row) * args.width + column : 0);
#pragma unroll
      for (int c = 0; c < max_channels; ++c)
        value[i][c] = inside && c < args.channels ? to_f32(pixel[c * plane]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < at_a_time; ++i) {
      const int at = first + i * threads;
      if (at >= count) continue;
      Pack<T, max_channels> pixel;
#pragma unroll
      for (int c = 0; c < max_channels; ++c) pixel.values[c] = from_f32<T>(value[i][c]);
      *reinterpret_cast<Pack<T, max_channels>*>(to + at * pixel_bytes) = pixel;
    }
  }
}

/// Biases, finishes and stores a lane's 2 n neighbouring filters of one pixel.
template <class T, int n>
__device__ __forceinline__ void store(const Finish& finish, const float (&bias)[2 * n], float (&sum)[2 * n], T* to) {
  constexpr int count = n % 4 == 0 ? 8 : n % 2 == 0 ? 4 : 2;
#pragma unroll
  for (int j = 0; j < 2 * n; ++j) sum[j] += bias[j];
  const float nothing[2 * n] = {};
  apply_inlined<T>(finish, sum, nothing);
#pragma unroll
  for (int j = 0; j < 2 * n; j += count) {
    Pack<T, count> result;
#pragma unroll
    for (int e = 0; e < count; ++e) result.values[e] = from_f32<T>(sum[j + e]);
    *reinterpret_cast<Pack<T, count>*>(to + j) = result;
  }
}

template <class S, class T, int n>
__global__ void __launch_bounds__(threads, 2) stem_kernel(const __grid_constant__ Arguments args) {
#if __CUDA_ARCH__ >= 800
  extern __shared__ __align__(16) unsigned char memory[];
  let_successor_start();
  const Place place(args);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  std::uint32_t w[kernel_side][n][2];
  const auto* weights = reinterpret_cast<const uint2*>(args.weights) + place.slice * kernel_side * n * 32 + lane;
#pragma unroll
  for (int i = 0; i < kernel_side * n; ++i) {
    const uint2 pair = weights[i * 32];
    w[i / n][i % n][0] = pair.x, w[i / n][i % n][1] = pair.y;
  }
  const int filter = place.slice * 8 * n + lane % 4 * 2 * n;
  float bias[2 * n];
#pragma unroll
  for (int j = 0; j < 2 * n; ++j) bias[j] = args.bias[filter + j];
  wait_for_predecessor();
  load_pixels<S, T>(args, place, memory);
  __syncthreads();

  const std::uint32_t pixels = ptx::shared_address(memory);
  const int fragments = args.columns / 16;
  const bool fourth = lane % 4 >= 2;  // this lane's upper half of a step
  for (int item = warp; item < args.rows * fragments; item += warps) {
    const int down = static_cast<int>(args.by_fragments.quotient(static_cast<std::uint32_t>(item)));
    const int across = (item - down * fragments) * 16, row = place.row + down, column = place.column + across;
    if (row >= args.out_height || column >= args.out_width) continue;  // of the whole warp
    std::uint32_t at =
        pixels + static_cast<std::uint32_t>((down * stride * args.in_columns + across * stride) * pixel_bytes +
                                            (lane % 16 + lane / 16) * 16);
    float sum[n][4] = {};
#pragma unroll
    for (int kh = 0; kh < kernel_side; ++kh) {
      std::uint32_t a[4];
      ptx::load_matrices(a, at);
      if (fourth) a[2] = 0, a[3] = 0;
      at += static_cast<std::uint32_t>(args.in_columns * pixel_bytes);
#pragma unroll
      for (int j = 0; j < n; ++j) ptx::mma<T>(sum[j], a, w[kh][j], sum[j]);
    }
    T* const to = static_cast<T*>(args.output) +
                  ((place.image * args.out_height + row) * args.out_width + column) * args.filters + filter;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = lane / 4 + half * 8;
      float own[2 * n];
#pragma unroll
      for (int j = 0; j < 2 * n; ++j) own[j] = sum[j / 2][half * 2 + j % 2];
      if (column + pixel < args.out_width) {
        store<T, n>(args.finish, bias, own, to + static_cast<std::int64_t>(pixel) * args.filters);
      }
    }
  }
#endif
}

template <class S, class T>
void add(std::vector<Instance>& all, DType input, DType output) {
  const auto address = [](auto* function) { return reinterpret_cast<const void*>(function); };
  all.push_back({2, input, output, address(&stem_kernel<S, T, 2>)});
  all.push_back({3, input, output, address(&stem_kernel<S, T, 3>)});
  all.push_back({4, input, output, address(&stem_kernel<S, T, 4>)});
}

}  // namespace

std::vector<Instance> instances() {
  std::vector<Instance> all;
  add<float, __half>(all, DType::f32, DType::f16), add<__half, __half>(all, DType::f16, DType::f16);
  add<float, __nv_bfloat16>(all, DType::f32, DType::bf16);
  add<__nv_bfloat16, __nv_bfloat16>(all, DType::bf16, DType::bf16);
  return all;
}

}  // namespace lamina::cuda::stem
