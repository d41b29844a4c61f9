// Elementwise work on codes. A thread owns 16 neighbours of the output, or 4 where channels are not whole packs of 16,
// and the first threads of the grid take the few that are left one by one. Codes are a byte each, so that it is
// instructions as much as memory that take the time: the few chains that networks have are compiled, not interpreted.
//
// Shared memory: of the table 8 KB, a copy for each lane in a bank of its own. Preconditions: fewer than 2^31 elements,
// but for the table; the output may be an operand of its size.

#include <algorithm>
#include <cstring>
#include <optional>

#include "lamina/cuda/divider.h"
#include "lamina/cuda/eight_bits/codes.cuh"
#include "lamina/cuda/eight_bits/kernels.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/pointwise_rules.h"
#include "lamina/kernel/rules/walk.h"
#include "lamina/tensor/constants.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, lanes = 32;
constexpr unsigned table_blocks = 2048;  // each fills its copies once

/// What each element goes through: as it is, with the same element or channel of a second array, of codes or of f32, or
/// scaled. Known when compiled: with branches a sum of two reached 2.7 TB/s on an H200 and not 3.4.
enum class Work { as_it_is, with_second, with_floats, scaled };

struct Task {
  const void* input = nullptr;
  Meaning meaning = {}, of_second = {};
  const void* second = nullptr;
  bool product = false, by_channel = false, relu = false;  // `second` is a factor; is of channels
  std::uint32_t channels = 1, gap = 0, image_step = 0;     // gap: from the channels of an input pixel to the next
  Divider by_channels = {}, by_image = {};
  const float *scale = nullptr, *shift = nullptr;  // [channels]
  Results results = {};
  void* output = nullptr;
  int width = 1;
  std::uint32_t count = 0;

  /// Of the n elements from `first` on.
  template <Work work, class T, int n>
  __device__ void run(std::uint32_t first) const {
    constexpr bool with_another = work == Work::with_second || work == Work::with_floats;
    std::uint32_t channel = 0, at = first;
    std::int64_t from = first;
    if (work == Work::scaled || (with_another && by_channel)) {
      const std::uint32_t pixel = by_channels.quotient(first);
      channel = first - pixel * channels, from += std::int64_t{gap} * pixel;
      at = channel + by_image.quotient(first) * image_step;
    }
    float values[n], a[n], b[n];
    read_values(static_cast<const T*>(input) + from, meaning, values);
    if constexpr (with_another) {
      using Second = std::conditional_t<work == Work::with_floats, float, std::uint8_t>;
      read_values(static_cast<const Second*>(second) + at, of_second, a);
      if (product) {
#pragma unroll
        for (int j = 0; j < n; ++j) values[j] = __fmul_rn(values[j], a[j]);
      } else {
#pragma unroll
        for (int j = 0; j < n; ++j) values[j] = __fadd_rn(values[j], a[j]);
      }
    }
    if constexpr (work == Work::scaled) {
      read_values(scale + channel, {}, a);
      read_values(shift + channel, {}, b);
#pragma unroll
      for (int j = 0; j < n; ++j) {
        values[j] = __fmaf_rn(values[j], a[j], b[j]);
        if (relu && values[j] < 0.0f) values[j] = 0.0f;  // NaN stays
      }
    }
    results.write(values, output, first);
  }
};

template <Work work, class T>
__global__ void __launch_bounds__(threads) codes_kernel(const __grid_constant__ Task task) {
  let_successor_start();
  wait_for_predecessor();
  const std::uint32_t thread = blockIdx.x * threads + threadIdx.x, all = gridDim.x * threads;
  const auto each = [&]<int n>(std::integral_constant<int, n>, std::uint32_t begin) {
    for (std::uint32_t i = begin + thread * n; i + n <= task.count; i += all * n) task.run<work, T, n>(i);
  };
  if (task.width == 16) each(std::integral_constant<int, 16>(), 0);
  if (task.width == 4) each(std::integral_constant<int, 4>(), 0);
  const auto width = static_cast<std::uint32_t>(task.width);
  each(std::integral_constant<int, 1>(), width == 1 ? 0 : task.count - task.count % width);
}

struct Table {
  std::uint32_t words[64];
};

__global__ void __launch_bounds__(threads) table_kernel(const __grid_constant__ Table table, const std::uint8_t* input,
                                                        std::uint8_t* output, std::int64_t packs, std::int64_t count) {
  __shared__ std::uint32_t copies[64 * lanes];
  let_successor_start();
  for (unsigned i = threadIdx.x; i < 64 * lanes; i += threads) copies[i] = table.words[i / lanes];
  __syncthreads();
  wait_for_predecessor();
  const auto* mine = reinterpret_cast<const std::uint8_t*>(copies + threadIdx.x % lanes);
  const auto look = [&](std::uint32_t code) -> std::uint32_t { return mine[(code & 0xfcu) * lanes + (code & 3u)]; };
  const std::int64_t first = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = first; i < packs; i += step) {
    Codes<16> pack = reinterpret_cast<const Codes<16>*>(input)[i];
#pragma unroll
    for (std::uint32_t& word : pack.values) {
      word =
          look(word & 0xffu) | look(word >> 8 & 0xffu) << 8 | look(word >> 16 & 0xffu) << 16 | look(word >> 24) << 24;
    }
    reinterpret_cast<Codes<16>*>(output)[i] = pack;
  }
  for (std::int64_t i = packs * 16 + first; i < count; i += step) output[i] = static_cast<std::uint8_t>(look(input[i]));
}

/// `channels`: whatever else the neighbours that a thread takes have to divide.
void start(Task task, DType dtype, std::int64_t count, std::int64_t channels, Stream stream, bool floats = false) {
  const std::uint64_t bits = static_cast<std::uint64_t>(channels) | neighbours_of(task.input, dtype) |
                             neighbours_of(task.second, floats ? DType::f32 : DType::u8) |
                             neighbours_of(task.output, task.results.dtype);
  task.width = bits % 16 == 0 ? 16 : bits % 4 == 0 ? 4 : 1;
  task.count = static_cast<std::uint32_t>(count);
  const Launch how = threads_for(std::max<std::int64_t>(count / task.width, count % task.width), threads);
  using Code = std::uint8_t;
  if (floats) return launch_kernel(codes_kernel<Work::with_floats, Code>, how, stream, task);
  if (task.second != nullptr) return launch_kernel(codes_kernel<Work::with_second, Code>, how, stream, task);
  if (task.scale != nullptr) return launch_kernel(codes_kernel<Work::scaled, Code>, how, stream, task);
  if (size_of(dtype) == 1) return launch_kernel(codes_kernel<Work::as_it_is, Code>, how, stream, task);
  with_element_type(dtype, [&]<class T>(T*) { launch_kernel(codes_kernel<Work::as_it_is, T>, how, stream, task); });
}

/// What is done, but for addresses.
struct CodesTask {
  Task task;
  std::size_t first = 0;        ///< the input of the output's shape
  std::int64_t neighbours = 0;  ///< whatever else has to divide those that a thread takes
  bool floats = false;          ///< the other input is of f32
};

std::optional<CodesTask> task_of(const PointwiseProblem& problem, const Preparation& p) {
  const PointwiseChain& chain = problem.chain;
  const std::span<const View> views = p.inputs;
  const View& result = p.output();
  if (!p.has_codes() || views.size() > 2 || problem.compute != DType::f32 || !detail::is_computable(problem, p) ||
      result.shape.numel() == 0 || result.shape.numel() >= std::int64_t{1} << 31) {
    return std::nullopt;
  }
  const std::vector<detail::WalkAxis> axes = detail::broadcast_walk(result, views);
  const auto whole = [&](std::size_t i) {
    return std::ranges::all_of(axes, [&](const auto& axis) { return axis.strides[i + 1] == axis.strides[0]; });
  };
  CodesTask it;
  it.first = whole(0) ? 0 : views.size() - 1;
  const std::size_t second = 1 - it.first, rank = axes.size();
  if (!whole(it.first)) return std::nullopt;
  Task& task = it.task;
  task.meaning = Meaning(views[it.first]), task.results = Results(result);
  if (views.size() == 1) {
    const auto passes = [](const PointwiseStep& step) { return step.function == Pointwise::identity; };
    const auto known = [](const View& view) { return detail::is_code(view) || is_activation(view.format.dtype); };
    if (!std::ranges::all_of(chain, passes) || !known(views[0]) || !known(result)) return std::nullopt;
    return it;
  }
  it.floats = views[second].format.dtype == DType::f32;  // which NaN may be among
  const auto ordinary = [&](const View& view) {
    return detail::is_code(view) ? view.quantization.scale < 1e15f : &view == &views[second] && it.floats;
  };
  if (chain.empty() || chain.size() > (it.floats ? 1 : 2) || chain[0].operand != 1 || task.results.divides()) {
    return std::nullopt;
  }
  const auto clamp = chain.size() == 1 ? detail::Bounds() : detail::clamp_of(chain[1]);
  task.product = chain[0].function == Pointwise::mul;
  if (!task.product && chain[0].function != Pointwise::add) return std::nullopt;
  if (!clamp || !std::ranges::all_of(views, ordinary) || !detail::is_code(result)) return std::nullopt;
  task.results.clamp(clamp->low, clamp->high);
  task.of_second = Meaning(views[second]);
  task.by_channel = !whole(second);
  if (!task.by_channel) return it;
  // Images, pixels, channels; or, of one image, the last two.
  const auto stride = [&](std::size_t axis) { return axes[axis].strides[second + 1]; };
  if (rank < 2 || rank > 3 || stride(rank - 1) != 1 || stride(rank - 2) != 0) return std::nullopt;
  const std::int64_t channels = axes[rank - 1].extent, image_step = rank == 3 ? stride(0) : 0;
  task.channels = static_cast<std::uint32_t>(channels), task.by_channels = Divider(channels);
  task.image_step = static_cast<std::uint32_t>(image_step);
  task.by_image = Divider(rank == 3 ? axes[0].strides[0] : result.shape.numel());
  it.neighbours = channels | image_step;
  return it;
}

}  // namespace

std::unique_ptr<Operator> prepare_table(const PointwiseProblem& problem, const Preparation& p) {
  Table words;
  const CodeTable table = detail::code_table(problem, p);
  std::memcpy(words.words, table.data(), table.size());
  return make_on_device(index(p), "table of 256", [words](Inputs inputs, Outputs outputs, const Execution& execution) {
    const auto* input = elements<std::uint8_t>(inputs[0]);
    auto* output = elements<std::uint8_t>(outputs[0]);
    const std::int64_t count = outputs[0].numel();
    const std::int64_t packs = aligned_to_16(input) && aligned_to_16(output) ? count / 16 : 0;
    const unsigned grid = std::min(grid_for(packs > 0 ? packs : count, threads), table_blocks);
    launch_kernel(table_kernel, {.grid = dim3(grid), .block = dim3(threads)}, execution.stream, words, input, output,
                  packs, count);
  });
}

bool takes_pointwise_of_codes(const PointwiseProblem& problem, const Preparation& p) {
  return task_of(problem, p).has_value();
}

std::unique_ptr<Operator> prepare_pointwise_of_codes(const PointwiseProblem& problem, const Preparation& p) {
  return make_on_device(index(p), "elementwise, of codes",
                        [it = *task_of(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                          Task task = it.task;
                          task.input = inputs[it.first].raw(), task.output = outputs[0].raw();
                          if (inputs.size() == 2) task.second = inputs[1 - it.first].raw();
                          start(task, inputs[it.first].dtype(), outputs[0].numel(), it.neighbours, execution.stream,
                                it.floats);
                        });
}

bool reads_codes(const Preparation& p) {
  const View &from = p.input(), &to = p.output();
  return p.inputs.size() == 1 && detail::is_code(from) && (detail::is_code(to) || is_activation(to.format.dtype)) &&
         from.format.layout == Layout::nhwc && to.format.layout == Layout::nhwc &&
         to.shape.numel() < std::int64_t{1} << 31;
}

bool takes_affine_of_codes(const AffineProblem&, const Preparation& p) {
  return reads_codes(p) && !p.output().is_slice();
}

std::unique_ptr<Operator> prepare_affine_of_codes(const AffineProblem& problem, const Preparation& p) {
  const Tensor scale = detail::constant(problem.scale, p.device.device),
               shift = detail::constant(problem.shift, p.device.device);
  const std::int64_t channels = p.input().shape[1], pitch = p.input().pixel_pitch();
  const Task task = {.meaning = Meaning(p.input()),
                     .relu = problem.epilogue.relu(),
                     .channels = static_cast<std::uint32_t>(channels),
                     .gap = static_cast<std::uint32_t>(pitch - channels),
                     .by_channels = Divider(channels),
                     .results = Results(p.output())};
  return make_on_device(index(p), "scale and shift of codes",
                        [=](Inputs inputs, Outputs outputs, const Execution& execution) {
                          Task of = task;
                          of.input = inputs[0].raw(), of.output = outputs[0].raw();
                          of.scale = floats(scale), of.shift = floats(shift);
                          start(of, DType::u8, outputs[0].numel(), channels | pitch, execution.stream);
                        });
}

}  // namespace lamina::cuda
