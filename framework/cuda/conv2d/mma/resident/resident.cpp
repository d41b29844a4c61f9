#include <algorithm>
#include <iterator>
#include <numeric>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/mma/mma.h"
#include "lamina/cuda/conv2d/mma/resident/choice.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/eight_bits.h"

namespace lamina::cuda::mma::resident {
namespace {

/// Slices are written, not read.
bool slices_fit(const Preparation& p) {
  return !p.has_slices() || (p.inputs.size() == 1 && !p.input().is_slice() && p.output().format.layout == Layout::nhwc);
}

}  // namespace

bool takes_codes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  return p.device.architecture >= 80 && eight_bits::ends_in_codes(problem, p) && g.group_in_channels() % 2 == 0 &&
         g.group_out_channels() % 2 == 0 && p.output().pixel_pitch() % 2 == 0 && p.output().alignment % 2 == 0 &&
         lamina::detail::is_channels_last(p.input()) && lamina::detail::is_channels_last(p.output()) && slices_fit(p) &&
         keep(choose(g, p), p);
}

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const auto fit = [&](const View& view, std::int64_t pixels) {
    return view.format.dtype == storage_type(p.precision) && (view.format.layout == Layout::nhwc || pixels == 1);
  };
  return p.device.architecture >= 80 && finish_takes(problem.epilogue, p) && fit(p.input(), g.in_pixels()) &&
         fit(p.output(), g.out_pixels()) && slices_fit(p) && keep(choose(g, p), p);
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  const auto choice = kept(p, [&] { return choose(problem.geometry, p); });
  if (!choice) lamina::detail::fail("mma: no tile fits this device");
  const int device = p.device.device.index;
  reserve_shared_memory(device, choice->tile.kernel, p.device.shared_bytes);
  Constants constants(device);
  Arguments args = choice->args;
  std::optional<lamina::detail::ChannelEnd> codes;
  std::vector<float> whole;
  if (p.has_codes()) {
    args.codes = eight_bits::ends_of_codes(problem, p, constants, codes);
    args.padding = static_cast<std::uint8_t>(p.input().quantization.zero_point) * 0x01010101u;
    std::ranges::copy(problem.eight.weight.values<std::int8_t>(), std::back_inserter(whole));
  } else {
    args.finish = finish_of(problem.epilogue, p.output().format.dtype);
  }
  const Parameters packed =
      pack(args, p.precision, codes ? whole.data() : lamina::detail::floats(problem.weight),
           problem.bias.defined() ? lamina::detail::floats(problem.bias) : nullptr, codes ? &*codes : nullptr);
  const View& output = p.output();
  const DType type = output.format.dtype;
  const bool adds = problem.epilogue.reads_operands();
  const std::size_t alignment = adds ? std::gcd(output.alignment, p.inputs[1].alignment) : output.alignment;
  args.output_pitch = static_cast<int>(output.is_slice() ? output.channels : problem.geometry.out_channels);
  args.paired = args.output_pitch % 2 == 0 && output.alignment % (2 * size_of(type)) == 0;
  args.store_width =
      std::gcd(std::gcd(args.store_width, args.output_pitch), static_cast<int>(alignment / size_of(type)));
  args.weight = constants.add(packed.weights);
  args.bias = constants.add(packed.biases.bytes());
  args.ranges = constants.add(packed.ranges);
  const Bundling& b = args.bundling;
  return make_launched(Launched<Arguments>{
      .description = lamina::detail::concat(
          codes ? "int8_mma (mma.sync" : lamina::detail::concat("mma (mma.sync, ", name(p.precision)),
          "): ", args.block_bundles, " of ", b.count, " bundles of ", b.filters, " filters x ", b.channels,
          " channels, ", args.y.tile, " x ", args.x.tile, " pixels per block, tile ", choice->tile.m, " x ",
          choice->tile.n, ", ", args.chunks, " chunks, ", (choice->shared_bytes + 1023) / 1024, " KB shared memory, ",
          choice->blocks, " blocks"),
      .kernel = choice->tile.kernel,
      .how = of_blocks(choice->blocks, threads, choice->shared_bytes),
      .args = args,
      .constants = constants,
      .residual = adds ? 1u : 0u});
}

}  // namespace lamina::cuda::mma::resident
