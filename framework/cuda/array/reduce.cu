// Reductions. A block is a rectangle of threads: x goes with the outputs or, where neighbours in memory are summed up,
// with the elements of one; the threads that share an output meet in shared memory (at most 16 KB), in the same order
// every time.
//
//   rows     1 to 32 neighbours of a warp own an output, or a whole block where each has many elements
//   columns  256 to 32 outputs, neighbours in memory, to a block; of its 1 to 32 rows each takes every so many-th
//   element
//
// Rows that lie one after the other, in whole packs of 16 bytes: 1 to 32 neighbours of a warp own a row and load its
// packs in turns; they meet by shuffles, in the same order every time too. Sums over the pixels of images channels last
// are columns.cuh's.
//
// Sums of floats are Kahan's: what an addition rounds away is carried to the next. Preconditions: none.

#include "lamina/base/math.h"
#include "lamina/cuda/array/any_element.cuh"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/array/reduce_states.cuh"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/columns.cuh"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::ReducePlan;

constexpr int warp = 32;
constexpr int max_threads = 1024;
constexpr int pack_threads = 256, max_packs = 2048;  // of a row
constexpr std::int64_t max_outputs = 1 << 30;        // of columns, whose blocks are counted in int

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

/// Rows [rows, packs] one after the other; `sharers`, a power of two up to 32, own one.
template <class E>
__global__ void __launch_bounds__(pack_threads)
    reduce_packs_kernel(const Pack<E>* __restrict__ input, void* output, DType to, std::int64_t rows, int packs,
                        const __grid_constant__ Settings<float> settings, int sharers) {
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % sharers, together = pack_threads / sharers;
  for (std::int64_t first = std::int64_t{blockIdx.x} * together; first < rows;
       first += std::int64_t{gridDim.x} * together) {
    const std::int64_t row = first + static_cast<int>(threadIdx.x) / sharers;
    Fold<float> state(settings);
    for (int p = lane; p < packs && row < rows; p += sharers) {
      const Pack<E> pack = input[row * packs + p];
#pragma unroll
      for (int j = 0; j < Pack<E>::size; ++j) state.add(settings, to_f32(pack.values[j]), 0);
    }
    for (int distance = sharers / 2; distance > 0; distance /= 2) {
      const float value = __shfl_down_sync(0xffffffffu, state.value, static_cast<unsigned>(distance)),
                  lost = __shfl_down_sync(0xffffffffu, state.lost, static_cast<unsigned>(distance));
      if (lane < distance) state.join(settings, {value, lost});
    }
    const float result[1] = {state.result(settings, std::int64_t{packs} * Pack<E>::size)};
    if (lane == 0 && row < rows) store<1>(to, result, output, row);
  }
}

/// False, and nothing is done, where rows are not of whole packs.
bool reduce_packs(const ReduceProblem& problem, const ReducePlan& plan, const Tensor& input, Tensor& output,
                  Stream stream) {
  const DType dtype = input.dtype();
  if (!is_activation(dtype)) return false;
  const auto size = static_cast<std::int64_t>(16 / size_of(dtype));
  const bool rows = plan.reduced.size() == 1 && plan.kept.size() == 1 && plan.reduced[0].strides[0] == 1 &&
                    (plan.kept[0].strides[0] == plan.extent || plan.outputs == 1);
  if (!rows || plan.extent % size != 0 || plan.extent / size > max_packs || plan.extent == 0) return false;
  if (!aligned_to_16(input.raw())) return false;
  const auto packs = static_cast<int>(plan.extent / size);
  int sharers = 1;
  while (sharers < warp && sharers * 2 <= packs) sharers *= 2;
  const Settings<float> settings = {problem.kind, problem.last, identity_of<float>(problem.kind, dtype)};
  with_element_type(dtype, [&]<class E>(E*) {
    launch_kernel(reduce_packs_kernel<E>,
                  {.grid = dim3(grid_for(plan.outputs, pack_threads / sharers)), .block = dim3(pack_threads)}, stream,
                  static_cast<const Pack<E>*>(input.raw()), output.raw(), output.dtype(), plan.outputs, packs, settings,
                  sharers);
  });
  return true;
}

/// A fold whose kind the compiler knows.
template <Reduction kind>
struct FoldOf : Fold<float> {
  using Fold<float>::Fold;
  FoldOf() = default;
  __device__ void add(const Settings<float>& s, float x, std::int64_t i) { Fold::add({kind, s.last, s.start}, x, i); }
  __device__ void join(const Settings<float>& s, const FoldOf& other) { Fold::join({kind, s.last, s.start}, other); }
};

/// Sums over the pixels of images channels last. False, and nothing is done, where they are not that.
bool reduce_pixels(const ReduceProblem& problem, const ReducePlan& plan, const Tensor& input, Tensor& output,
                   Stream stream) {
  const auto& kept = plan.kept;
  const std::int64_t channels = kept.back().extent, images = plan.outputs / channels;
  const bool pixels = plan.reduced.size() == 1 && plan.reduced[0].strides[0] == channels && plan.extent > 1 &&
                      kept.back().strides[0] == 1 &&
                      (images == 1 || (kept.size() == 2 && kept[0].strides[0] == plan.extent * channels));
  if (!pixels || !is_activation(input.dtype()) || output.dtype() != input.dtype() || plan.outputs > max_outputs) {
    return false;
  }
  const Settings<float> settings = {problem.kind, problem.last, 0};
  const auto run = [&]<class State>(State*) {
    with_element_type(input.dtype(), [&]<class E>(E*) {
      reduce_columns<State>(settings, images, plan.extent, channels, elements<E>(input), elements<E>(output), stream);
    });
    return true;
  };
  switch (problem.kind) {
    case Reduction::sum:
    case Reduction::mean: return run(static_cast<FoldOf<Reduction::sum>*>(nullptr));
    case Reduction::l2:
    case Reduction::sum_square: return run(static_cast<FoldOf<Reduction::sum_square>*>(nullptr));
    default: return false;
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
  if constexpr (std::is_same_v<T, float>) {
    if (reduce_packs(problem, plan, input, output, stream) || reduce_pixels(problem, plan, input, output, stream))
      return;
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
