// Elementwise work on operands of any dtype, layout and shape that broadcasts.
//
// In f32 a thread owns four neighbours of the output, wherever all operands have them beside each other or are one
// number for all four: one access each, and one look for where they are. Else, and for the last few, it owns one.
// Operands are converted to the type that is computed in as they are loaded, and the result as it is stored. A block is
// 256 threads; no shared memory. Preconditions: none; the output may be an input that lies as it does.

#include <algorithm>

#include "lamina/cuda/array/any_element.cuh"
#include "lamina/cuda/array/array.h"
#include "lamina/cuda/array/walk.cuh"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/eight_bits/kernels.h"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/whole_function.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256;
constexpr int vector = 4;
constexpr int max_steps = 16, max_inputs = 8;

/// Of a problem that detail::is_computable.
struct Broadcast {
  PointwiseProblem problem;
  std::vector<View> views;
  View result;
  std::vector<detail::WalkAxis> axes;
};

enum class Kind : std::uint8_t { contiguous, one_for_all, strided };

struct Operand {
  const void* memory;
  DType dtype;
  Kind kind;
  bool inner;  ///< neighbours of the output have neighbours of it; otherwise they share one
  Quantization codes;
  std::int64_t strides[Shape::max_rank];
};

template <class T>
struct Chain {
  Axes<Shape::max_rank> axes;
  int steps = 0, inputs = 0;
  void* output;
  DType dtype;
  Results results;  ///< where they are codes
  ChainStep<T> step[max_steps];
  Operand operands[max_inputs];
};

/// Elements that are worked on together: of float alone, the others being rare.
template <class T>
inline constexpr int width = std::is_same_v<T, float> ? vector : 1;

template <class T, int n>
struct Values {
  T values[n];
};

/// Elements of an operand, for those of the output from `index` on. Not inlined, nor is what follows: one copy of the
/// code for thirteen dtypes is enough.
template <int n, class T>
__device__ __noinline__ Values<T, n> fetch(const Operand* from, const Axes<Shape::max_rank>* axes, std::int64_t index) {
  Values<T, n> result;
  std::int64_t offset = from->kind == Kind::contiguous ? index : 0;
  if (from->kind == Kind::strided) offset = axes->offset(from->strides, index);
  if (n == 1 || from->inner) {
    load<n>(from->dtype, from->memory, offset, result.values);
  } else {
    T one[1];
    load<1>(from->dtype, from->memory, offset, one);
#pragma unroll
    for (int j = 0; j < n; ++j) result.values[j] = one[0];
  }
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int j = 0; j < n && from->codes.scale != 0; ++j) {
      const float code = __fsub_rn(result.values[j], static_cast<float>(from->codes.zero_point));
      result.values[j] = __fmul_rn(code, from->codes.scale);
    }
  }
  return result;
}

template <class T>
__device__ __noinline__ T whole_function(Pointwise function, T v, T x, T y) {
  return detail::whole_function(function, v, x, y);
}

template <class T>
__device__ inline T function_of(Pointwise function, T v, T x, T y) {
  if constexpr (std::is_integral_v<T>) return whole_function(function, v, x, y);
  if constexpr (std::is_floating_point_v<T>) return float_function(function, v, x, y);
}

template <int n, class T>
__device__ inline void compute(const Chain<T>& chain, std::int64_t index) {
  const auto operand = [&](int which, T number) {
    if (which >= 0) return fetch<n, T>(&chain.operands[which], &chain.axes, index);
    Values<T, n> result;
#pragma unroll
    for (int j = 0; j < n; ++j) result.values[j] = number;
    return result;
  };
  Values<T, n> values = operand(0, T{});
  for (int s = 0; s < chain.steps; ++s) {
    const ChainStep<T>& step = chain.step[s];
    const Values<T, n> x = operand(step.operand, step.a), y = operand(step.second, step.b);
    if constexpr (std::is_same_v<T, float>) {
      if (is_common(step.function)) {
        apply_common(step.function, values.values, x.values, y.values);
        continue;
      }
    }
#pragma unroll
    for (int j = 0; j < n; ++j) {
      values.values[j] = function_of(step.function, values.values[j], x.values[j], y.values[j]);
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    if (chain.results.scale != 0) return chain.results.write(values.values, chain.output, index);
  }
  store<n>(chain.dtype, values.values, chain.output, index);
}

template <class T>
__global__ void __launch_bounds__(threads)
    broadcast_kernel(const __grid_constant__ Chain<T> chain, std::int64_t vectors, std::int64_t count) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  if constexpr (width < T >> 1) {
    for (std::int64_t i = first; i < vectors; i += step) compute<width<T>>(chain, i * width<T>);
  }
  for (std::int64_t i = vectors * width<T> + first; i < count; i += step) compute<1>(chain, i);
}

/// Whether an address is a multiple of what four elements of that dtype are loaded by.
bool aligned(const void* memory, DType dtype) {
  const std::size_t bytes = std::min<std::size_t>(16, vector * size_of(dtype));
  return reinterpret_cast<std::uintptr_t>(memory) % bytes == 0;
}

template <class T>
void start(const Broadcast& it, Inputs inputs, Tensor& output, Stream stream) {
  const std::int64_t count = output.numel();
  Chain<T> chain{};
  chain.axes.wide = count >= narrow_count;
  for (const detail::WalkAxis& axis : it.axes) chain.axes.add(axis.extent);
  for (const PointwiseStep& step : it.problem.chain) chain.step[chain.steps++] = step_as<T>(step);
  chain.output = output.raw();
  chain.dtype = output.dtype();
  chain.results = Results(it.result);
  // Four at a time must not straddle the end of a run of neighbours; in a single run the last few go one by one.
  const detail::WalkAxis& inner = it.axes.back();
  bool whole = aligned(output.raw(), output.dtype()) && (it.axes.size() == 1 || inner.extent % vector == 0);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Operand& operand = chain.operands[chain.inputs++];
    operand.memory = inputs[i].raw();
    operand.dtype = inputs[i].dtype();
    operand.codes = it.views[i].quantization;
    operand.inner = inner.strides[i + 1] != 0;
    bool contiguous = true, one_for_all = true;
    for (std::size_t axis = 0; axis < it.axes.size(); ++axis) {
      const std::int64_t stride = it.axes[axis].strides[i + 1];
      operand.strides[axis] = stride;
      contiguous &= stride == it.axes[axis].strides[0];
      one_for_all &= stride == 0;
      if (operand.inner && axis + 1 < it.axes.size()) whole &= stride % vector == 0;
    }
    operand.kind = one_for_all ? Kind::one_for_all : contiguous ? Kind::contiguous : Kind::strided;
    if (operand.inner) whole &= inner.strides[i + 1] == 1 && aligned(operand.memory, operand.dtype);
  }
  const std::int64_t vectors = whole && width<T> > 1 ? count / vector : 0;
  launch_kernel(broadcast_kernel<T>, threads_for(vectors > 0 ? vectors : count, threads), stream, chain, vectors,
                count);
}

}  // namespace

/// Not to turn a whole array's layout on its way, which goes against the grain of memory: where there are operands of
/// the output's size, one of them lies as it does.
bool takes_broadcast(const PointwiseProblem& problem, const Preparation& p) {
  if (!detail::is_computable(problem, p) || (p.has_codes() && problem.compute != DType::f32)) return false;
  const auto whole = [&](const View& input) { return input.shape == p.output().shape; };
  const auto alike = [&](const View& input) {
    return whole(input) && detail::same_order(input.shape, input.format.layout, p.output().format.layout);
  };
  return p.inputs.size() <= max_inputs && problem.chain.size() <= max_steps &&
         (std::ranges::none_of(p.inputs, whole) || std::ranges::any_of(p.inputs, alike));
}

std::unique_ptr<Operator> prepare_broadcast(const PointwiseProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "elementwise",
      [it = Broadcast{.problem = problem,
                      .views = {p.inputs.begin(), p.inputs.end()},
                      .result = p.output(),
                      .axes = detail::broadcast_walk(p.output(), p.inputs)}](Inputs inputs, Outputs outputs,
                                                                             const Execution& execution) {
        const Stream stream = execution.stream;
        Tensor& output = outputs[0];
        switch (it.problem.compute) {
          case DType::f64: return start<double>(it, inputs, output, stream);
          case DType::i64: return start<std::int64_t>(it, inputs, output, stream);
          case DType::u64: return start<std::uint64_t>(it, inputs, output, stream);
          default: break;
        }
        if (pointwise_of_codes(it.problem.chain, it.axes, it.views, it.result, inputs, output, stream)) return;
        start<float>(it, inputs, output, stream);
      });
}

}  // namespace lamina::cuda
