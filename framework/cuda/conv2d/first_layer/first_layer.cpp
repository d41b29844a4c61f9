#include "lamina/cuda/conv2d/first_layer/first_layer.h"

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/first_layer/instance.h"
#include "lamina/cuda/conv2d/first_layer/pack.h"
#include "lamina/cuda/conv2d/first_layer/plan.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/short_finish.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/patches.h"

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
  if (lamina::detail::turns_few_channels(problem.geometry, p)) return false;
  if (!p.device.wgmma || !stored(p.input()) || !stored(p.output()) || !slices_fit(problem, p)) return false;
  if (!is_short(problem.epilogue, p.output().format.dtype) || !expressible(problem.geometry)) {
    return false;
  }
  if (problem.epilogue.pool && !poolable(problem, p)) return false;
  return keep(plan(problem, p, limits(p)), p);
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  Plan plan = *kept(preparation, [&] { return first_layer::plan(problem, preparation, limits(preparation)); });
  Params& p = plan.params;
  const Instance kernel = instance(preparation.precision, preparation.output().format.dtype, plan.filters);
  const Packed packed =
      pack(plan, order_steps(p), preparation.precision, detail::floats(problem.weight), detail::floats(problem.bias));
  Constants constants(preparation.device.device.index);
  p.weights = constants.add(packed.operands);
  p.scale = constants.add(packed.scale);
  p.bias = constants.add(packed.bias);
  p.exact_weights = constants.add(packed.exact);
  p.inexact = constants.add(packed.inexact);
  p.tolerated = packed.tolerated;
  for (const std::uint8_t flag : packed.inexact) p.any_inexact |= flag != 0;
  reserve_shared_memory(constants.device(), kernel.function, limits(preparation.device, kernel).shared_bytes);
  return make_launched<Params>(
      {.description = detail::concat(
           "first_layer (wgmma): ", tile_pixels, " pixels x ", plan.filters, " channels, ", p.steps, " k16 steps",
           plan.split ? " x 3 products" : "", ", ring of ", p.ring_rows, " rows", p.strips > 1 ? " in strips" : "",
           p.pool_kernel != 0 ? ", pooled" : "", ", ", plan.blocks, " blocks, ", (plan.shared_bytes + 1023) / 1024,
           " KB shared memory", p.any_inexact ? ", some filters in plain fp32" : ""),
       .kernel = kernel.function,
       .how = of_blocks(plan.blocks, kernel.block_threads, plan.shared_bytes),
       .args = p,
       .constants = constants});
}

}  // namespace lamina::cuda::first_layer
