// ReLU over a flat array: y = max(x, 0), NaN kept.
//
// A block owns 256 vectors of 16 bytes, a thread one of them (4 floats or 8 halves); thread 0..7 of block 0 also take
// the few elements after the last whole vector. Arrays that do not start on 16 bytes go element by element.
// Shared memory: none. Preconditions: none; input and output may be the same array, not otherwise overlap.
// The limit is memory: each element is read once and written once, in the widest accesses there are.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/cuda/relu.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/tensor/device.h"

namespace lamina::cuda {
namespace {

constexpr int threads = 256;

__device__ inline float positive_part(float x) { return x < 0.0f ? 0.0f : x; }

/// On the bits of a 16-bit float: negative and not NaN becomes zero. `infinity` tells f16 from bf16.
template <std::uint16_t infinity>
struct Bits16 {
  std::uint16_t bits;
};

template <std::uint16_t infinity>
__device__ inline Bits16<infinity> positive_part(Bits16<infinity> x) {
  const bool negative = (x.bits & 0x8000u) != 0 && (x.bits & 0x7fffu) <= infinity;
  return {static_cast<std::uint16_t>(negative ? 0 : x.bits)};
}

template <class T>
struct alignas(16) Vector {
  static constexpr int size = 16 / sizeof(T);
  T values[size];
};

template <class T>
__global__ void __launch_bounds__(threads) relu_kernel(const T* input,  // [count]
                                                       T* output,       // [count]
                                                       std::int64_t vectors, std::int64_t count) {
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < vectors; i += step) {
    Vector<T> v = reinterpret_cast<const Vector<T>*>(input)[i];
#pragma unroll
    for (T& value : v.values) value = positive_part(value);
    reinterpret_cast<Vector<T>*>(output)[i] = v;
  }
  for (std::int64_t i = vectors * Vector<T>::size + first; i < count; i += step) output[i] = positive_part(input[i]);
}

template <class T>
void launch(const void* input, void* output, std::int64_t count, Stream stream) {
  const bool aligned = (reinterpret_cast<std::uintptr_t>(input) | reinterpret_cast<std::uintptr_t>(output)) % 16 == 0;
  const std::int64_t vectors = aligned ? count / Vector<T>::size : 0;
  const std::int64_t work = std::max(vectors, count - vectors * Vector<T>::size);
  const std::int64_t blocks = std::min<std::int64_t>((work + threads - 1) / threads, std::numeric_limits<int>::max());
  relu_kernel<T><<<static_cast<unsigned>(blocks), threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const T*>(input), static_cast<T*>(output), vectors, count);
  check_launch();
}

}  // namespace

void relu(int device, DType dtype, const void* input, void* output, std::int64_t count, Stream stream) {
  if (count == 0) return;
  const DeviceGuard guard(device);
  switch (dtype) {
    case DType::f32: return launch<float>(input, output, count, stream);
    case DType::f16: return launch<Bits16<0x7c00>>(input, output, count, stream);
    case DType::bf16: return launch<Bits16<0x7f80>>(input, output, count, stream);
    default: detail::fail("relu: expected f32, f16 or bf16 on ", Device::cuda(device), ", got ", dtype);
  }
}

}  // namespace lamina::cuda
