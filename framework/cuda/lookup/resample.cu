// Weighted sums of taps along up to four dimensions. A thread owns one output element, or 16 bytes of them where they
// lie behind the last resampled dimension, as channels do: they have the same taps. Neighbours in a warp are neighbours
// in memory, whichever the layout, and read indices and weights from L1.
//
// Shared memory: none. Preconditions: indices lie within the input; for each index of the outermost run the output has
// fewer than 2^32 elements, and in all at least one.

#include <algorithm>
#include <limits>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256;

/// An activation as the resampled dimensions divide it, outermost first: runs of others, 1 if there are none, before,
/// between and behind them.
struct ResampleArguments {
  static constexpr int max_axes = 4;
  struct Axis {
    int taps = 1;
    std::int64_t extent = 1;         // of the output
    std::int64_t step = 1;           // elements of the input from one index to the next
    const int* indices = nullptr;    // [extent, taps]
    const float* weights = nullptr;  // [extent, taps]
  };
  int axes = 0;
  Axis axis[max_axes];
  std::int64_t run[max_axes + 1] = {};       // extents of the runs, of the last in packs
  std::int64_t run_step[max_axes + 1] = {};  // elements of the input from one to the next
  std::int64_t count = 0;                    // packs of the output
};

/// The sums over the taps of axis `which` and those within it.
template <int which, int axes, class T, int pack>
__device__ inline void sum_of(const ResampleArguments& args, const unsigned (&place)[ResampleArguments::max_axes],
                              const T* input, float (&sums)[pack]) {
  if constexpr (which == axes) {
    const auto values = *reinterpret_cast<const Pack<T, pack>*>(input);
#pragma unroll
    for (int j = 0; j < pack; ++j) sums[j] = to_f32(values.values[j]);
  } else {
    const ResampleArguments::Axis& axis = args.axis[which];
    const std::int64_t first = std::int64_t{place[which]} * axis.taps;
#pragma unroll
    for (int j = 0; j < pack; ++j) sums[j] = 0;
#pragma unroll 1
    for (int t = 0; t < axis.taps; ++t) {
      const std::int64_t index = __ldg(axis.indices + first + t);
      const float weight = __ldg(axis.weights + first + t);
      float within[pack];
      sum_of<which + 1, axes>(args, place, input + index * axis.step, within);
#pragma unroll
      for (int j = 0; j < pack; ++j) sums[j] = fmaf(weight, within[j], sums[j]);
    }
  }
}

template <int axes, int pack, class T>
__global__ void __launch_bounds__(threads) resample_kernel(const T* __restrict__ input, T* __restrict__ output,
                                                           const __grid_constant__ ResampleArguments args) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < args.count; i += step) {
    auto rest = static_cast<unsigned>(i);
    unsigned place[ResampleArguments::max_axes] = {};
    const auto take = [&](std::int64_t extent) {
      const auto size = static_cast<unsigned>(extent);
      const unsigned next = rest / size, at = rest - next * size;
      rest = next;
      return at;
    };
    std::int64_t offset = static_cast<std::int64_t>(take(args.run[axes])) * args.run_step[axes];
#pragma unroll
    for (int a = axes - 1; a >= 0; --a) {
      place[a] = take(args.axis[a].extent);
      offset += static_cast<std::int64_t>(take(args.run[a])) * args.run_step[a];
    }
    float sums[pack];
    sum_of<0, axes>(args, place, input + offset, sums);
    Pack<T, pack> result;
#pragma unroll
    for (int j = 0; j < pack; ++j) result.values[j] = from_f32<T>(sums[j]);
    reinterpret_cast<Pack<T, pack>*>(output)[i] = result;
  }
}

/// So much of the outermost run at a time that packs of the output are counted in 32 bits: divisions of 64 are what
/// would take the time of a few taps.
template <int axes, int pack, class T>
void launch_in_slabs(const ResampleArguments& args, const T* input, T* output, Stream stream) {
  const std::int64_t each = args.count / args.run[0], most = std::numeric_limits<std::uint32_t>::max() / each;
  for (std::int64_t first = 0; first < args.run[0]; first += most) {
    ResampleArguments part = args;
    part.run[0] = std::min(most, args.run[0] - first);
    part.count = part.run[0] * each;
    launch_kernel(resample_kernel<axes, pack, T>, threads_for(part.count, threads), stream,
                  input + first * args.run_step[0], output + first * each * pack, part);
  }
}

/// In packs if what lies behind the last resampled dimension is whole ones: all steps of the input are, then.
template <int axes, class T>
void launch(ResampleArguments args, const T* input, T* output, Stream stream) {
  constexpr int pack = Pack<T>::size;
  if (axes == 0 || args.run[axes] % pack != 0 || !aligned_to_16(input) || !aligned_to_16(output))
    return launch_in_slabs<axes, 1>(args, input, output, stream);
  args.run[axes] /= pack, args.run_step[axes] *= pack, args.count /= pack;
  launch_in_slabs<axes, pack>(args, input, output, stream);
}

/// How the axes divide the shape, in the order in which dimensions lie in memory; `constant` puts a vector where the
/// device reads it.
template <class Constant>
ResampleArguments arguments_of(const ResampleProblem& problem, const Preparation& p, const Constant& constant) {
  const Layout layout = p.input().format.layout;
  const Shape in = detail::stored(p.input().shape, layout, 0).shape;
  const Shape out = detail::stored(p.output().shape, layout, 0).shape;
  ResampleArguments arguments;
  arguments.count = out.numel();
  arguments.run[0] = 1;
  for (int d = 0; d < static_cast<int>(in.rank()); ++d) {
    const std::int64_t step = detail::extent_product(in, d + 1, static_cast<int>(in.rank()));
    const auto axis = std::find_if(problem.axes.begin(), problem.axes.end(), [&](const ResampleProblem::Axis& a) {
      return detail::stored(p.input().shape, layout, a.dim).dim == d;
    });
    if (axis == problem.axes.end()) {
      arguments.run[arguments.axes] *= out[d];
      arguments.run_step[arguments.axes] = step;
      continue;
    }
    arguments.axis[arguments.axes] = {.taps = axis->taps,
                                      .extent = out[d],
                                      .step = step,
                                      .indices = constant(axis->indices),
                                      .weights = constant(axis->weights)};
    arguments.run[++arguments.axes] = 1;
  }
  return arguments;
}

}  // namespace

bool takes_resample(const ResampleProblem& problem, const Preparation& p) {
  const Layout layout = p.input().format.layout;
  if (!detail::is_resample(problem, p) || !is_activation(p.input().format.dtype) || !p.keeps_format()) return false;
  if (problem.axes.size() > ResampleArguments::max_axes) return false;
  if (layout != Layout::nchw && (layout != Layout::nhwc || p.input().shape.rank() != 4)) return false;
  const ResampleArguments arguments = arguments_of(problem, p, [](const auto& values) { return values.data(); });
  return arguments.count == 0 || arguments.count / arguments.run[0] < (std::int64_t{1} << 32);
}

std::unique_ptr<Operator> prepare_resample(const ResampleProblem& problem, const Preparation& p) {
  Constants constants(index(p));
  const ResampleArguments args = arguments_of(problem, p, [&](const auto& v) { return constants.add(v); });
  return make_on_device(index(p), "a thread for each output",
                        [args, constants](Inputs inputs, Outputs outputs, const Execution& execution) {
                          with_element_type(outputs[0].dtype(), [&]<class T>(T*) {
                            const T* in = elements<T>(inputs[0]);
                            T* out = elements<T>(outputs[0]);
                            switch (args.axes) {
                              case 0: return launch<0>(args, in, out, execution.stream);
                              case 1: return launch<1>(args, in, out, execution.stream);
                              case 2: return launch<2>(args, in, out, execution.stream);
                              case 3: return launch<3>(args, in, out, execution.stream);
                              default: return launch<4>(args, in, out, execution.stream);
                            }
                          });
                        });
}

}  // namespace lamina::cuda
