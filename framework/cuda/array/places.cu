// The places of the largest and of the least. A block is a rectangle of threads: x goes with the outputs or, where
// neighbours in memory are compared, with the elements of one; the threads that share an output meet in shared memory
// (at most 16 KB), in the same order every time.
//
//   rows     1 to 32 neighbours of a warp own an output, or a whole block where each has many elements
//   columns  256 to 32 outputs, neighbours in memory, to a block; of its 1 to 32 rows each takes every so many-th
//   element
//
// Other reductions are Maps. Preconditions: none.

#include "lamina/base/math.h"
#include "lamina/cuda/any_element.cuh"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/cuda/walk.cuh"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::ReducePlan;

constexpr int warp = 32;
constexpr int max_threads = 1024;

struct Settings {
  Reduction kind;
  bool last;  ///< of equals it is found
};

template <class T>
__device__ inline bool is_number(T v) {
  return v == v;
}

/// The place of the largest or the least that a thread has seen; NaN is more than either.
template <class T>
struct Place {
  T value = T{};
  std::int64_t place = -1;  ///< none yet

  __device__ void join(Settings s, const Place& other) {
    if (other.place < 0) return;
    const bool equal = value == other.value || (!is_number(value) && !is_number(other.value));
    const bool more = !is_number(other.value) ||
                      (is_number(value) && (s.kind == Reduction::arg_max ? other.value > value : other.value < value));
    const bool nearer = s.last ? other.place > place : other.place < place;
    if (place < 0 || (equal ? nearer : more)) *this = other;
  }
};

struct Walks {
  StridedAxes kept, reduced;
  std::int64_t outputs, extent;
  const void* input;
  void* output;
  DType from, to;
};

/// `along_x`: x counts the threads that share an output, y the outputs of a block; otherwise the other way round. Those
/// that share one are a power of two.
template <class T>
__global__ void __launch_bounds__(max_threads)
    places_kernel(const __grid_constant__ Walks w, const Settings settings, bool along_x) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto* const places = reinterpret_cast<Place<T>*>(memory);  // [elements' threads][outputs' threads]
  let_successor_start();
  wait_for_predecessor();
  const int mine = along_x ? static_cast<int>(threadIdx.x) : static_cast<int>(threadIdx.y);
  const int sharers = along_x ? static_cast<int>(blockDim.x) : static_cast<int>(blockDim.y);
  const int column = along_x ? static_cast<int>(threadIdx.y) : static_cast<int>(threadIdx.x);
  const int columns = along_x ? static_cast<int>(blockDim.y) : static_cast<int>(blockDim.x);
  const std::int64_t groups = (w.outputs + columns - 1) / columns;
  for (std::int64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const std::int64_t output = group * columns + column;
    Place<T> found;
    if (output < w.outputs) {
      const std::int64_t base = w.kept.offset(output);
      for (std::int64_t i = mine; i < w.extent; i += sharers) {
        T x[1];
        load<1>(w.from, w.input, base + w.reduced.offset(i), x);
        found.join(settings, {x[0], i});
      }
    }
    places[mine * columns + column] = found;
    __syncthreads();
    for (int distance = sharers / 2; distance > 0; distance /= 2) {
      if (mine < distance) {
        places[mine * columns + column].join(settings, places[(mine + distance) * columns + column]);
      }
      __syncthreads();
    }
    if (mine == 0 && output < w.outputs) {
      const std::int64_t result[1] = {places[column].place < 0 ? 0 : places[column].place};
      store<1>(w.to, result, w.output, output);
    }
    __syncthreads();  // before the next group's are written
  }
}

template <class T>
void launch(Settings settings, const ReducePlan& plan, const Tensor& input, Tensor& output, Stream stream) {
  const Walks walks = {.kept = StridedAxes(plan.kept, 0),
                       .reduced = StridedAxes(plan.reduced, 0),
                       .outputs = plan.outputs,
                       .extent = plan.extent,
                       .input = input.raw(),
                       .output = output.raw(),
                       .from = input.dtype(),
                       .to = output.dtype()};
  const bool columns = plan.kept.back().strides[0] == 1 && plan.reduced.back().strides[0] != 1 && plan.extent > 1;
  // Few elements need few threads: a fourth of them, and no more than there are.
  unsigned sharers = 1;
  while (sharers < (columns ? 8u : 1u * warp) && sharers * 4 <= static_cast<std::uint64_t>(plan.extent)) sharers *= 2;
  dim3 block = columns ? dim3(256 / sharers, sharers) : dim3(sharers, 256 / sharers);
  if (columns && plan.extent >= 256) block = dim3(warp, warp);
  if (!columns && plan.extent > 512) block = dim3(plan.extent > 8192 ? max_threads : 256, 1);
  const std::int64_t each = columns ? block.x : block.y;  // outputs of a block
  launch_kernel(places_kernel<T>,
                {.grid = dim3(grid_for(detail::ceil_div(plan.outputs, each), 1)),
                 .block = block,
                 .shared_bytes = sizeof(Place<T>) * block.x * block.y},
                stream, walks, settings, !columns);
}

}  // namespace

bool takes_places(const ReduceProblem& problem, const Preparation& p) {
  return detail::finds_place(problem.kind) && detail::is_reducible(problem, p);
}

std::unique_ptr<Operator> prepare_places(const ReduceProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  const DType compute = is_activation(dtype) ? DType::f32 : detail::reduction_type(problem.kind, dtype);
  return make_on_device(
      index(p), "threads that meet",
      [settings = Settings{problem.kind, problem.last}, compute, plan = detail::reduce_plan(problem, p)](
          Inputs inputs, Outputs outputs, const Execution& execution) {
        const auto run = [&]<class T>(T) { launch<T>(settings, plan, inputs[0], outputs[0], execution.stream); };
        switch (compute) {
          case DType::f64: return run(double{});
          case DType::i64: return run(std::int64_t{});
          case DType::u64: return run(std::uint64_t{});
          default: return run(float{});
        }
      });
}

}  // namespace lamina::cuda
