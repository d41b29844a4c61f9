// A fully connected layer for a few rows: a matrix-vector product, limited by reading the weights once.
//
// A block of 4 warps owns `Outputs` outputs (rows of weights) for all input rows; its 128 threads share out the terms
// in packs of 16 bytes, `Ahead` packs of every output on their way at a time, and meet in shared memory (at most
// 512 bytes). Outputs are few (1000 to 4096), so cutting each sum over a block is what keeps enough loads in flight on
// every multiprocessor: 8 loads of each of 32 warps. The first packs of weights are asked for before the kernel waits
// for its predecessor: weights are nobody's result. Inputs, the same for every block, come from L1 and L2; weights are
// read once and do not stay in L1.
// Weights are [out, in], or for one row packed as stream.cuh reads them, so that plans of one and of more rows
// share a copy: eight threads read the 128 bytes that a step of K has of a row.
// For one row 8 blocks find registers on a multiprocessor: all blocks of 4096 outputs run at once. A ring in shared
// memory that each thread fills ahead with cp.async (docs/inside/plans.md) was slower: 26 us for 20 in AlexNet's first
// layer. A thread adds up at most Ahead * 8 terms, then at most 128 such sums: no chain is longer than max_chain.
// Preconditions: rows <= Rows, in <= linear_max_terms. Rows that do not start on 16 bytes go element by element.

#include <algorithm>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/finish.cuh"
#include "lamina/cuda/linear/kernels.h"
#include "lamina/cuda/ptx/copy.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/tensor_core/chain.h"
#include "lamina/cuda/tensor_core/operand_rows.h"

namespace lamina::cuda {
namespace {

using namespace tables;

/// Outputs that a block of linear_few_rows_kernel owns: a block for each where they are few, or multiprocessors would
/// have too little on its way.
constexpr int linear_block_outputs(std::int64_t rows, int out) {
  if (rows == 1) return out < 2048 ? 1 : 4;
  return rows == 2 ? 2 : 4;
}

struct LinearArguments {
  const void* input = nullptr;    // [rows, in] of `storage`
  const void* weight = nullptr;   // [out, in] of `storage`, or
  bool packed = false;            // as pack_linear lays them out: one row only, of whole packs of 16 bytes; or
  const float* scales = nullptr;  // [out]: then as pack_scaled_linear does, and input is f32
  const float* bias = nullptr;    // [out], or null
  void* output = nullptr;         // [rows, out] of `output_type`
  DType storage = DType::f32;
  DType output_type = DType::f32;
  std::int64_t rows = 0;  // at most linear_rows_at_once
  int in = 0;
  int out = 0;
  Finish finish;  // a short one
};

constexpr int warps = 4;
constexpr int threads = 32 * warps;

static_assert(linear_max_terms / threads / 8 <= 128 * max_chain);

/// One pack of weights, which nobody will read again.
template <class T, int N>
__device__ inline Pack<T, N> load_once(const T* p) {
  Pack<T, N> pack;
  if constexpr (sizeof(pack) == 16) {
    *reinterpret_cast<uint4*>(&pack) = ptx::load_once(p);
  } else {
    pack.values[0] = p[0];
  }
  return pack;
}

__device__ inline void store(void* output, DType type, std::int64_t i, float x) {
  switch (type) {
    case DType::f16: static_cast<__half*>(output)[i] = from_f32<__half>(x); break;
    case DType::bf16: static_cast<__nv_bfloat16*>(output)[i] = from_f32<__nv_bfloat16>(x); break;
    default: static_cast<float*>(output)[i] = x;
  }
}

/// The elements in f32. Two bf16 are the halves of a word, and one is an f32 whose lower half is missing: said so, it
/// takes one instruction each, and no more registers than the words.
template <class T, int N>
__device__ inline void widen(const Pack<T, N>& pack, float (&x)[N]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
    const auto* words = reinterpret_cast<const unsigned*>(&pack);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      x[2 * i] = __uint_as_float(words[i] << 16);
      x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = to_f32(pack.values[i]);
  }
}

/// N terms of one output of one row; the weights times `scale`, if they are scaled.
template <bool scaled, class T, int N>
__device__ inline float dot(const Pack<T, N>& w, const float (&x)[N], float scale, float sum) {
  float v[N];
  widen(w, v);
#pragma unroll
  for (int i = 0; i < N; ++i) sum = fmaf(scaled ? v[i] * scale : v[i], x[i], sum);
  return sum;
}

/// N elements of the input from `p` on, in loads of 16 bytes.
template <class In, int N>
__device__ inline void load_input(const In* p, float (&x)[N]) {
  constexpr int size = N < Pack<In>::size ? N : Pack<In>::size;
#pragma unroll
  for (int i = 0; i < N; i += size) {
    float part[size];
    Pack<In, size> pack;
    if constexpr (sizeof(pack) == 16) {  // said so: ptxas would load element by element
      *reinterpret_cast<uint4*>(&pack) = *reinterpret_cast<const uint4*>(p + i);
    } else {
      pack = *reinterpret_cast<const Pack<In, size>*>(p + i);
    }
    widen(pack, part);
#pragma unroll
    for (int j = 0; j < size; ++j) x[i + j] = part[j];
  }
}

/// Where a thread's packs of an output's weights lie: `first`, and every `apart` bytes the one `threads` packs on.
template <class T, int N, bool packed>
struct Places {
  static constexpr int packs = step_bytes / 16;  // of a step, in packed weights; `threads` is a multiple
  static constexpr int block = 64 * step_bytes;
  std::int64_t step;  // bytes from one step of K to the next: an even number of blocks of 64 outputs

  __device__ explicit Places(const LinearArguments& a) : step(std::int64_t{(a.out + 127) / 128} * 2 * block) {}

  __device__ const unsigned char* first(const LinearArguments& a, int output, int thread) const {
    const auto* weight = static_cast<const unsigned char*>(a.weight);
    if constexpr (packed) {
      return weight + output / 64 * block + thread / packs * step + swizzled(output % 64, thread % packs * 16);
    } else {
      return weight + (std::int64_t{output} * a.in + thread * N) * static_cast<std::int64_t>(sizeof(T));
    }
  }
  __device__ std::int64_t apart() const {
    return packed ? threads / packs * step : threads * N * static_cast<std::int64_t>(sizeof(T));
  }
};

/// T: of the weights, In: of the input. Where they differ, the weights are scaled.
template <class T, class In, int N, int Rows, int Outputs, int Ahead, int Resident, bool packed = false>
__global__ void __launch_bounds__(threads, Resident) linear_few_rows_kernel(const __grid_constant__ LinearArguments a) {
  __shared__ float partial[warps][Outputs * Rows];
  let_successor_start();
  const auto thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * Outputs;
  const int packs = a.in / N;
  // Outputs beyond the last repeat it: no branch, and their results are dropped. Rows likewise, below.
  const Places<T, N, packed> places(a);
  const std::int64_t apart = places.apart();
  const unsigned char* weight[Outputs];
#pragma unroll
  for (int o = 0; o < Outputs; ++o) weight[o] = places.first(a, min(first + o, a.out - 1), thread);
  constexpr bool scaled = !std::is_same_v<T, In>;
  float scale[Outputs];
#pragma unroll
  for (int o = 0; o < Outputs; ++o) scale[o] = scaled ? a.scales[min(first + o, a.out - 1)] : 1.0f;
  const int output = first + thread / Rows, row = thread % Rows;  // that this thread will finish
  const bool mine = thread < Outputs * Rows && output < a.out && row < a.rows;
  const float bias = mine && a.bias != nullptr ? a.bias[output] : 0.0f;
  float total[Outputs][Rows] = {};
  std::int64_t offset = 0;
  for (int begin = thread; begin - thread < packs; begin += threads * Ahead, offset += Ahead * apart) {
    Pack<T, N> w[Ahead][Outputs];
#pragma unroll
    for (int step = 0; step < Ahead; ++step) {
      const int i = begin + step * threads;
#pragma unroll
      for (int o = 0; o < Outputs; ++o) {
        if (i < packs) w[step][o] = load_once<T, N>(reinterpret_cast<const T*>(weight[o] + offset + step * apart));
      }
    }
    if (begin == thread) wait_for_predecessor();
    float sum[Outputs][Rows] = {};
#pragma unroll
    for (int step = 0; step < Ahead; ++step) {
      const int i = begin + step * threads;
      if (i >= packs) continue;
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        const std::int64_t row = r < a.rows ? r : a.rows - 1;
        float x[N];
        load_input(static_cast<const In*>(a.input) + row * a.in + std::int64_t{i} * N, x);
#pragma unroll
        for (int o = 0; o < Outputs; ++o) sum[o][r] = dot<scaled>(w[step][o], x, scale[o], sum[o][r]);
      }
    }
#pragma unroll
    for (int o = 0; o < Outputs; ++o) {
#pragma unroll
      for (int r = 0; r < Rows; ++r) total[o][r] += sum[o][r];
    }
  }
#pragma unroll
  for (int o = 0; o < Outputs; ++o) {
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        total[o][r] += __shfl_xor_sync(0xffffffffu, total[o][r], distance);
      }
      if (thread % 32 == 0) partial[thread / 32][o * Rows + r] = total[o][r];
    }
  }
  __syncthreads();
  if (!mine) return;
  float sum = bias;
#pragma unroll
  for (const auto& of_warp : partial) sum += of_warp[thread];
  float result[1] = {sum};
  const float nothing[1] = {};
  apply_inlined<float>(a.finish, result, nothing);
  store(a.output, a.output_type, std::int64_t{row} * a.out + output, result[0]);
}

/// `Resident`: blocks that must find registers on a multiprocessor.
template <class T, int Rows, int Outputs, int Ahead, int Resident = 1>
void launch(const LinearArguments& a, Stream stream) {
  constexpr int widest = Pack<T>::size;
  const dim3 grid(static_cast<unsigned>((a.out + Outputs - 1) / Outputs));
  if constexpr (Rows == 1 && std::is_same_v<T, float>) {
    if (a.scales != nullptr) {
      launch_kernel(linear_few_rows_kernel<__half, float, Pack<__half>::size, 1, Outputs, Ahead, Resident, true>,
                    {grid, dim3(threads)}, stream, a);
      return;
    }
  }
  if (Rows == 1 && a.packed) {
    launch_kernel(linear_few_rows_kernel<T, T, widest, Rows, Outputs, Ahead, Resident, Rows == 1>,
                  {grid, dim3(threads)}, stream, a);
  } else if (a.in % widest == 0 && aligned_to_16(a.weight) && aligned_to_16(a.input)) {
    launch_kernel(linear_few_rows_kernel<T, T, widest, Rows, Outputs, Ahead, Resident>, {grid, dim3(threads)}, stream,
                  a);
  } else {
    launch_kernel(linear_few_rows_kernel<T, T, 1, Rows, Outputs, Ahead, Resident>, {grid, dim3(threads)}, stream, a);
  }
}

/// Streams the weights once.
void linear_few_rows(const LinearArguments& a, Stream stream) {
  static_assert(linear_rows_at_once == 8);
  static_assert(linear_block_outputs(2, 1) == 2 && linear_block_outputs(4, 1) == 4 && linear_block_outputs(8, 1) == 4);
  with_element_type(a.storage, [&]<class T>(T*) {
    if (a.rows == 1 && linear_block_outputs(1, a.out) == 1) return launch<T, 1, 1, 8, 8>(a, stream);
    if (a.rows == 1) return launch<T, 1, 4, 2, 8>(a, stream);
    if (a.rows == 2) return launch<T, 2, 2, 4>(a, stream);
    if (a.rows <= 4) return launch<T, 4, 4, 2>(a, stream);
    launch<T, 8, 4, 2>(a, stream);
  });
}

}  // namespace

/// Few rows: the weights stream once for every 8 of them. How a sum is cut depends on how many there are at once.
std::unique_ptr<Operator> prepare_linear_rows(const LinearProblem& problem, const Preparation& p) {
  const std::int64_t at_once = p.batch_invariant ? 1 : linear_rows_at_once;  // of a launch
  Constants constants(index(p));
  LinearArguments a = {.storage = storage_type(p.precision),
                       .output_type = p.output().format.dtype,
                       .rows = problem.rows,
                       .in = problem.in,
                       .out = problem.out,
                       .finish = finish_of(problem.epilogue, p.output().format.dtype)};
  a.packed = problem.rows == 1 && linear_stream_takes(problem, p);  // to share the copy with more rows
  // One row is all memory's time, and f16 keeps TF32's 11 bits in half the bytes.
  if (const auto scaled = a.packed && p.precision == Precision::tf32 ? pack_scaled_linear(problem) : std::nullopt) {
    a.weight = constants.add(scaled->weights);
    a.scales = constants.add(scaled->scales);
  } else {
    a.weight = constants.add(a.packed ? pack_linear(problem, p.precision) : problem.weight.to(a.storage));
  }
  if (problem.bias.defined()) a.bias = static_cast<const float*>(constants.add(problem.bias));
  const int outputs = linear_block_outputs(std::min(a.rows, at_once), a.out);
  return make_on_device(
      index(p),
      detail::concat("rows: weights streamed in ", name(a.scales != nullptr ? DType::f16 : a.storage),
                     a.scales != nullptr ? ", scaled" : "", ", a block for ", outputs,
                     outputs == 1 ? " output" : " outputs"),
      [a, at_once, constants](Inputs inputs, Outputs outputs, const Execution& execution) {
        const std::size_t input_row = static_cast<std::size_t>(a.in) * size_of(a.storage),
                          output_row = static_cast<std::size_t>(a.out) * size_of(a.output_type);
        for (std::int64_t row = 0; row < a.rows; row += at_once) {
          LinearArguments part = a;
          part.input = static_cast<const std::byte*>(inputs[0].raw()) + static_cast<std::size_t>(row) * input_row;
          part.output = static_cast<std::byte*>(outputs[0].raw()) + static_cast<std::size_t>(row) * output_row;
          part.rows = std::min(at_once, a.rows - row);
          linear_few_rows(part, execution.stream);
        }
      });
}

}  // namespace lamina::cuda
