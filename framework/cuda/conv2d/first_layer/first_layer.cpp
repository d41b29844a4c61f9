#include "lamina/cuda/conv2d/first_layer/first_layer.h"

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/pack.h"
#include "lamina/cuda/conv2d/first_layer/plan.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/constant.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cuda::first_layer {
namespace {

Limits limits(const DeviceDescription& device, const Instance& instance) {
  return {.multiprocessors = device.multiprocessors,
          .shared_bytes = device.shared_bytes - instance.static_shared_bytes,
          .computing_groups = instance.computing_groups,
          .raw_slots = instance.raw_slots};
}

/// The same for all counts of filters.
Limits limits(const Preparation& p) { return limits(p.device, instance(p.precision, p.output().format.dtype, 32)); }

class FirstLayer final : public Operator {
 public:
  FirstLayer(const ConvProblem& problem, const Preparation& preparation, const Plan& plan)
      : device_(preparation.device.device.index),
        plan_(plan),
        instance_(instance(preparation.precision, preparation.output().format.dtype, plan.filters)) {
    const Packed packed = pack(plan_, order_steps(plan_.params), preparation.precision, detail::floats(problem.weight),
                               detail::floats(problem.bias));
    Params& p = plan_.params;
    const auto upload = [&](Constant& buffer, const auto& values) {
      buffer = Constant(device_, values.data(), values.size() * sizeof(values[0]));
    };
    upload(weights_, packed.operands), p.weights = weights_.data();
    upload(scale_, packed.scale), p.scale = scale_.as<float>();
    upload(bias_, packed.bias), p.bias = bias_.as<float>();
    upload(exact_, packed.exact), p.exact_weights = exact_.as<float>();
    upload(inexact_, packed.inexact), p.inexact = inexact_.as<std::uint8_t>();
    p.tolerated = packed.tolerated;
    for (const std::uint8_t flag : packed.inexact) p.any_inexact |= flag != 0;
    reserve_shared_memory(device_, instance_.function, limits(preparation.device, instance_).shared_bytes);
  }

  std::string description() const override {
    const Params& p = plan_.params;
    return detail::concat("first_layer (wgmma): ", tile_pixels, " pixels x ", plan_.filters, " channels, ", p.steps,
                          " k16 steps", plan_.split ? " x 3 products" : "", ", ring of ", p.ring_rows, " rows",
                          p.strips > 1 ? " in strips" : "", p.pool_kernel != 0 ? ", pooled" : "", ", ", plan_.blocks,
                          " blocks, ", (plan_.shared_bytes + 1023) / 1024, " KB shared memory",
                          p.any_inexact ? ", some filters in plain fp32" : "");
  }

  std::size_t parameter_bytes() const override {
    return weights_.bytes() + scale_.bytes() + bias_.bytes() + exact_.bytes() + inexact_.bytes();
  }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    Params params = plan_.params;
    params.input = inputs[0].raw();
    params.output = outputs[0].raw();
    void* arguments[] = {&params};
    launch_kernel(instance_.function,
                  {.grid = dim3(static_cast<unsigned>(plan_.blocks)),
                   .block = dim3(static_cast<unsigned>(instance_.block_threads)),
                   .shared_bytes = static_cast<std::size_t>(plan_.shared_bytes)},
                  execution.stream, arguments);
  }

 private:
  int device_;
  Plan plan_;
  Instance instance_;
  Constant weights_, scale_, bias_, exact_, inexact_;
};

}  // namespace

namespace {

/// A pooled map may be a slice of the channels of another, 16 bytes at a time.
bool slices_fit(const ConvProblem& problem, const Preparation& p) {
  return !p.has_slices() || (problem.epilogue.pool && !p.input().is_slice() && p.output().alignment % 16 == 0 &&
                             p.output().channels < std::int64_t{1} << 20);
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const auto stored = [&](const View& view) {
    return view.format.dtype == DType::f32 || view.format.dtype == storage_type(p.precision);
  };
  if (!p.device.wgmma || !stored(p.input()) || !stored(p.output()) || !slices_fit(problem, p)) return false;
  if (!is_short(problem.epilogue, p.output().format.dtype) || problem.scaled || !expressible(problem.geometry)) {
    return false;
  }
  if (problem.epilogue.pool && !poolable(problem, p)) return false;
  return plan(problem, p, limits(p)).has_value();
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  return std::make_unique<FirstLayer>(problem, p, *plan(problem, p, limits(p)));
}

}  // namespace lamina::cuda::first_layer
