#include "lamina/cuda/conv2d/ladder/ladder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/ladder/4_tiled.h"
#include "lamina/cuda/conv2d/ladder/kernels.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::ladder {
namespace {

using detail::floats;

/// Parameters on the device, and the arguments that the four kernels written here make of them.
struct Parameters {
  int device;
  Constant weight, bias;  // the weights in the layout of the kernel
  bool relu;

  Parameters(const ConvProblem& problem, const Preparation& p, std::span<const float> packed)
      : device(p.device.device.index),
        weight(device, packed.data(), packed.size_bytes()),
        bias(device, problem.bias.raw(), problem.bias.bytes()),
        relu(problem.epilogue.relu()) {}

  Conv2dArguments arguments(std::span<const Tensor> inputs, std::span<Tensor> outputs) const {
    return {.input = floats(inputs[0]),
            .weight = weight.as<float>(),
            .bias = bias.as<float>(),
            .output = floats(outputs[0]),
            .relu = relu};
  }
};

/// An operator that calls `start(arguments, execution)` on the device of its parameters.
template <class Start>
std::unique_ptr<Operator> make(std::string description, std::size_t workspace, const Parameters& parameters,
                               Start start) {
  return detail::make_operator(
      std::move(description), {.workspace = workspace},
      [parameters, start](std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) {
        const DeviceGuard guard(parameters.device);
        start(parameters.arguments(inputs, outputs), execution);
      });
}

std::unique_ptr<Operator> direct_because(const ConvProblem& problem, const Preparation& p, const std::string& reason) {
  return make("direct: one thread per output" + reason, 0, {problem, p, problem.weight.values<float>()},
              [g = problem.geometry](const Conv2dArguments& arguments, const Execution& execution) {
                conv2d_direct(g, arguments, execution.stream);
              });
}

std::size_t padded_image_bytes(const ConvGeometry& g) {
  if (g.zeros_below() == 0 && g.zeros_right() == 0) return 0;  // the image itself will do
  return static_cast<std::size_t>(g.in_channels * g.padded_height() * g.padded_width()) * sizeof(float);
}

/// [OC, taps] -> [OC / 8, taps, 8].
std::vector<float> packed_by_eights(const ConvGeometry& g, const float* weight) {
  const std::int64_t taps = g.reduction();
  std::vector<float> packed(static_cast<std::size_t>(g.weight_size()));
  for (std::int64_t oc = 0; oc < g.out_channels; ++oc) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      packed[static_cast<std::size_t>((oc / 8 * taps + tap) * 8 + oc % 8)] = weight[oc * taps + tap];
    }
  }
  return packed;
}

std::string describe(const ConvGeometry& g, const TiledPlan& plan) {
  return detail::concat("tiled: ", plan.tile_pixels, " pixels x ",
                        std::min(plan.block_channels(), g.group_out_channels()), " channels per block of ",
                        32 * plan.warps(), " threads, ", plan.thread_pixels, " x ", plan.thread_channels,
                        " per thread, ", plan.stage_channels, " input channels x ", plan.stage_kernel_rows,
                        " kernel rows per stage, ", (plan.shared_bytes() + 1023) / 1024, " KB shared memory");
}

}  // namespace

bool takes(const ConvProblem&, const Preparation& p) {
  // A GPU without the tensor cores that the other kernels need does not round what it multiplies, in any precision.
  const bool exact = p.precision == Precision::fp32 || p.device.architecture < 80;
  return p.is_plain() && exact;
}

std::unique_ptr<Operator> prepare_direct(const ConvProblem& problem, const Preparation& p) {
  return direct_because(problem, p, "");
}

/// Pads as many images as the workspace holds, convolves them, and goes on with the next ones.
std::unique_ptr<Operator> prepare_padded(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const std::size_t image = padded_image_bytes(g);
  if (image > p.workspace_limit) {
    return direct_because(
        problem, p,
        detail::concat(" (a padded image takes ", image, " bytes of workspace, the limit is ", p.workspace_limit, ')'));
  }
  const std::int64_t fit = image == 0 ? g.batch : static_cast<std::int64_t>(p.workspace_limit / image);
  const std::int64_t images = std::min(g.batch, fit);
  return make(detail::concat("direct_padded: one thread per output over ", images, " padded images at a time"),
              static_cast<std::size_t>(images) * image, {problem, p, problem.weight.values<float>()},
              [g, images, pads = image != 0](Conv2dArguments a, const Execution& execution) {
                ConvGeometry slice = g;
                for (std::int64_t first = 0; first < g.batch; first += images) {
                  slice.batch = std::min(images, g.batch - first);
                  Conv2dArguments part = a;
                  part.input += first * g.in_channels * g.in_pixels();
                  part.output += first * g.out_channels * g.out_pixels();
                  if (pads) {
                    pad_images(slice, part.input, static_cast<float*>(execution.workspace), execution.stream);
                    part.input = static_cast<const float*>(execution.workspace);
                  }
                  conv2d_direct_padded(slice, part, execution.stream);
                }
              });
}

std::unique_ptr<Operator> prepare_fixed(const ConvProblem& problem, const Preparation& p) {
  if (!conv2d_direct_fixed_supports(problem.geometry)) {
    return direct_because(problem, p, " (direct_fixed is compiled for AlexNet's first layer only)");
  }
  return make("direct_fixed: one thread per pixel of eight filters, geometry constant", 0,
              {problem, p, packed_by_eights(problem.geometry, floats(problem.weight))},
              [g = problem.geometry](const Conv2dArguments& arguments, const Execution& execution) {
                conv2d_direct_fixed(g, arguments, execution.stream);
              });
}

std::unique_ptr<Operator> prepare_tiled(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  // Bits depend on the channels and kernel rows of a stage, each of which is a sum by itself: the plan is that of a
  // usual batch where no other may make a difference.
  const ConvGeometry usual = p.batch_invariant ? detail::of_images(g, p, 32) : g;
  auto plan = plan_conv2d_tiled(
      usual, {.multiprocessors = p.device.multiprocessors,
              .shared_per_block = static_cast<std::size_t>(p.device.shared_bytes),
              .shared_per_multiprocessor = static_cast<std::size_t>(p.device.multiprocessor_shared_bytes)});
  if (!plan) {
    return direct_because(problem, p,
                          detail::concat(" (no tile fits a kernel row of ", g.kernel_width, " taps, dilation ",
                                         g.dilation_width, ", output ", g.out_height, " x ", g.out_width, ")"));
  }
  plan->blocks = plan->blocks / usual.batch * g.batch;
  reserve_shared_memory(p.device.device.index, conv2d_tiled_function(*plan), p.device.shared_bytes);
  return make(
      describe(g, *plan), 0, {problem, p, pack_conv2d_tiled(g, *plan, floats(problem.weight))},
      [g, plan = *plan, taps = tiled_taps(g, *plan)](const Conv2dArguments& arguments, const Execution& execution) {
        conv2d_tiled(g, plan, taps, arguments, execution.stream);
      });
}

}  // namespace lamina::cuda::ladder
