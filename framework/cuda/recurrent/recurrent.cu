// Steps of recurrent layers, see kernel/rules/recurrent.h.
//
// A block owns groups of 32 units of one direction and up to `rows` images: warp w adds up every eighth term of all
// gates' products of a group, a thread those of one unit; the warps meet in shared memory, and warp n makes what is
// image n's. Where there are clusters, one of up to eight blocks has all units of its images and takes all steps in one
// launch, with a barrier between; else a step is a launch (two, where r is a factor of h). What others read of a step,
// h and r h, is in the workspace, f32, as c is.
//
// Shared memory: rows * H floats of what is multiplied, dynamic, and 8 * rows * gates * 32 sums (16 KB for four rows).
// Preconditions: `takes`.

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/recurrent/recurrent.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina {
namespace cuda::recurrent {
namespace {

using namespace tables;

constexpr int lanes = 32, warps = 8, threads = lanes * warps, most_gates = 4, most_rows = 4;
constexpr std::int64_t most_hidden = 2048;  // of which four rows are 32 KB

/// A row in codes of its own range, as DynamicQuantizeLinear makes them, less their zero point, by a warp. Returns
/// their scale.
__device__ float to_codes(float* row, int count, int lane) {
  float low = 0, high = 0;
  for (int i = lane; i < count; i += lanes) low = fminf(low, row[i]), high = fmaxf(high, row[i]);
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    low = fminf(low, __shfl_xor_sync(0xffffffffu, low, distance));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, distance));
  }
  const float scale = high == low ? 1 : __fdiv_rn(high - low, 255), zero = rintf(__fdiv_rn(-low, scale));
  for (int i = lane; i < count; i += lanes)
    row[i] = clipped(rintf(__fdiv_rn(row[i], scale)) + zero, 0.0f, 255.0f) - zero;
  return scale;
}

/// One unit of one image: what its cell makes of the sums of the phase's gates.
template <class T>
__device__ void finish(const RecurrentArgs& a, int step, int phase, int image, int d, int unit,
                       const float (&sum)[most_gates]) {
  const int length = a.length(image), last = a.cell == Cell::lstm ? a.steps + 1 : a.steps;
  const auto put = [&](int row, float v) { static_cast<T*>(a.y)[a.place(row, image, d) + unit] = from_f32<T>(v); };
  if (step >= length) {
    put(step, 0);
    for (int row = a.steps; length == 0 && row <= last; ++row) put(row, 0);
    return;
  }
  const int now = d == 1 || a.reverse ? length - 1 - step : step;
  const auto x = [&](int gate) {
    return to_f32(static_cast<const T*>(a.x)[a.place(now, image, d) * a.gates + gate * a.hidden + unit]);
  };
  const auto before = [&](const void* given, int which) {
    if (step > 0) return a.state_of(image, d, which)[unit];
    return given == nullptr ? 0.0f : to_f32(static_cast<const T*>(given)[a.place(0, image, d) + unit]);
  };
  float* const kept = a.state_of(image, d, 2) + unit;
  const float old = a.cell == Cell::gru ? before(a.h, step % 2) : 0;
  float h = 0;
  if (a.phases == 2) {
    const auto gate = [&](int which, int function, float added) {
      float v[1] = {clipped(x(which) + added, -a.clip, a.clip)};
      a.functions[d][function].apply<false>(v);
      return v[0];
    };
    if (phase == 0) {
      *kept = gate(0, 0, sum[0]);
      a.state_of(image, d, 3)[unit] = gate(1, 0, sum[1]) * old;
      return;
    }
    const float candidate = gate(2, 1, sum[0]);
    h = candidate + *kept * (old - candidate);
  } else {
    const int units[1] = {unit};
    const float sums[most_gates][1] = {{sum[0]}, {sum[1]}, {sum[2]}, {sum[3]}};
    float next[1] = {old}, c[1] = {a.cell == Cell::lstm ? before(a.c, 2) : 0};
    cells_of<false>(
        a, d, units, sums, [&](int gate, int) { return x(gate); }, next, c);
    h = next[0];
    if (a.cell == Cell::lstm) *kept = c[0];
    if (a.cell == Cell::lstm && step == length - 1) put(last, c[0]);
  }
  a.state_of(image, d, 1 - step % 2)[unit] = h;
  put(now, h);
  if (step == length - 1) put(a.steps, h);
}

/// Turns [first, first + count) of all: of each step its phases.
template <class T, int rows>
__global__ void __launch_bounds__(threads, 1)
    recurrent_kernel(const __grid_constant__ RecurrentArgs a, int first, int count) {
  extern __shared__ float operand[];  // [rows][H]
  __shared__ float sums[warps][rows][most_gates][lanes];
  float scale = 1;  // of the codes of this warp's row
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % lanes, warp = static_cast<int>(threadIdx.x) / lanes;
  const int d = static_cast<int>(blockIdx.z), first_image = static_cast<int>(blockIdx.y) * rows;
  const int groups = (a.hidden + lanes - 1) / lanes;
#pragma unroll 1
  for (int turn = first; turn < first + count; ++turn) {
    const int step = turn / a.phases, phase = turn % a.phases, gates = a.phase[phase].gates;
#if __CUDA_ARCH__ >= 900
    if (turn > first) ptx::cluster_sync();
#endif
    for (int i = static_cast<int>(threadIdx.x); i < rows * a.hidden; i += threads) {
      const int image = first_image + i / a.hidden, k = i % a.hidden;
      operand[i] = 0;
      if (image >= a.images) continue;
      if (step > 0 || phase > 0) {
        operand[i] = __ldcg(a.state_of(image, d, phase > 0 ? 3 : step % 2) + k);
      } else if (a.h != nullptr) {
        operand[i] = to_f32(static_cast<const T*>(a.h)[a.place(0, image, d) + k]);
      }
    }
    __syncthreads();
    if (a.scale != nullptr) {
      if (warp < rows) scale = to_codes(operand + warp * a.hidden, a.hidden, lane);
      __syncthreads();
    }
    const std::int64_t before = (d * a.gates + a.phase[phase].first) * groups;
    const T* const weights = static_cast<const T*>(a.weights) + before * lanes * a.hidden + lane;
#pragma unroll 1
    for (int group = static_cast<int>(blockIdx.x); group < groups; group += static_cast<int>(gridDim.x)) {
      float sum[rows][most_gates] = {};
#pragma unroll 4
      for (int k = warp; k < a.hidden; k += warps) {
        const T* const term = weights + (static_cast<std::int64_t>(group) * a.hidden + k) * gates * lanes;
#pragma unroll
        for (int g = 0; g < most_gates; ++g) {
          const float weight = g < gates ? to_f32(term[g * lanes]) : 0;
#pragma unroll
          for (int n = 0; n < rows; ++n) sum[n][g] += operand[n * a.hidden + k] * weight;
        }
      }
#pragma unroll
      for (int i = 0; i < rows * most_gates; ++i)
        sums[warp][i / most_gates][i % most_gates][lane] = sum[i / most_gates][i % most_gates];
      __syncthreads();
      const int unit = group * lanes + lane;
      if (warp < rows && first_image + warp < a.images && unit < a.hidden) {
        float total[most_gates] = {};
#pragma unroll
        for (int i = 0; i < warps * most_gates; ++i)
          total[i % most_gates] += sums[i / most_gates][warp][i % most_gates][lane];
#pragma unroll
        for (int g = 0; g < most_gates; ++g) {
          if (a.scale != nullptr && g < gates) total[g] *= scale * a.scale[(d * a.gates + g) * a.hidden + unit];
        }
        finish<T>(a, step, phase, first_image + warp, d, unit, total);
      }
      __syncthreads();
    }
  }
}

bool takes(const RecurrentProblem& problem, const Preparation& p) {
  return lamina::detail::is_recurrence(problem, p) && is_activation(p.input().format.dtype) &&
         problem.hidden <= most_hidden && p.input().shape[1] <= 65'535 &&
         p.input().shape.numel() <= std::int64_t{1} << 30;
}

std::unique_ptr<Operator> prepare(const RecurrentProblem& problem, const Preparation& p) {
  const Shape& in = p.input().shape;
  const DType type = p.input().format.dtype;
  Constants constants(index(p));
  RecurrentArgs args = arguments_of(problem, p, constants);
  args.weights = constants.add(lamina::detail::weights_by_blocks(problem, lanes, type));
  const bool clusters = p.device.architecture >= 90;
  const int rows = args.images == 1 ? 1 : most_rows, groups = lamina::detail::ceil_div(args.hidden, lanes);
  const int blocks = clusters ? std::min(groups, DeviceDescription::max_cluster) : groups;
  const Launch how = {
      .grid = dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(lamina::detail::ceil_div(args.images, rows)),
                   static_cast<unsigned>(args.directions)),
      .block = dim3(threads),
      .shared_bytes = static_cast<std::size_t>(rows * args.hidden) * sizeof(float),
      .cluster = clusters ? blocks : 1};
  return make_on_device(
      index(p), clusters ? "all steps, a cluster for each direction of some images" : "a launch for each step",
      {.workspace = static_cast<std::size_t>(in[1] * args.directions * 4 * problem.hidden) * sizeof(float)},
      [=, constants = std::move(constants)](Inputs inputs, Outputs outputs, const Execution& execution) {
        const RecurrentArgs a = in_run(args, inputs, outputs, execution);
        const auto stream = static_cast<cudaStream_t>(execution.stream);
        if (a.steps == 0) return check(cudaMemsetAsync(a.y, 0, outputs[0].bytes(), stream));
        with_element_type(type, [&]<class T>(T*) {
          const auto kernel = rows == 1 ? recurrent_kernel<T, 1> : recurrent_kernel<T, most_rows>;
          const int turns = a.steps * a.phases, count = clusters ? turns : 1;
          for (int turn = 0; turn < turns; turn += count) launch_kernel(kernel, how, stream, a, turn, count);
        });
      });
}

constexpr Kernel<RecurrentProblem> table[] = {{"mma", takes_mma, prepare_mma}, {"steps", takes, prepare}};

}  // namespace
}  // namespace cuda::recurrent

template <>
std::span<const Kernel<RecurrentProblem>> Kernels<RecurrentProblem>::cuda() {
  return cuda::recurrent::table;
}

}  // namespace lamina
