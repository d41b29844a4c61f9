// Reductions. A block is a rectangle of threads: x goes with the outputs or, where neighbours in memory are summed up,
// with the elements of one; the threads that share an output meet in shared memory (at most 16 KB), in the same order
// every time.
//
//   rows     1 to 32 neighbours of a warp own an output, or a whole block where each has many elements
//   columns  256 to 32 outputs, neighbours in memory, to a block; of its 1 to 32 rows each takes every so many-th
//   element
//
// What is large, and no place is asked of, is a Map.
//
// Sums of floats are Kahan's: what an addition rounds away is carried to the next. Preconditions: none.

#include "lamina/base/math.h"
#include "lamina/cuda/array/any_element.cuh"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/array/reduce_states.cuh"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::ReducePlan;

constexpr int warp = 32;
constexpr int max_threads = 1024;

struct Walks {
  StridedAxes kept, reduced;
  std::int64_t outputs, extent;
  const void* input;
  void* output;
  DType from, to;
};

/// `along_x`: x counts the threads that share an output, y the outputs of a block; otherwise the other way round. Those
/// that share one are a power of two.
template <class T, class State>
__global__ void __launch_bounds__(max_threads)
    reduce_kernel(const __grid_constant__ Walks w, const __grid_constant__ Settings<T> settings, bool along_x) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const states = reinterpret_cast<State*>(memory);  // [elements' threads][outputs' threads]
  let_successor_start();
  wait_for_predecessor();
  const int mine = along_x ? static_cast<int>(threadIdx.x) : static_cast<int>(threadIdx.y);
  const int sharers = along_x ? static_cast<int>(blockDim.x) : static_cast<int>(blockDim.y);
  const int column = along_x ? static_cast<int>(threadIdx.y) : static_cast<int>(threadIdx.x);
  const int columns = along_x ? static_cast<int>(blockDim.y) : static_cast<int>(blockDim.x);
  const std::int64_t groups = (w.outputs + columns - 1) / columns;
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const std::int64_t output = group * columns + column;
    State state(settings);
    if (output < w.outputs) {
      const std::int64_t base = w.kept.offset(output);
      for (std::int64_t i = mine; i < w.extent; i += sharers) {
        T x[1];
        load<1>(w.from, w.input, base + w.reduced.offset(i), x);
        state.add(settings, x[0], i);
      }
    }
    states[mine * columns + column] = state;
    __syncthreads();
    for (int distance = sharers / 2; distance > 0; distance /= 2) {
      if (mine < distance) {
        states[mine * columns + column].join(settings, states[(mine + distance) * columns + column]);
      }
      __syncthreads();
    }
    if (mine == 0 && output < w.outputs) {
      const auto result = states[column].result(settings, w.extent);
      const std::remove_const_t<decltype(result)> results[1] = {result};
      store<1>(w.to, results, w.output, output);
    }
    __syncthreads();  // before the next group's states are written
  }
}

template <class T, class State>
void launch(const ReduceProblem& problem, const ReducePlan& plan, const Tensor& input, Tensor& output, Stream stream) {
  const Walks walks = {.kept = StridedAxes(plan.kept, 0),
                       .reduced = StridedAxes(plan.reduced, 0),
                       .outputs = plan.outputs,
                       .extent = plan.extent,
                       .input = input.raw(),
                       .output = output.raw(),
                       .from = input.dtype(),
                       .to = output.dtype()};
  const Settings<T> settings = {problem.kind, problem.last, identity_of<T>(problem.kind, input.dtype())};
  const bool columns = plan.kept.back().strides[0] == 1 && plan.reduced.back().strides[0] != 1 && plan.extent > 1;
  // Few elements need few threads: a fourth of them, and no more than there are.
  unsigned sharers = 1;
  while (sharers < (columns ? 8u : 1u * warp) && sharers * 4 <= static_cast<std::uint64_t>(plan.extent)) sharers *= 2;
  dim3 block = columns ? dim3(256 / sharers, sharers) : dim3(sharers, 256 / sharers);
  if (columns && plan.extent >= 256) block = dim3(warp, warp);
  if (!columns && plan.extent > 512) block = dim3(plan.extent > 8192 ? max_threads : 256, 1);
  const std::int64_t each = columns ? block.x : block.y;  // outputs of a block
  launch_kernel(reduce_kernel<T, State>,
                {.grid = dim3(grid_for(detail::ceil_div(plan.outputs, each), 1)),
                 .block = block,
                 .shared_bytes = sizeof(State) * block.x * block.y},
                stream, walks, settings, !columns);
}

template <class T>
void start(const ReduceProblem& problem, const ReducePlan& plan, const Tensor& input, Tensor& output, Stream stream) {
  if (detail::finds_place(problem.kind)) return launch<T, Place<T>>(problem, plan, input, output, stream);
  if constexpr (std::is_floating_point_v<T>) {
    if (problem.kind == Reduction::log_sum_exp) return launch<T, LogSumExp<T>>(problem, plan, input, output, stream);
  }
  launch<T, Fold<T>>(problem, plan, input, output, stream);
}

}  // namespace

std::unique_ptr<Operator> prepare_reduce(const ReduceProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  const DType compute = is_activation(dtype) ? DType::f32 : detail::reduction_type(problem.kind, dtype);
  return make_on_device(
      index(p), "threads that meet",
      [=, plan = detail::reduce_plan(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        const auto run = [&]<class T>(T) { start<T>(problem, plan, inputs[0], outputs[0], execution.stream); };
        switch (compute) {
          case DType::f64: return run(double{});
          case DType::i64: return run(std::int64_t{});
          case DType::u64: return run(std::uint64_t{});
          default: return run(float{});
        }
      });
}

}  // namespace lamina::cuda
