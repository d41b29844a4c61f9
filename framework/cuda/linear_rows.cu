// A fully connected layer for a few rows: a matrix-vector product, limited by reading the weights once.
//
// A warp owns one output (a row of weights) for all input rows; a lane owns every 32nd float4 of it, four loads of
// weights in flight. A block is 4 warps: outputs are few (1000 to 4096), and small blocks spread them over all
// multiprocessors. The inputs, the same for every warp, come from L1 and L2. Shared memory: none.
// Every lane's chain of additions is in / 32 terms over 4 partial sums, cut every 32 vectors, as
// conv2d_device.cuh asks for. Preconditions: rows <= Rows. Rows of weights that do not start on 16 bytes go by floats.

#include <cstdint>

#include "lamina/cuda/check.h"
#include "lamina/cuda/conv2d_device.cuh"
#include "lamina/cuda/linear_kernels.h"

namespace lamina::cuda {
namespace {

constexpr int warps = 4;
constexpr int threads = 32 * warps;
constexpr int vectors_per_piece = longest_chain / 4;

__device__ inline float4 load(const float4* p) { return __ldg(p); }

__device__ inline float dot(float4 a, float4 b, float sum) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, sum))));
}

__device__ inline float dot(float a, float b, float sum) { return fmaf(a, b, sum); }

__device__ inline float load(const float* p) { return __ldg(p); }

/// T is float4, or float where rows are not aligned.
template <int Rows, class T>
__global__ void __launch_bounds__(threads) linear_few_rows_kernel(LinearArguments a) {
  constexpr int width = sizeof(T) / sizeof(float);
  const int output = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (output >= a.out) return;
  const int count = a.in / width;
  const T* weight = reinterpret_cast<const T*>(a.weight + std::int64_t{output} * a.in);
  float total[Rows] = {};
  for (int piece = lane; piece < count; piece += 32 * vectors_per_piece) {
    const int end = min(count, piece + 32 * vectors_per_piece);
    float sum[Rows] = {};
#pragma unroll 4
    for (int i = piece; i < end; i += 32) {
      const T w = load(weight + i);
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        // Rows beyond the last repeat it: no branch, and their results are dropped.
        const std::int64_t row = r < a.rows ? r : a.rows - 1;
        sum[r] = dot(w, load(reinterpret_cast<const T*>(a.input + row * a.in) + i), sum[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) total[r] += sum[r];
  }
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) {
      total[r] += __shfl_xor_sync(0xffffffffu, total[r], distance);
    }
    if (lane == 0 && r < a.rows) {
      const float bias = a.bias != nullptr ? a.bias[output] : 0.0f;
      a.output[std::int64_t{r} * a.out + output] = activate(total[r] + bias, a.relu);
    }
  }
}

template <int Rows>
void launch(const LinearArguments& a, Stream stream) {
  const auto blocks = static_cast<unsigned>((a.out + warps - 1) / warps);
  const bool aligned = a.in % 4 == 0 && reinterpret_cast<std::uintptr_t>(a.weight) % 16 == 0 &&
                       reinterpret_cast<std::uintptr_t>(a.input) % 16 == 0;
  if (aligned) {
    linear_few_rows_kernel<Rows, float4><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  } else {
    linear_few_rows_kernel<Rows, float><<<blocks, threads, 0, static_cast<cudaStream_t>(stream)>>>(a);
  }
  check_launch();
}

__global__ void __launch_bounds__(256) linear_epilogue_kernel(LinearArguments a) {
  const std::int64_t count = a.rows * a.out;
  const std::int64_t step = std::int64_t{gridDim.x} * 256;
  for (std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x; i < count; i += step) {
    const float bias = a.bias != nullptr ? a.bias[i % a.out] : 0.0f;
    a.output[i] = activate(a.output[i] + bias, a.relu);
  }
}

}  // namespace

void linear_few_rows(const LinearArguments& a, Stream stream) {
  static_assert(linear_rows_at_once == 8);
  if (a.rows == 1) return launch<1>(a, stream);
  if (a.rows == 2) return launch<2>(a, stream);
  if (a.rows <= 4) return launch<4>(a, stream);
  launch<8>(a, stream);
}

void linear_epilogue(const LinearArguments& a, Stream stream) {
  const std::int64_t blocks = (a.rows * a.out + 255) / 256;
  linear_epilogue_kernel<<<static_cast<unsigned>(blocks < 65536 ? blocks : 65536), 256, 0,
                           static_cast<cudaStream_t>(stream)>>>(a);
  check_launch();
}

}  // namespace lamina::cuda
