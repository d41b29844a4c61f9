#include "lamina/cuda/conv2d/narrow/narrow.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/cuda/conv2d/narrow/choice.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/epilogue_rules.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::narrow {
namespace {

/// What slice_bytes describes, of all slices; zeros where there are no more filters or channels. `codes`: of a problem
/// of codes.
Packed pack(const ConvProblem& problem, const Arguments& args, int n, DType type,
            const std::optional<lamina::detail::ChannelEnd>& codes) {
  const std::int64_t bytes = slice_bytes(args.chunks, n, codes.has_value()), ends = bias_offset(args.chunks, n);
  const int size = codes ? 1 : 2, channels = chunk_bytes / size;
  Packed packed(args.slices * bytes);
  for (int slice = 0; slice < args.slices; ++slice) {
    for (int j = 0; j < n; ++j) {
      for (int column = 0; column < 8; ++column) {
        const int own = filter_of(n, j, column), filter = slice * 8 * n + own;
        if (filter >= args.filters) continue;
        for (int k = 0; k < args.channels; ++k) {
          const std::int64_t to =
              slice * bytes + std::int64_t{k / channels * n + j} * fragment_bytes + column * 64 + k % channels * size;
          const std::int64_t from = std::int64_t{filter} * args.channels + k;
          if (codes) {
            packed.put(to, problem.eight.weight.values<std::int8_t>()[static_cast<std::size_t>(from)]);
          } else {
            packed.put(to, bits16(lamina::detail::floats(problem.weight)[from], type));
          }
        }
        const std::int64_t end = slice * bytes + ends + own * 4;
        if (codes) {
          packed.put(end, codes->bias[static_cast<std::size_t>(filter)]);
          packed.put(end + n * 32, codes->factor[static_cast<std::size_t>(filter)]);
        } else if (problem.bias.defined()) {
          packed.put(end, lamina::detail::floats(problem.bias)[filter]);
        }
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
  const bool codes = lamina::detail::is_code(p.input());
  const DType type = codes ? p.input().format.dtype : storage_type(p.precision);
  const std::size_t operands = problem.scaled() ? 2 : 1;
  const auto fit = [&](const View& view, std::int64_t pixels, DType stored) {
    return view.format.dtype == stored && (view.format.layout == Layout::nhwc || pixels == 1) &&
           view.alignment % 16 == 0;
  };
  if (p.device.architecture < 80 || size_of(type) != (codes ? 1 : 2) || !lamina::detail::is_of_pixels(g) ||
      g.groups != 1 || g.in_channels % 8 != 0 || g.out_channels % 8 != 0 || p.inputs.size() < operands ||
      g.batch * g.out_pixels() > std::numeric_limits<int>::max() || !fit(p.input(), g.in_pixels(), type) ||
      !fit(p.output(), g.out_pixels(), type) || !slices_fit(p)) {
    return false;
  }
  if (problem.scaled() && !fit(p.inputs[1], 1, codes ? DType::f32 : type)) return false;
  if (codes) return eight_bits::ends_in_codes(problem, p) && keep(choose(problem, p), p);
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
  std::optional<lamina::detail::ChannelEnd> codes;
  if (lamina::detail::is_code(p.input())) {
    args.codes = eight_bits::ends_of_codes(problem, p, constants, codes);
    if (problem.scaled()) args.product = Multiplier(p.input(), problem.prologue.back().codes);
  } else {
    args.finish = finish_of(problem.epilogue, type);
  }
  args.weights = constants.add(pack(problem, args, tile.n, type, codes).bytes());
  const std::size_t operands = problem.scaled() ? 2 : 1;
  return make_launched<Arguments>(
      {.description = lamina::detail::concat(
           "narrow (mma.sync): ", codes ? "codes, " : "", tile.scaled ? "scaled, " : "", 16 * tile.m, " pixels x ",
           8 * tile.n, " filters per warp, ", args.splits, args.splits == 1 ? " part of K, " : " parts of K, ",
           (choice->shared_bytes + 1023) / 1024, " KB shared memory, ", choice->blocks, " blocks"),
       .kernel = tile.kernel,
       .how = of_blocks(choice->blocks, threads, choice->shared_bytes),
       .args = args,
       .constants = constants,
       .residual = problem.epilogue.reads_operands() ? operands : 0},
      [scaled = problem.scaled()](Arguments& a, std::span<const Tensor> inputs, std::span<Tensor>) {
        if (scaled) a.factors = inputs[1].raw();
        return std::tuple();
      });
}

}  // namespace lamina::cuda::narrow
