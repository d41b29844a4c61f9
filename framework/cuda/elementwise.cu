// Elementwise work: a thread owns 16 bytes of elements, a block 256 of such; the first threads of the grid also take
// the few elements after the last whole pack. Arrays that do not start on 16 bytes go element by element. A chain of
// functions is interpreted: every thread takes the same branches, and memory is what takes the time.
//
// Shared memory: none. Preconditions: none; the output may be the first input.

#include "lamina/cuda/kernels.h"

#include <algorithm>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/pointwise_functions.cuh"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/activation.h"
#include "lamina/tensor/constants.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256;

__device__ inline float positive_part(float x) { return x < 0.0f ? 0.0f : x; }  // NaN stays

/// output[f.target(i)] = f of input[f.source(i)], for as many elements at a time as f is given.
template <class T, class F>
__global__ void __launch_bounds__(threads)
    elementwise_kernel(const T* input, T* output, std::int64_t packs, std::int64_t count, const __grid_constant__ F f) {
  let_successor_start();
  wait_for_predecessor();
  const auto apply = [&]<int n>(std::integral_constant<int, n>, std::int64_t first) {
    const auto ahead = f.template load<n>(first);  // before anything waits for the input
    Pack<T, n> pack = *reinterpret_cast<const Pack<T, n>*>(input + f.source(first));
    float values[n];
#pragma unroll
    for (int j = 0; j < n; ++j) values[j] = to_f32(pack.values[j]);
    f(values, first, ahead);
#pragma unroll
    for (int j = 0; j < n; ++j) pack.values[j] = from_f32<T>(values[j]);
    *reinterpret_cast<Pack<T, n>*>(output + f.target(first)) = pack;
  };
  constexpr int size = Pack<T>::size;
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < packs; i += step) apply(std::integral_constant<int, size>(), i * size);
  for (std::int64_t i = packs * size + first; i < count; i += step) apply(std::integral_constant<int, 1>(), i);
}

/// Input and output without gaps.
struct Dense {
  __device__ static std::int64_t source(std::int64_t first) { return first; }
  __device__ static std::int64_t target(std::int64_t first) { return first; }
};

/// A chain of functions, one after the other.
template <class T>
struct Interpreter {
  int steps = 0;
  ChainStep<float> step[max_pointwise_steps];
  const T* operands[max_pointwise_operands];
  bool has_gaps = false;
  Divider by_run;                                 // all are runs of so many elements
  std::int64_t gaps[max_pointwise_operands + 1];  // behind each run, less than 0 where runs overlap; of the output last

  __device__ std::int64_t at(int which, std::int64_t first) const {
    if (!has_gaps) return first;
    return first + gaps[which] * by_run.quotient(static_cast<std::uint32_t>(first));
  }
  __device__ std::int64_t source(std::int64_t first) const { return at(0, first); }
  __device__ std::int64_t target(std::int64_t first) const { return at(max_pointwise_operands, first); }

  template <int n>
  __device__ Pack<T, n> load(int operand, std::int64_t first) const {
    return *reinterpret_cast<const Pack<T, n>*>(operands[operand] + at(operand, first));
  }
  /// Of the second operand, which most chains that have one begin with.
  template <int n>
  __device__ Pack<T, n> load(std::int64_t first) const {
    return operands[1] == nullptr ? Pack<T, n>{} : load<n>(1, first);
  }

  template <int n>
  __device__ void operator()(float (&values)[n], std::int64_t first, const Pack<T, n>& second) const {
    const auto fetch = [&](int operand, float number, float(&to)[n]) {
      if (operand < 0) {
#pragma unroll
        for (int j = 0; j < n; ++j) to[j] = number;
        return;
      }
      const Pack<T, n> pack = operand == 1 ? second : load<n>(operand, first);
#pragma unroll
      for (int j = 0; j < n; ++j) to[j] = to_f32(pack.values[j]);
    };
    for (int s = 0; s < steps; ++s) {
      float x[n], y[n];
      fetch(step[s].operand, step[s].a, x);
      fetch(step[s].second, step[s].b, y);
      apply_common(step[s].function, values, x, y);
    }
  }
};

/// Element i belongs to channel i / run % channels.
struct ScaleAndShift : Dense {
  const float* scale;  // [channels]
  const float* shift;  // [channels]
  std::int64_t run, channels;
  bool relu;

  template <int n>
  __device__ bool load(std::int64_t) const {
    return false;  // what it needs is in the cache
  }

  template <int n>
  __device__ void operator()(float (&values)[n], std::int64_t first, bool) const {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      const std::int64_t c = (first + j) / run % channels;
      const float y = fmaf(values[j], scale[c], shift[c]);
      values[j] = relu ? positive_part(y) : y;
    }
  }
};

/// The same of channels that lie side by side, whole packs of them: one division for a pack.
struct ScaleAndShiftSideBySide : Dense {
  const float* scale;  // [channels]
  const float* shift;  // [channels]
  Divider by_channels;
  std::uint32_t channels, gap;  // gap: of the input, between the channels of one pixel and those of the next
  bool relu;

  __device__ std::int64_t source(std::int64_t first) const {
    return gap == 0 ? first : first + std::int64_t{gap} * by_channels.quotient(static_cast<std::uint32_t>(first));
  }

  template <int n>
  __device__ std::uint32_t load(std::int64_t first) const {
    const auto at = static_cast<std::uint32_t>(first);
    return at - by_channels.quotient(at) * channels;
  }

  template <int n>
  __device__ void operator()(float (&values)[n], std::int64_t, std::uint32_t channel) const {
    constexpr int wide = n < 4 ? n : 4;
#pragma unroll
    for (int j = 0; j < n; j += wide) {
      const auto a = *reinterpret_cast<const Pack<float, wide>*>(scale + channel + j);
      const auto b = *reinterpret_cast<const Pack<float, wide>*>(shift + channel + j);
#pragma unroll
      for (int k = 0; k < wide; ++k) {
        const float y = fmaf(values[j + k], a.values[k], b.values[k]);
        values[j + k] = relu ? positive_part(y) : y;
      }
    }
  }
};

template <class T, class F>
void start(const void* input, void* output, std::int64_t count, bool aligned, Stream stream, const F& f) {
  const std::int64_t packs = aligned ? count / Pack<T>::size : 0;
  launch_kernel(elementwise_kernel<T, F>, threads_for(packs > 0 ? packs : count, threads), stream,
                static_cast<const T*>(input), static_cast<T*>(output), packs, count, f);
}

}  // namespace

bool packs_take(const PointwiseChain& chain) {
  return chain.size() <= max_pointwise_steps && std::ranges::all_of(chain, is_common, &PointwiseStep::function);
}

bool takes_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  const auto whole = [&](const View& input) { return input.shape == p.output().shape; };
  const DType dtype = p.input().format.dtype;
  if (!detail::is_computable(problem, p) || !p.keeps_format() || problem.compute != DType::f32 ||
      !is_activation(dtype) || p.inputs.size() > max_pointwise_operands || !std::ranges::all_of(p.inputs, whole) ||
      !packs_take(problem.chain)) {
    return false;
  }
  if (!p.has_slices() && !p.has_strides()) return true;
  const auto narrow = [](const View& view) { return view.alignment % 16 == 0; };
  const auto axes = detail::broadcast_walk(p.output(), p.inputs);
  return detail::has_runs_of(16 / static_cast<std::int64_t>(size_of(dtype)), p) && axes.size() <= 2 &&
         p.output().shape.numel() < std::int64_t{1} << 31 && std::ranges::all_of(p.inputs, narrow) &&
         narrow(p.output());
}

std::unique_ptr<Operator> prepare_pointwise(const PointwiseProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "elementwise",
      [chain = problem.chain, axes = detail::broadcast_walk(p.output(), p.inputs)](Inputs inputs, Outputs outputs,
                                                                                   const Execution& execution) {
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          Interpreter<T> interpreter{};
          for (const PointwiseStep& step : chain) interpreter.step[interpreter.steps++] = step_as<float>(step);
          bool aligned = aligned_to_16(outputs[0].raw());
          for (std::size_t i = 0; i < inputs.size(); ++i) {
            interpreter.operands[i] = static_cast<const T*>(inputs[i].raw());
            aligned &= aligned_to_16(inputs[i].raw());
          }
          if (axes.size() == 2) {
            const auto gap = [&](std::size_t array) { return axes[0].strides[array] - axes[1].extent; };
            interpreter.has_gaps = true, interpreter.by_run = Divider(axes[1].extent);
            for (std::size_t i = 0; i < inputs.size(); ++i) interpreter.gaps[i] = gap(i + 1);
            interpreter.gaps[max_pointwise_operands] = gap(0);
          }
          start<T>(inputs[0].raw(), outputs[0].raw(), outputs[0].numel(), aligned, execution.stream, interpreter);
        });
      });
}

bool takes_affine(const AffineProblem&, const Preparation& p) {
  const View& input = p.input();
  // A slice is read 16 bytes at a time.
  const bool slice_fits = input.format.layout == Layout::nhwc && !p.output().is_slice() && input.alignment % 16 == 0 &&
                          static_cast<std::size_t>(input.shape[1]) * size_of(input.format.dtype) % 16 == 0 &&
                          input.shape.numel() < std::int64_t{1} << 31 && input.channels < std::int64_t{1} << 31;
  return p.keeps_format() && (!p.has_slices() || slice_fits);
}

std::unique_ptr<Operator> prepare_affine(const AffineProblem& problem, const Preparation& p) {
  const Tensor scale = detail::constant(problem.scale, p.device.device),
               shift = detail::constant(problem.shift, p.device.device);
  const Activation a = detail::activation_of(p.input().shape);
  const std::int64_t run = p.input().format.layout == Layout::nhwc ? 1 : a.pixels;
  return make_on_device(
      index(p), "scale and shift",
      [=, gap = static_cast<std::uint32_t>(p.input().pixel_pitch() - a.channels), relu = problem.epilogue.relu()](
          Inputs inputs, Outputs outputs, const Execution& execution) {
        const void* const input = inputs[0].raw();
        void* const output = outputs[0].raw();
        const bool aligned = aligned_to_16(input) && aligned_to_16(output);
        with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
          if (run == 1 && aligned && a.channels % Pack<T>::size == 0 && a.size() < std::int64_t{1} << 31) {
            const ScaleAndShiftSideBySide f = {
                {},  floats(scale), floats(shift), Divider(a.channels), static_cast<std::uint32_t>(a.channels),
                gap, relu};
            start<T>(input, output, a.size(), true, execution.stream, f);
          } else {
            const ScaleAndShift f = {{}, floats(scale), floats(shift), run, a.channels, relu};
            start<T>(input, output, a.size(), aligned, execution.stream, f);
          }
        });
      });
}

}  // namespace lamina::cuda
