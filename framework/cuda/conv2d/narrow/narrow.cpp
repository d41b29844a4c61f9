#include "lamina/cuda/conv2d/narrow/narrow.h"

#include <limits>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/narrow/choice.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::narrow {
namespace {

/// What slice_bytes describes, of all slices; zeros where there are no more filters or channels.
Packed pack(const ConvProblem& problem, const Arguments& args, int n, DType type) {
  const std::int64_t bytes = slice_bytes(args.chunks, n);
  Packed packed(args.slices * bytes);
  const float* weight = lamina::detail::floats(problem.weight);
  for (int slice = 0; slice < args.slices; ++slice) {
    for (int j = 0; j < n; ++j) {
      for (int column = 0; column < 8; ++column) {
        const int own = filter_of(n, j, column), filter = slice * 8 * n + own;
        if (filter >= args.filters) continue;
        for (int k = 0; k < args.channels; ++k) {
          const int lane = column * 4 + k % chunk / 8;
          packed.put(slice * bytes + std::int64_t{k / chunk * n + j} * fragment_bytes + lane * 16 + k % 8 * 2,
                     bits16(weight[std::int64_t{filter} * args.channels + k], type));
        }
        if (!problem.bias.defined()) continue;
        packed.put(slice * bytes + bias_offset(args.chunks, n) + own * 4, lamina::detail::floats(problem.bias)[filter]);
      }
    }
  }
  return packed;
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
  if (p.device.architecture < 80 || size_of(type) != 2 || !lamina::detail::is_of_pixels(g) || g.groups != 1 ||
      g.in_channels % 8 != 0 || g.out_channels % 8 != 0 || p.inputs.size() < operands ||
      g.batch * g.out_pixels() > std::numeric_limits<int>::max() || !fit(p.input(), g.in_pixels()) ||
      !fit(p.output(), g.out_pixels()) || !slices_fit(p)) {
    return false;
  }
  if (problem.scaled && !fit(p.inputs[1], 1)) return false;
  const Epilogue& epilogue = problem.epilogue;
  if (!epilogue.is_residual(static_cast<int>(operands)) || epilogue.chain.size() > max_finish_steps ||
      finish_of(epilogue, type).kind != Finish::Kind::clamp ||
      !lamina::detail::operands_fit(p, static_cast<std::ptrdiff_t>(operands)) ||
      (epilogue.reads_operands() && p.inputs.size() != operands + 1)) {
    return false;
  }
  return keep(choose(problem, p), p);
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  auto choice = kept(p, [&] { return choose(problem, p); });
  if (!choice) lamina::detail::fail("narrow: no tile fits this device");
  Arguments& args = choice->args;
  const Tile& tile = choice->tile;
  const DType type = p.output().format.dtype;
  reserve_shared_memory(p.device.device.index, tile.kernel, p.device.shared_bytes);
  Constants constants(p.device.device.index);
  args.weights = constants.add(pack(problem, args, tile.n, type).bytes());
  args.finish = finish_of(problem.epilogue, type);
  const std::size_t operands = problem.scaled ? 2 : 1;
  return make_launched<Arguments>(
      {.description = lamina::detail::concat(
           "narrow (mma.sync): ", tile.scaled ? "scaled, " : "", 16 * tile.m, " pixels x ", 8 * tile.n,
           " filters per warp, ", args.splits, args.splits == 1 ? " part of K, " : " parts of K, ",
           (choice->shared_bytes + 1023) / 1024, " KB shared memory, ", choice->blocks, " blocks"),
       .kernel = tile.kernel,
       .how = of_blocks(choice->blocks, threads, choice->shared_bytes),
       .args = args,
       .constants = constants,
       .residual = problem.epilogue.reads_operands() ? operands : 0},
      [scaled = problem.scaled](Arguments& a, std::span<const Tensor> inputs, std::span<Tensor>) {
        if (scaled) a.factors = inputs[1].raw();
        return std::tuple();
      });
}

}  // namespace lamina::cuda::narrow
