#include "lamina/cuda/conv2d/pair/pair.h"

#include <cstring>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/pair/choice.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::pair {
namespace {

/// What ParametersOf describes, of all slices; zeros where there are no more filters or channels.
std::vector<unsigned char> pack(const ConvPairProblem& problem, const Arguments& args, int kernel, DType type) {
  const ParametersOf offset(args.steps, args.slice, kernel);
  std::vector<unsigned char> packed(static_cast<std::size_t>(args.slices) * static_cast<std::size_t>(offset.bytes));
  const auto put = [&](int slice, std::int64_t at, const auto& value) {
    std::memcpy(packed.data() + std::int64_t{slice} * offset.bytes + at, &value, sizeof(value));
  };
  const auto bits = [&](float w) { return type == DType::f16 ? to_half(w).bits : to_bfloat16(w).bits; };
  const auto rounded = [&](float w) { return type == DType::f16 ? to_float(to_half(w)) : to_float(to_bfloat16(w)); };
  const float* first = lamina::detail::floats(problem.first.weight);
  const float* second = lamina::detail::floats(problem.second.weight);
  const int taps = kernel * kernel;
  for (int filter = 0; filter < args.filters; ++filter) {
    const int slice = filter / args.slice, column = filter % args.slice;
    for (int k = 0; k < args.channels; ++k) {
      // The fragments of mma.m16n8k16, PTX ISA: lane 4 n + k / 2 % 4 holds k, k + 1, k + 8, k + 9 of column n.
      const int fragment = k / 16 * (args.slice / 8) + column / 8;
      const int lane = column % 8 * 4 + k % 8 / 2, element = k % 16 / 8 * 2 + k % 2;
      put(slice, std::int64_t{fragment} * fragment_bytes + lane * 8 + element * 2,
          bits(first[std::int64_t{filter} * args.channels + k]));
    }
    for (int tap = 0; tap < taps; ++tap) {
      put(slice, offset.taps + (tap * args.slice + column) * 4, rounded(second[std::int64_t{filter} * taps + tap]));
    }
    if (problem.first.bias.defined()) {
      put(slice, offset.bias + column * 4, lamina::detail::floats(problem.first.bias)[filter]);
    }
    if (problem.second.bias.defined()) {
      put(slice, offset.last + column * 4, lamina::detail::floats(problem.second.bias)[filter]);
    }
  }
  return packed;
}

class Pair final : public Operator {
 public:
  Pair(const ConvPairProblem& problem, const Preparation& p) : device_(p.device.device.index) {
    auto choice = choose(problem, p);
    if (!choice) lamina::detail::fail("pair: no tile fits this device");
    choice_ = *choice;
    const DType type = p.output().format.dtype;
    reserve_shared_memory(device_, choice_.instance.function, p.device.shared_bytes);
    const auto packed = pack(problem, choice_.args, choice_.instance.kernel, type);
    parameters_ = Constant(device_, packed.data(), packed.size());
    choice_.args.parameters = parameters_.as<unsigned char>();
    choice_.args.between = finish_of(problem.first.epilogue, type);
    choice_.args.finish = finish_of(problem.second.epilogue, type);
  }

  std::string description() const override {
    const Arguments& a = choice_.args;
    const Instance& i = choice_.instance;
    return lamina::detail::concat(
        "pair (mma.sync): ", a.channels, " channels to ", a.slice, " of ", a.filters, " filters of ", a.down * i.rows,
        " x ", a.across * i.columns, " pixels per block, ", i.pack, " channels of ", i.rows, " x ", i.columns,
        " per thread, ", (choice_.shared_bytes + 1023) / 1024, " KB shared memory, ", choice_.blocks, " blocks");
  }

  std::size_t parameter_bytes() const override { return parameters_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    if (outputs[0].numel() == 0) return;  // an empty batch
    const DeviceGuard guard(device_);
    Arguments args = choice_.args;
    args.input = inputs[0].raw();
    args.output = outputs[0].raw();
    void* arguments[] = {&args};
    launch_kernel(choice_.instance.function,
                  {.grid = dim3(static_cast<unsigned>(choice_.blocks)),
                   .block = dim3(threads),
                   .shared_bytes = static_cast<std::size_t>(choice_.shared_bytes)},
                  execution.stream, arguments);
  }

 private:
  int device_;
  Choice choice_;
  Constant parameters_;
};

bool is_pointwise(const ConvGeometry& g) {
  return g.kernel_height == 1 && g.kernel_width == 1 && g.stride_height == 1 && g.stride_width == 1 &&
         g.padding_height == 0 && g.padding_width == 0 && g.groups == 1;
}

bool is_square(const ConvGeometry& g) {
  return g.kernel_height == g.kernel_width && g.stride_height == g.stride_width && g.dilation_height == 1 &&
         g.dilation_width == 1 && g.groups == g.in_channels && g.groups == g.out_channels;
}

}  // namespace

bool takes(const ConvPairProblem& problem, const Preparation& p) {
  const ConvGeometry &a = problem.first.geometry, &b = problem.second.geometry;
  const DType type = storage_type(p.precision);
  const auto fit = [&](const View& view, std::int64_t pixels) {
    return view.format.dtype == type && (view.format.layout == Layout::nhwc || pixels == 1);
  };
  if (p.device.architecture < 80 || size_of(type) != 2 || !p.algorithm.empty() || p.inputs.size() != 1 ||
      problem.first.scaled || problem.second.scaled || !is_pointwise(a) || !is_square(b) || a.in_channels % 2 != 0 ||
      problem.first.epilogue.pool || !is_short(problem.first.epilogue, type) ||
      problem.second.epilogue.reads_operands() || !finish_takes(problem.second.epilogue, p) ||
      !fit(p.input(), a.in_pixels()) || !fit(p.output(), b.out_pixels())) {
    return false;
  }
  // Whether it pays is the layer's where bits must not depend on the batch.
  ConvPairProblem usual = problem;
  for (ConvProblem* part : {&usual.first, &usual.second}) {
    if (p.batch_invariant) part->geometry = lamina::detail::of_images(part->geometry, p, 32);
  }
  const auto choice = choose(usual, p);
  return choice && pays(usual, *choice);
}

std::unique_ptr<Operator> prepare(const ConvPairProblem& problem, const Preparation& preparation) {
  return std::make_unique<Pair>(problem, preparation);
}

}  // namespace lamina::cuda::pair
