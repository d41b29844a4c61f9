#include "lamina/cuda/conv2d/stem/codes.h"

#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/stem/tiles.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/fragments.h"
#include "lamina/cuda/tensor_core/packing.h"

namespace lamina::cuda::stem::codes {
namespace {

using lamina::detail::ceil_div;
using lamina::detail::round_up;

/// Of the filters that a block has, in eights: none of them of zeros.
int eights(int filters) { return filters % 32 == 0 ? 4 : filters % 16 == 0 ? 2 : 1; }

/// Codes of i8 as u8, which stand for the same.
View unsigned_codes(View view) {
  if (view.format.dtype == DType::i8) view.format.dtype = DType::u8, view.quantization.zero_point += 128;
  return view;
}

bool is_known(const PoolGeometry& g) {
  return g.kernel_height == pool_kernel && g.kernel_width == pool_kernel && g.stride_height == pool_stride &&
         g.stride_width == pool_stride && g.dilation_height == 1 && g.dilation_width == 1;
}

const void* kernel_for(const ConvGeometry& g, bool pools) {
  return kernel(step_count(g.kernel_height, g.kernel_width), row_pixels(g.kernel_width) == 8, eights(g.out_channels),
                pools);
}

/// All that does not need memory, and the number of blocks.
std::int64_t fill(Arguments& a, const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const View codes = lamina::detail::multiplied(problem, p);
  const auto& pool = problem.epilogue.pool;
  ConvGeometry outputs = g;
  if (pool) outputs.out_height = pool->out_height, outputs.out_width = pool->out_width;
  const int slices = g.out_channels / (8 * eights(g.out_channels)),
            fragment = pool ? fragment_columns<true> : fragment_columns<false>;
  // What is in shared memory serves all filters, if there are blocks enough.
  std::int64_t blocks = share_out(a, outputs, 1, p.device.multiprocessors, fragment);
  const bool apart = blocks < wave * p.device.multiprocessors;
  if (apart) blocks = share_out(a, outputs, slices, p.device.multiprocessors, fragment);
  a.all_slices = slices;
  a.channels = g.in_channels, a.height = g.in_height, a.width = g.in_width;
  a.filters = g.out_channels, a.out_height = outputs.out_height, a.out_width = outputs.out_width;
  a.out_pitch = static_cast<int>(p.output().pixel_pitch());
  a.rounds = !problem.prologue.empty(), a.rounding = Rounding(unsigned_codes(codes));
  a.padding_height = g.padding_height, a.padding_width = g.padding_width;
  a.stride_height = g.stride_height, a.stride_width = g.stride_width;
  const bool pixels = lamina::detail::is_channels_last(p.input());
  a.pixel_step = pixels ? static_cast<int>(p.input().pixel_pitch()) : 1;
  a.channel_step = pixels ? 1 : g.in_height * g.in_width;
  a.image = std::int64_t{g.in_height} * g.in_width * (pixels ? a.pixel_step : g.in_channels);
  a.padding = static_cast<std::uint8_t>(codes.quantization.zero_point) * 0x01010101u;
  a.flip = codes.format.dtype == DType::i8 ? 0x80808080u : 0;
  a.fours = !pixels && g.in_width % 4 == 0 && p.input().alignment % (4 * size_of(p.input().format.dtype)) == 0;
  int map_rows = a.rows, map_columns = a.columns;
  if (pool) {
    a.map_height = g.out_height, a.map_width = g.out_width;
    a.pool_padding_height = pool->padding_height, a.pool_padding_width = pool->padding_width;
    a.walk = ceil_div(a.rows, std::max(1, warps * fragment / a.columns));
    map_rows = a.rows * pool_stride + 1, map_columns = a.columns * pool_stride + 2;
  }
  a.items = ceil_div(a.rows, a.walk) * (a.columns / fragment);
  a.in_columns = round_up(3 + (map_columns - 1) * a.stride_width + row_pixels(g.kernel_width), 4);
  a.in_rows = (map_rows - 1) * a.stride_height + round_up(g.kernel_height, g.kernel_width <= 4 ? 2 : 1);
  a.by_fours = Divider(a.in_columns / 4);
  return blocks;
}

int shared_bytes(const Arguments& a) { return a.in_rows * a.in_columns * 4; }

/// Zeros where there are no more channels, or pixels or rows of the window.
Packed pack(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const int n = eights(g.out_channels), row = row_pixels(g.kernel_width);
  const int steps = step_count(g.kernel_height, g.kernel_width);
  Packed packed(std::int64_t{g.out_channels / 8} * steps * fragment_bytes);
  const auto weight = problem.eight.weight.values<std::int8_t>();
  std::size_t from = 0;
  for (int filter = 0; filter < g.out_channels; ++filter) {
    const FilterPlace at = filter_place(filter, n);
    for (int c = 0; c < g.in_channels; ++c) {
      for (int kh = 0; kh < g.kernel_height; ++kh) {
        for (int kw = 0; kw < g.kernel_width; ++kw) {
          const int k = (kh * row + kw) * max_channels + c;
          const FragmentPlace place = fragment_place(1, k % 32, at.column);
          const int fragment = (at.slice * steps + k / 32) * n + at.fragment;
          packed.put(fragment * fragment_bytes + place.lane * 8 + place.element, weight[from++]);
        }
      }
    }
  }
  return packed;
}

}  // namespace

bool takes(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const auto& pool = problem.epilogue.pool;
  const bool rounds = !problem.prologue.empty();
  if (p.device.architecture < 80 || !lamina::detail::is_eight_bits(problem, p) || g.groups != 1 ||
      g.in_channels > max_channels || g.dilation_height != 1 || g.dilation_width != 1 || g.out_channels % 8 != 0 ||
      kernel_for(g, pool.has_value()) == nullptr) {
    return false;
  }
  if (pool && (problem.epilogue.table() || !is_known(*pool))) return false;  // a table need not be monotone
  if (rounds && (g.in_channels > max_numbers || Rounding(lamina::detail::multiplied(problem, p)).inverse == 0))
    return false;
  const View &in = p.input(), &out = p.output();
  Arguments args;
  return (rounds ? in.format == Format{} : lamina::detail::is_channels_last(in) || in.format.layout == Layout::nchw) &&
         (lamina::detail::is_channels_last(in) || !in.is_slice()) && !in.is_strided() && lamina::detail::is_code(out) &&
         lamina::detail::is_channels_last(out) && out.alignment % 8 == 0 && out.pixel_pitch() % 8 == 0 &&
         fill(args, problem, p) < std::numeric_limits<int>::max() && shared_bytes(args) <= p.device.shared_bytes / 2;
}

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const void* const kernel = kernel_for(g, problem.epilogue.pool.has_value());
  Arguments args;
  const std::int64_t blocks = fill(args, problem, p);
  reserve_shared_memory(p.device.device.index, kernel, p.device.shared_bytes);
  Constants constants(p.device.device.index);
  args.weights = constants.add(pack(problem).bytes());
  const std::int32_t zero = unsigned_codes(lamina::detail::multiplied(problem, p)).quantization.zero_point;
  const auto end = lamina::detail::channel_end(problem, p, zero);
  args.ends = eight_bits::ends_of(end, g.out_channels, constants, problem.epilogue.table());
  args.saturates = eight_bits::saturates(end, g.reduction());
  args.saturation = {end.end.type, end.end.quantization};
  return make_launched<Arguments>(
      {.description = lamina::detail::concat(
           "int8_stem (mma.sync): ", args.rounds ? "from f32, " : "", args.all_slices / args.slices, " x ",
           8 * eights(g.out_channels), " filters of ", args.rows, " x ", args.columns,
           problem.epilogue.pool ? " pooled" : "", " pixels per block, ", (shared_bytes(args) + 1023) / 1024,
           " KB shared memory, ", blocks, " blocks"),
       .kernel = kernel,
       .how = of_blocks(blocks, threads, shared_bytes(args)),
       .args = args,
       .constants = constants});
}

}  // namespace lamina::cuda::stem::codes
