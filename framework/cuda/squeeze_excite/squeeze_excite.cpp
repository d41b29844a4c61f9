#include "lamina/cuda/squeeze_excite/squeeze_excite.h"

#include <cstring>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"

namespace lamina {
namespace cuda::squeeze_excite {
namespace {

/// An image of more takes longer by eight blocks than by all multiprocessors in four launches: 24 MB/ms for each block,
/// and some 3 us for each launch.
constexpr std::int64_t most_bytes = 2 << 20;

Arguments arguments_of(const SqueezeExciteProblem& problem, const View& input) {
  Arguments args;
  args.pixels = static_cast<int>(input.shape[2] * input.shape[3]);
  args.channels = static_cast<int>(input.shape[1]);
  args.hidden = problem.squeeze.geometry.out_channels;
  args.rows = lamina::detail::ceil_div(args.hidden, blocks);
  args.outs = lamina::detail::ceil_div(args.channels, blocks);
  return args;
}

/// What ParametersOf describes, of all blocks; zeros where there are no more values.
std::vector<unsigned char> packed(const SqueezeExciteProblem& problem, const Arguments& args, DType type) {
  const ParametersOf offset(args.channels, args.hidden, args.rows, args.outs);
  std::vector<unsigned char> result(static_cast<std::size_t>(blocks) * static_cast<std::size_t>(offset.bytes));
  const auto put = [&](int block, int at, const auto& value) {
    std::memcpy(result.data() + std::int64_t{block} * offset.bytes + at, &value, sizeof(value));
  };
  const auto bits = [&](float w) { return type == DType::f16 ? to_half(w).bits : to_bfloat16(w).bits; };
  const auto bias = [](const ConvProblem& conv, int i) {
    return conv.bias.defined() ? lamina::detail::floats(conv.bias)[i] : 0.0f;
  };
  const float* first = lamina::detail::floats(problem.squeeze.weight);
  const float* second = lamina::detail::floats(problem.excite.weight);
  for (int s = 0; s < args.hidden; ++s) {
    const int block = s / args.rows, row = s % args.rows;
    for (int c = 0; c < args.channels; ++c) {
      put(block, (row * args.channels + c) * 2, bits(first[std::int64_t{s} * args.channels + c]));
    }
    put(block, offset.bias + row * 4, bias(problem.squeeze, s));
  }
  for (int c = 0; c < args.channels; ++c) {
    const int block = c / args.outs, out = c % args.outs;
    for (int s = 0; s < args.hidden; ++s) {
      put(block, offset.second + (s * args.outs + out) * 2, bits(second[std::int64_t{c} * args.hidden + s]));
    }
    put(block, offset.second_bias + out * 4, bias(problem.excite, c));
  }
  return result;
}

bool is_layer(const ConvProblem& problem, const Preparation& p) {
  return problem.geometry.groups == 1 && !problem.scaled && !problem.epilogue.reads_operands() &&
         finish_takes(problem.epilogue, p);
}

}  // namespace

bool takes(const SqueezeExciteProblem& problem, const Preparation& p) {
  const Format stored = {storage_type(p.precision), Layout::nhwc};
  if (p.device.architecture < 90 || !p.algorithm.empty() || p.inputs.size() != 1 || size_of(stored.dtype) != 2 ||
      p.input().format != stored || p.output().format != stored || p.input().shape != p.output().shape) {
    return false;
  }
  const Shape& shape = p.input().shape;
  if (shape[1] % pack != 0 || shape[1] > std::int64_t{threads} * pack || shape[2] * shape[3] > most_bytes ||
      shape[1] * shape[2] * shape[3] * 2 > most_bytes || p.input().alignment % 16 != 0 ||
      p.output().alignment % 16 != 0) {
    return false;
  }
  return is_layer(problem.squeeze, p) && is_layer(problem.excite, p) &&
         shared_bytes(arguments_of(problem, p.input())) <= p.device.shared_bytes;
}

std::unique_ptr<Operator> prepare(const SqueezeExciteProblem& problem, const Preparation& p) {
  const int device = p.device.device.index;
  const DType type = p.output().format.dtype;
  Arguments args = arguments_of(problem, p.input());
  args.squeeze = finish_of(problem.squeeze.epilogue, type), args.excite = finish_of(problem.excite.epilogue, type);
  const std::vector<unsigned char> all = packed(problem, args, type);
  const Constant parameters(device, all.data(), all.size());
  args.parameters = parameters.as<unsigned char>();
  reserve_shared_memory(device, kernel(type), p.device.shared_bytes);
  return lamina::detail::make_operator(
      lamina::detail::concat("cluster of ", blocks, " blocks: ", args.channels, " channels, ", args.hidden, " between"),
      {.parameters = parameters.bytes()},
      [=](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        if (outputs[0].numel() == 0) return;  // an empty batch
        const DeviceGuard guard(device);
        Arguments with = args;
        with.input = inputs[0].raw(), with.output = outputs[0].raw();
        with.parameters = parameters.as<unsigned char>();  // which the operator keeps
        void* arguments[] = {&with};
        launch_kernel(kernel(type),
                      {.grid = dim3(static_cast<unsigned>(outputs[0].shape()[0] * blocks)),
                       .block = dim3(threads),
                       .shared_bytes = static_cast<std::size_t>(shared_bytes(with)),
                       .cluster = blocks},
                      execution.stream, arguments);
      });
}

}  // namespace cuda::squeeze_excite

template <>
std::span<const Kernel<SqueezeExciteProblem>> Kernels<SqueezeExciteProblem>::cuda() {
  static constexpr Kernel<SqueezeExciteProblem> table[] = {
      {"squeeze_excite", cuda::squeeze_excite::takes, cuda::squeeze_excite::prepare}};
  return table;
}

}  // namespace lamina
