// Running sums or products along the middle of [outer, extent, inner].
//
// Many short lines beside each other: a thread owns one and walks along it, neighbours in a warp along inner. Else a
// block owns a line, 1024 elements at a time: a thread 4 neighbours, a warp meets by shuffles, the 8 warps in shared
// memory (64 bytes), and what is carried on stays in a register of every thread.
//
// Preconditions: none; the output may be the input.

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::LineExtents;

constexpr int threads = 256, warps = threads / 32, items = 4, tile = threads * items;

template <class A, class T>
__device__ inline A widen(T x) {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>) {
    return static_cast<A>(to_f32(x));
  } else {
    return static_cast<A>(x);
  }
}

template <class T, class A>
__device__ inline T narrow(A x) {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>) {
    return from_f32<T>(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

struct Way {
  bool exclusive, reverse, product;
};

template <class A>
__device__ inline A combine(A a, A b, bool product) {
  return product ? a * b : a + b;
}

template <class T, class A>
__global__ void __launch_bounds__(threads)
    cumulative_columns_kernel(const T* input, T* output, const LineExtents e, const Way way) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t line = std::int64_t{blockIdx.x} * threads + threadIdx.x; line < e.outer * e.inner; line += step) {
    const std::int64_t first = line / e.inner * e.extent * e.inner + line % e.inner;
    A running = static_cast<A>(way.product ? 1 : 0);
    for (std::int64_t i = 0; i < e.extent; ++i) {
      const std::int64_t at = first + (way.reverse ? e.extent - 1 - i : i) * e.inner;
      const A before = running;
      running = combine(running, widen<A>(input[at]), way.product);
      output[at] = narrow<T>(way.exclusive ? before : running);
    }
  }
}

template <class T, class A>
__global__ void __launch_bounds__(threads)
    cumulative_rows_kernel(const T* input, T* output, const LineExtents e, const Way way) {
  __shared__ A of_warps[warps];
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const A neutral = static_cast<A>(way.product ? 1 : 0);
  for (std::int64_t line = blockIdx.x; line < e.outer * e.inner; line += gridDim.x) {
    const std::int64_t first = line / e.inner * e.extent * e.inner + line % e.inner;
    A carried = neutral;
    for (std::int64_t begin = 0; begin < e.extent; begin += tile) {
      const std::int64_t own = begin + threadIdx.x * items;
      const auto place = [&](int j) { return first + (way.reverse ? e.extent - 1 - own - j : own + j) * e.inner; };
      A values[items], sum = neutral;
#pragma unroll
      for (int j = 0; j < items; ++j) {
        values[j] = own + j < e.extent ? widen<A>(input[place(j)]) : neutral;
        sum = combine(sum, values[j], way.product);
      }
      A up_to = sum;  // of this thread's items and those of the lanes before it
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const A other = __shfl_up_sync(0xffffffffu, up_to, static_cast<unsigned>(distance));
        if (lane >= distance) up_to = combine(other, up_to, way.product);
      }
      if (lane == 31) of_warps[warp] = up_to;
      A before = __shfl_up_sync(0xffffffffu, up_to, 1);
      if (lane == 0) before = neutral;
      __syncthreads();
      A warps_before = carried;
#pragma unroll
      for (int w = 0; w < warps; ++w) {
        if (w == warp) before = combine(warps_before, before, way.product);
        warps_before = combine(warps_before, of_warps[w], way.product);
      }
      carried = warps_before;
      __syncthreads();  // before anybody writes the next sums
#pragma unroll
      for (int j = 0; j < items; ++j) {
        const A after = combine(before, values[j], way.product);
        if (own + j < e.extent) output[place(j)] = narrow<T>(way.exclusive ? before : after);
        before = after;
      }
    }
  }
}

template <class T, class A>
void launch(const Way& way, const LineExtents& e, const Tensor& input, Tensor& output, Stream stream) {
  const std::int64_t lines = e.outer * e.inner;
  const auto start = [&](auto kernel, const Launch& how) {
    launch_kernel(kernel, how, stream, elements<T>(input), elements<T>(output), e, way);
  };
  if ((e.inner >= 32 && lines >= 4096) || e.extent <= 8) {
    start(cumulative_columns_kernel<T, A>, threads_for(lines, threads));
  } else {
    start(cumulative_rows_kernel<T, A>, {dim3(grid_for(lines, 1)), dim3(threads)});
  }
}

}  // namespace

bool takes_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  return detail::is_cumulative(problem, p) &&
         (is_activation(dtype) || dtype == DType::f64 || dtype == DType::i32 || dtype == DType::i64);
}

std::unique_ptr<Operator> prepare_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  const Way way = {problem.exclusive, problem.reverse, problem.product};
  return make_on_device(index(p), "scan",
                        [way, e = detail::line_extents(p.input().shape, problem.dim)](Inputs inputs, Outputs outputs,
                                                                                      const Execution& execution) {
                          const auto run = [&]<class T, class A>(T*, A) {
                            launch<T, A>(way, e, inputs[0], outputs[0], execution.stream);
                          };
                          switch (inputs[0].dtype()) {
                            case DType::f64: return run(static_cast<double*>(nullptr), double{});
                            case DType::i32: return run(static_cast<std::int32_t*>(nullptr), std::uint32_t{});
                            case DType::i64: return run(static_cast<long long*>(nullptr), 0ull);
                            default:
                              with_element_type(inputs[0].dtype(), [&](auto* element) { run(element, double{}); });
                          }
                        });
}

}  // namespace lamina::cuda
