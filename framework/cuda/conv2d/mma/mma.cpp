#include "lamina/cuda/conv2d/mma/mma.h"

#include <numeric>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/mma/choice.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cuda::mma {
namespace {

class Mma final : public Operator {
 public:
  Mma(const ConvProblem& problem, const Preparation& p)
      : device_(p.device.device.index), precision_(p.precision), residual_(problem.epilogue.reads_operands()) {
    auto choice = choose(problem.geometry, p);
    if (!choice) lamina::detail::fail("mma: no tile fits this device");
    choice_ = *choice;
    reserve_shared_memory(device_, choice_.tile.kernel, p.device.shared_bytes);
    const Packed packed = pack(choice_.args, precision_, lamina::detail::floats(problem.weight),
                               problem.bias.defined() ? lamina::detail::floats(problem.bias) : nullptr);
    weight_ = Constant(device_, packed.weights.data(), packed.weights.size());
    bias_ = Constant(device_, packed.biases.data(), packed.biases.size() * sizeof(float));
    ranges_ = Constant(device_, packed.ranges.data(), packed.ranges.size() * sizeof(FilterRange));
    Arguments& args = choice_.args;
    const View& output = p.output();
    args.output_pitch = static_cast<int>(output.is_slice() ? output.channels : problem.geometry.out_channels);
    args.paired = args.output_pitch % 2 == 0 && output.alignment % (2 * size_of(output.format.dtype)) == 0;
    std::size_t alignment = output.alignment;
    if (residual_) alignment = std::gcd(alignment, p.inputs[1].alignment);
    args.store_width = std::gcd(std::gcd(args.store_width, args.output_pitch),
                                static_cast<int>(alignment / size_of(output.format.dtype)));
    args.weight = weight_.data();
    args.bias = bias_.as<float>();
    args.ranges = ranges_.as<FilterRange>();
    args.finish = finish_of(problem.epilogue, p.output().format.dtype);
  }

  std::string description() const override {
    const Arguments& a = choice_.args;
    return lamina::detail::concat("mma (mma.sync, ", name(precision_), "): ", a.block_bundles, " of ", a.bundling.count,
                                  " bundles of ", a.bundling.filters, " filters x ", a.bundling.channels, " channels, ",
                                  a.y.tile, " x ", a.x.tile, " pixels per block, tile ", choice_.tile.m, " x ",
                                  choice_.tile.n, ", ", a.chunks, " chunks, ", (choice_.shared_bytes + 1023) / 1024,
                                  " KB shared memory, ", choice_.blocks, " blocks");
  }

  std::size_t parameter_bytes() const override { return weight_.bytes() + bias_.bytes() + ranges_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    if (outputs[0].numel() == 0) return;  // an empty batch
    const DeviceGuard guard(device_);
    Arguments args = choice_.args;
    args.input = inputs[0].raw();
    args.output = outputs[0].raw();
    if (residual_) args.finish.residual = inputs[1].raw();
    void* arguments[] = {&args};
    launch_kernel(choice_.tile.kernel,
                  {.grid = dim3(static_cast<unsigned>(choice_.blocks)),
                   .block = dim3(threads),
                   .shared_bytes = static_cast<std::size_t>(choice_.shared_bytes)},
                  execution.stream, arguments);
  }

 private:
  int device_;
  Precision precision_;
  bool residual_;
  Choice choice_;
  Constant weight_, bias_, ranges_;
};

/// What other kernels do better has to be asked for by name: dense layers but for those whose channels fill no units of
/// 16 bytes, images of few channels, and large windows over groups that are wide enough for implicit_gemm.
bool left_to_it(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  if (g.groups > 1) return g.group_out_channels() < 128 || g.kernel_height * g.kernel_width == 1;
  // To add something here instead of in a step behind channels_last takes more time than it saves.
  if (p.device.wgmma) return !problem.epilogue.reads_operands() && (g.in_channels > 4 || g.in_pixels() == 1);
  return g.in_channels > 4 &&
         static_cast<std::size_t>(g.in_channels) * size_of(storage_type(p.precision)) % unit_bytes != 0;
}

/// Slices are written, not read.
bool slices_fit(const Preparation& p) {
  return !p.has_slices() || (p.inputs.size() == 1 && !p.input().is_slice() && p.output().format.layout == Layout::nhwc);
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const auto fit = [&](const View& view, std::int64_t pixels) {
    return view.format.dtype == storage_type(p.precision) && (view.format.layout == Layout::nhwc || pixels == 1);
  };
  return (left_to_it(problem, p) || !p.algorithm.empty()) && p.device.architecture >= 80 &&
         finish_takes(problem.epilogue, p) && !problem.scaled && fit(p.input(), g.in_pixels()) &&
         fit(p.output(), g.out_pixels()) && slices_fit(p) && choose(g, p).has_value();
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<Mma>(problem, preparation);
}

}  // namespace lamina::cuda::mma
