#include "lamina/cuda/conv2d/narrow/narrow.h"

#include <cstring>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/narrow/choice.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::narrow {
namespace {

/// What slice_bytes describes, of all slices; zeros where there are no more filters or channels.
std::vector<unsigned char> pack(const ConvProblem& problem, const Arguments& args, int n, DType type) {
  const int bytes = slice_bytes(args.chunks, n);
  std::vector<unsigned char> packed(static_cast<std::size_t>(args.slices) * static_cast<std::size_t>(bytes));
  const auto put = [&](int slice, std::int64_t at, const auto& value) {
    std::memcpy(packed.data() + std::int64_t{slice} * bytes + at, &value, sizeof(value));
  };
  const auto bits = [&](float w) { return type == DType::f16 ? to_half(w).bits : to_bfloat16(w).bits; };
  const float* weight = lamina::detail::floats(problem.weight);
  for (int slice = 0; slice < args.slices; ++slice) {
    for (int j = 0; j < n; ++j) {
      for (int column = 0; column < 8; ++column) {
        const int own = filter_of(n, j, column), filter = slice * 8 * n + own;
        if (filter >= args.filters) continue;
        for (int k = 0; k < args.channels; ++k) {
          const int lane = column * 4 + k % chunk / 8;
          put(slice, std::int64_t{k / chunk * n + j} * fragment_bytes + lane * 16 + k % 8 * 2,
              bits(weight[std::int64_t{filter} * args.channels + k]));
        }
        const float bias = problem.bias.defined() ? lamina::detail::floats(problem.bias)[filter] : 0.0f;
        put(slice, bias_offset(args.chunks, n) + own * 4, bias);
      }
    }
  }
  return packed;
}

class Narrow final : public Operator {
 public:
  Narrow(const ConvProblem& problem, const Preparation& p)
      : device_(p.device.device.index), residual_(problem.epilogue.reads_operands() ? (problem.scaled ? 2u : 1u) : 0u) {
    const auto choice = choose(problem, p);
    if (!choice) lamina::detail::fail("narrow: no tile fits this device");
    choice_ = *choice;
    const DType type = p.output().format.dtype;
    reserve_shared_memory(device_, choice_.tile.kernel, p.device.shared_bytes);
    const auto packed = pack(problem, choice_.args, choice_.tile.n, type);
    weights_ = Constant(device_, packed.data(), packed.size());
    choice_.args.weights = weights_.as<unsigned char>();
    choice_.args.finish = finish_of(problem.epilogue, type);
  }

  std::string description() const override {
    const Arguments& a = choice_.args;
    return lamina::detail::concat(
        "narrow (mma.sync): ", choice_.tile.scaled ? "scaled, " : "", 16 * choice_.tile.m, " pixels x ",
        8 * choice_.tile.n, " filters per warp, ", a.splits, a.splits == 1 ? " part of K, " : " parts of K, ",
        (choice_.shared_bytes + 1023) / 1024, " KB shared memory, ", choice_.blocks, " blocks");
  }

  bool heeds_neighbours() const override { return true; }

  std::size_t parameter_bytes() const override { return weights_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    if (outputs[0].numel() == 0) return;  // an empty batch
    const DeviceGuard guard(device_);
    Arguments args = choice_.args;
    args.input = inputs[0].raw();
    args.output = outputs[0].raw();
    args.neighbours = execution.neighbours;
    if (choice_.tile.scaled) args.factors = inputs[1].raw();
    if (residual_ > 0) args.finish.residual = inputs[residual_].raw();
    void* arguments[] = {&args};
    launch_kernel(choice_.tile.kernel,
                  {.grid = dim3(static_cast<unsigned>(choice_.blocks)),
                   .block = dim3(threads),
                   .shared_bytes = static_cast<std::size_t>(choice_.shared_bytes)},
                  execution.stream, arguments);
  }

 private:
  int device_;
  std::size_t residual_;  // which input; 0: none
  Choice choice_;
  Constant weights_;
};

/// Wider layers are channels_last's.
constexpr int most_filters = 320;
/// Of up to so many filters it takes a half to a quarter of channels_last's time, whose tiles have 64.
constexpr int few_filters = 32;
/// Products from which on wgmma gains: for its own sake, and over a step that multiplies the image by its factors.
constexpr double most_products = 5e8, most_scaled_products = 1.2e9;

/// The layer in a usual plan where batches must not matter.
double products(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return (p.batch_invariant ? lamina::detail::of_images(g, p, 32) : g).flops() / 2;
}

/// The output may be a slice of channels.
bool slices_fit(const Preparation& p) {
  return !p.has_slices() || (!p.input().is_slice() && p.output().pixel_pitch() % 8 == 0);
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const DType type = storage_type(p.precision);
  const std::size_t operands = problem.scaled ? 2 : 1;
  const auto fit = [&](const View& view, std::int64_t pixels) {
    return view.format.dtype == type && (view.format.layout == Layout::nhwc || pixels == 1) && view.alignment % 16 == 0;
  };
  const bool pointwise = g.kernel_height == 1 && g.kernel_width == 1 && g.stride_height == 1 && g.stride_width == 1 &&
                         g.padding_height == 0 && g.padding_width == 0 && g.groups == 1;
  if (p.device.architecture < 80 || size_of(type) != 2 || !pointwise || g.in_channels % 8 != 0 ||
      g.out_channels % 8 != 0 || g.out_channels > most_filters || p.inputs.size() < operands ||
      g.batch * g.out_pixels() > std::numeric_limits<int>::max() || !fit(p.input(), g.in_pixels()) ||
      !fit(p.output(), g.out_pixels()) || !slices_fit(p)) {
    return false;
  }
  if (problem.scaled &&
      (!fit(p.inputs[1], 1) || (g.out_channels > few_filters && products(problem, p) > most_scaled_products))) {
    return false;
  }
  const Epilogue& epilogue = problem.epilogue;
  if (!epilogue.is_residual(static_cast<int>(operands)) || epilogue.chain.size() > max_finish_steps ||
      finish_of(epilogue, type).kind != Finish::Kind::clamp ||
      !lamina::detail::operands_fit(p, static_cast<std::ptrdiff_t>(operands)) ||
      (epilogue.reads_operands() && p.inputs.size() != operands + 1)) {
    return false;
  }
  return choose(problem, p).has_value();
}

/// In a network it counts what runs beside it, too: among dense layers, which end in a ReLU, its blocks leave
/// channels_last's no registers to begin with, and ResNet50 at N = 1 took 7 % longer (experiment D11). Linear
/// bottlenecks (Sandler et al., "MobileNetV2", 2018) come behind depthwise layers, which it suits.
bool pays(const ConvProblem& problem, const Preparation& p) {
  if (p.device.architecture < 90) return false;
  const PointwiseChain& chain = problem.epilogue.chain;
  const bool linear = chain.empty() || (chain.size() == 1 && chain[0].operand >= 0);
  return problem.scaled || problem.geometry.out_channels <= few_filters ||
         (linear && products(problem, p) <= most_products);
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<Narrow>(problem, preparation);
}

}  // namespace lamina::cuda::narrow
