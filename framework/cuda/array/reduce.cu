// Reductions. A block is a rectangle of threads: x goes with the outputs or, where neighbours in memory are summed up,
// with the elements of one; the threads that share an output meet in shared memory (at most 16 KB), in the same order
// every time.
//
//   rows     1 to 32 neighbours of a warp own an output, or a whole block where each has many elements
//   columns  256 to 32 outputs, neighbours in memory, to a block; of its 1 to 32 rows each takes every so many-th element
//
// Sums of floats are Kahan's: what an addition rounds away is carried to the next. Preconditions: none.

#include <cmath>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cuda/array/any_element.cuh"
#include "lamina/cuda/array/reduce.h"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

constexpr int warp = 32;
constexpr int most_threads = 1024;

/// What is the same for every element.
template <class T>
struct Settings {
  Reduction kind;
  bool last;  ///< of equals, arg_max and arg_min find it
  T start;    ///< the function's identity
};

template <class T>
__device__ inline bool is_number(T v) {
  return v == v;
}
template <class T>
__device__ inline bool is_finite(T v) {
  return v - v == T{0};
}

/// Sums, products, the largest and the least.
template <class T>
struct Fold {
  T value;
  T lost = T{};  ///< of a sum of floats: what is to be taken from it

  __device__ explicit Fold(const Settings<T>& s) : value(s.start) {}
  __device__ Fold(T v, T l) : value(v), lost(l) {}

  __device__ void add(const Settings<T>& s, T x, std::int64_t) {
    switch (s.kind) {
      case Reduction::max: value = value > x || !is_number(value) ? value : x; break;
      case Reduction::min: value = value < x || !is_number(value) ? value : x; break;
      case Reduction::prod: value = multiplied(value, x); break;
      case Reduction::l1: plus(magnitude(x)); break;
      case Reduction::l2:
      case Reduction::sum_square: plus(multiplied(x, x)); break;
      default: plus(x);
    }
  }
  __device__ void join(const Settings<T>& s, const Fold& other) {
    if (s.kind == Reduction::max || s.kind == Reduction::min || s.kind == Reduction::prod) {
      add(s, other.value, 0);
    } else {
      plus(other.value);
      plus(T{0} - other.lost);
    }
  }
  __device__ T result(const Settings<T>& s, std::int64_t count) const {
    if constexpr (std::is_integral_v<T>) {
      if (s.kind != Reduction::mean) return value;
      return count == 0 ? T{0} : value / static_cast<T>(count);
    } else {
      switch (s.kind) {
        case Reduction::mean: return value / static_cast<T>(count);
        case Reduction::l2: return sqrt(value);
        case Reduction::log_sum: return log(value);
        default: return value;
      }
    }
  }

 private:
  __device__ static T magnitude(T x) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return x;
    } else {
      return x < T{0} ? multiplied(x, T{-1}) : x;
    }
  }
  __device__ void plus(T x) {
    if constexpr (std::is_same_v<T, float>) {
      const float y = x - lost, sum = __fadd_rn(value, y);
      lost = __fsub_rn(__fsub_rn(sum, value), y);
      if (!is_finite(lost)) lost = 0;  // of an infinite sum nothing is lost
      value = sum;
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      value = static_cast<T>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(x));
    } else {
      value += x;
    }
  }
  __device__ static T multiplied(T a, T b) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

/// log(sum(exp(x))): the largest, and the sum of exp(x - largest) so far. An infinite or NaN largest is the result.
template <class T>
struct LogSumExp {
  T largest, sum;

  __device__ explicit LogSumExp(const Settings<T>&) : largest(static_cast<T>(-INFINITY)), sum(0) {}
  __device__ LogSumExp(T l, T s) : largest(l), sum(s) {}

  __device__ void add(const Settings<T>& s, T x, std::int64_t) { join(s, {x, T{1}}); }
  __device__ void join(const Settings<T>&, const LogSumExp& other) {
    const T most = largest > other.largest || !is_number(largest) ? largest : other.largest;
    if (is_finite(most)) sum = sum * exp(largest - most) + other.sum * exp(other.largest - most);
    largest = most;
  }
  __device__ T result(const Settings<T>&, std::int64_t) const {
    return is_finite(largest) ? largest + log(sum) : largest;
  }
};

/// The place of the largest or the least; NaN is more than either.
template <class T>
struct Place {
  T value = T{};
  std::int64_t place = -1;  ///< none yet

  __device__ explicit Place(const Settings<T>&) {}
  __device__ Place(T v, std::int64_t p) : value(v), place(p) {}

  __device__ void add(const Settings<T>& s, T x, std::int64_t index) { join(s, {x, index}); }
  __device__ void join(const Settings<T>& s, const Place& other) {
    if (other.place < 0) return;
    const bool equal = value == other.value || (!is_number(value) && !is_number(other.value));
    const bool more = !is_number(other.value) ||
                      (is_number(value) && (s.kind == Reduction::arg_max ? other.value > value : other.value < value));
    const bool nearer = s.last ? other.place > place : other.place < place;
    if (place < 0 || (equal ? nearer : more)) *this = other;
  }
  __device__ std::int64_t result(const Settings<T>&, std::int64_t) const { return place < 0 ? 0 : place; }
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
template <class T, class State>
__global__ void __launch_bounds__(most_threads)
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

/// The number that a reduction starts from.
template <class T>
T identity_of(Reduction kind, DType dtype) {
  const auto as = [](double number) {
    if constexpr (std::is_integral_v<T>) {
      if (number >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    }
    return static_cast<T>(number);
  };
  switch (kind) {
    case Reduction::max: return as(detail::least_of(dtype));
    case Reduction::min: return as(detail::most_of(dtype));
    case Reduction::prod: return T{1};
    default: return T{0};
  }
}

}  // namespace

Reduce::Reduce(const ReduceProblem& problem, const Preparation& p)
    : problem_(problem), plan_(detail::reduce_plan(problem, p)) {
  const DType dtype = p.input().format.dtype;
  compute_ = detail::reduction_type(problem.kind, dtype);
  if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) compute_ = DType::f32;
}

template <class T, class State>
void Reduce::launch(const Tensor& input, Tensor& output, Stream stream) const {
  const Walks walks = {.kept = StridedAxes(plan_.kept, 0),
                       .reduced = StridedAxes(plan_.reduced, 0),
                       .outputs = plan_.outputs,
                       .extent = plan_.extent,
                       .input = input.raw(),
                       .output = output.raw(),
                       .from = input.dtype(),
                       .to = output.dtype()};
  const Settings<T> settings = {problem_.kind, problem_.last, identity_of<T>(problem_.kind, input.dtype())};
  const bool columns = plan_.kept.back().strides[0] == 1 && plan_.reduced.back().strides[0] != 1 && plan_.extent > 1;
  // Few elements need few threads: a fourth of them, and no more than there are.
  unsigned sharers = 1;
  while (sharers < (columns ? 8u : 1u * warp) && sharers * 4 <= static_cast<std::uint64_t>(plan_.extent)) sharers *= 2;
  dim3 block = columns ? dim3(256 / sharers, sharers) : dim3(sharers, 256 / sharers);
  if (columns && plan_.extent >= 256) block = dim3(warp, warp);
  if (!columns && plan_.extent > 512) block = dim3(plan_.extent > 8192 ? most_threads : 256, 1);
  const std::int64_t each = columns ? block.x : block.y;  // outputs of a block
  launch_kernel(reduce_kernel<T, State>,
                {.grid = dim3(grid_for(detail::ceil_div(plan_.outputs, each), 1)),
                 .block = block,
                 .shared_bytes = sizeof(State) * block.x * block.y},
                stream, walks, settings, !columns);
}

template <class T>
void Reduce::start(const Tensor& input, Tensor& output, Stream stream) const {
  if (detail::finds_place(problem_.kind)) return launch<T, Place<T>>(input, output, stream);
  if constexpr (std::is_floating_point_v<T>) {
    if (problem_.kind == Reduction::log_sum_exp) return launch<T, LogSumExp<T>>(input, output, stream);
  }
  launch<T, Fold<T>>(input, output, stream);
}

void Reduce::run(int device, const Tensor& input, Tensor& output, Stream stream) const {
  if (plan_.outputs == 0) return;
  const DeviceGuard guard(device);
  switch (compute_) {
    case DType::f64: return start<double>(input, output, stream);
    case DType::i64: return start<std::int64_t>(input, output, stream);
    case DType::u64: return start<std::uint64_t>(input, output, stream);
    default: return start<float>(input, output, stream);
  }
}

}  // namespace lamina::cuda
