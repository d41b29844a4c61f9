#include "lamina/cuda/conv2d/channels_last/bottleneck/bottleneck.h"

#include <algorithm>
#include <optional>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/bottleneck/arguments.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "lamina/cuda/conv2d/channels_last/maps.h"
#include "lamina/cuda/conv2d/channels_last/weights.h"
#include "lamina/cuda/conv2d/preference.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/kernel/finding.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::channels_last::bottleneck {
namespace {

using lamina::detail::ceil_div;

struct Choice {
  Tile tile;
  Arguments args;
  double cycles = 0;  // expected
};

/// What a launch takes in clock cycles: its chunks one after the other, each by its products, or by its weights' way
/// into shared memory, and by what it does to its sums. Within 16 % of those of ResNet50 at N = 32 and 256.
double expected_cycles(const Tile& tile, const Arguments& args, int multiprocessors) {
  constexpr double beginning = 3130, weights = stage_bytes / 62.0, finish = 1400, finish_of_pixel = 20;
  const double stages = args.steps + tile.blocks;
  const double chunk = std::max(4.0 * tile.pixels, weights) * stages + finish + finish_of_pixel * tile.pixels;
  return beginning + ceil_div(args.tiles, multiprocessors) * args.chunks * chunk;
}

/// Adds to `value` while there is room.
bool grow(int& value, int most, const Choice& choice, int shared_bytes) {
  if (value >= most) return false;
  ++value;
  if (choice.tile.shared_bytes(choice.args) <= shared_bytes) return true;
  --value;
  return false;
}

/// Divides a block's shared memory; false if it is too small.
bool arrange(Choice& choice, int shared_bytes) {
  Arguments& args = choice.args;
  const int all = args.chunks * (args.steps + choice.tile.blocks);
  const auto fits = [&] { return choice.tile.shared_bytes(args) <= shared_bytes; };
  args.pixel_slots = args.steps, args.map_slots = 2 * groups, args.stages = std::min(all, 4);
  if (args.pixel_slots > max_pixel_slots || !fits()) return false;
  // Weights stay where enough is left for a tile's pixels and maps to come ahead.
  if (all <= max_stages) {
    const Arguments ring = args;
    args.stages = all, args.pixel_slots = args.steps + 1, args.map_slots = 3 * groups, args.resident = true;
    if (!fits()) args = ring;
  }
  for (bool grown = true; grown;) {
    grown = grow(args.map_slots, max_map_slots, choice, shared_bytes);
    grown |= grow(args.pixel_slots, std::min(2 * args.steps, max_pixel_slots), choice, shared_bytes);
    grown |= grow(args.stages, std::min(all, max_stages), choice, shared_bytes);
  }
  return true;
}

std::optional<Choice> choose(const BottleneckProblem& problem, const Preparation& p) {
  const ConvGeometry &g = problem.wide.first.geometry, &narrow = problem.narrow.geometry;
  std::optional<Choice> best;
  const auto all = tiles_fp16();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tile& tile = all[i];
    if (p.tuning.tile >= 0 && static_cast<std::size_t>(p.tuning.tile) != i) continue;
    if (narrow.out_channels != tile.blocks * block_filters) continue;
    Choice choice = {.tile = tile, .args = {}};
    Arguments& args = choice.args;
    args.chunks = g.out_channels / chunk_filters;
    args.first_steps = slab_count(g, Operand::fp16);
    args.steps = args.first_steps + (problem.sums() ? slab_count(problem.wide.second, Operand::fp16) : 0);
    args.tiles = static_cast<int>(ceil_div<std::int64_t>(g.batch * g.out_pixels(), tile.pixels));
    args.wide.adds = problem.wide.first.epilogue.reads_operands();
    if (!arrange(choice, p.device.shared_bytes)) continue;
    choice.cycles = expected_cycles(tile, args, p.device.multiprocessors);
    if (!best || choice.cycles < best->cycles) best = choice;
  }
  return best;
}

/// In the order of Arguments::weight.
std::vector<unsigned char> pack(const BottleneckProblem& problem, const Arguments& args, int blocks) {
  const ConvGeometry& g = problem.wide.first.geometry;
  const int wide_blocks = args.chunks * groups;
  std::vector<FilterRange> ranges;
  const auto packed = [&](const ConvGeometry& of, const Tensor& weight, int filter_blocks) {
    return pack_weights(of, Operand::fp16, filter_blocks, lamina::detail::floats(weight), {}, ranges);
  };
  const auto first = packed(g, problem.wide.first.weight, wide_blocks),
             second = problem.sums() ? packed(problem.wide.second, problem.wide.second_weight, wide_blocks)
                                     : std::vector<unsigned char>(),
             narrow = packed(problem.narrow.geometry, problem.narrow.weight, blocks);
  std::vector<unsigned char> all;
  all.reserve(first.size() + second.size() + narrow.size());
  const auto put = [&](const std::vector<unsigned char>& from, int block, int steps, int step) {
    const auto at = from.begin() + std::ptrdiff_t{block * steps + step} * block_bytes;
    all.insert(all.end(), at, at + block_bytes);
  };
  for (int chunk = 0; chunk < args.chunks; ++chunk) {
    for (int step = 0; step < args.steps; ++step) {
      for (int group = 0; group < groups; ++group) {
        const int block = chunk * groups + group;
        if (step < args.first_steps) {
          put(first, block, args.first_steps, step);
        } else {
          put(second, block, args.steps - args.first_steps, step - args.first_steps);
        }
      }
    }
    for (int block = 0; block < blocks; ++block) {
      for (int slab = 0; slab < groups; ++slab) put(narrow, block, wide_blocks, chunk * groups + slab);
    }
  }
  return all;
}

/// Whether `problem` is a convolution of single pixels that channels_last takes, with a clamp at most behind it.
bool is_plain(const ConvProblem& problem, const Preparation& p) {
  return lamina::detail::sees_one_pixel(problem.geometry) && takes_windows(problem, p) &&
         finish_of(problem.epilogue, DType::f16).kind == Finish::Kind::clamp;
}

}  // namespace

bool takes(const BottleneckProblem& problem, const Preparation& p) {
  if (p.precision != Precision::fp16 || p.outputs.size() != 2 || p.has_slices() || p.has_strides()) return false;
  for (const View& view : p.outputs) {
    if (view.format != Format{DType::f16, Layout::nhwc}) return false;
  }
  Preparation first = p, narrow = p, second = p;
  first.outputs = p.outputs.first(1), second.outputs = first.outputs;
  narrow.inputs = first.outputs, narrow.outputs = p.outputs.subspan(1);
  if (problem.sums()) {
    if (p.inputs.size() != 2 || problem.wide.first.epilogue.reads_operands()) return false;
    first.inputs = p.inputs.first(1), second.inputs = p.inputs.subspan(1);
    ConvProblem other = problem.wide.first;
    other.geometry = problem.wide.second;
    if (!is_plain(other, second)) return false;
  }
  const ConvGeometry& g = problem.narrow.geometry;
  return is_plain(problem.wide.first, first) && is_plain(problem.narrow, narrow) && g.stride_height == 1 &&
         g.stride_width == 1 && g.in_channels % chunk_filters == 0 && g.out_channels % block_filters == 0 &&
         keep(choose(problem, p), p);
}

/// Where batches must not matter both have to add up in one piece of K apart as well: whether they are apart may then
/// follow the batch.
bool pays(const BottleneckProblem& problem, const Preparation& p) {
  const auto both = kept(p, [&] { return choose(problem, p); });
  const ConvProblem& first = problem.wide.first;
  const auto wide = channels_last::choose(of_steps(first.geometry, Operand::fp16, both->args.steps), p,
                                          {.adds = first.epilogue.reads_operands()}),
             narrow = channels_last::choose(problem.narrow.geometry, p);
  if (!wide || !narrow || (p.batch_invariant && wide->splits * narrow->splits != 1)) return false;
  return preference::bottleneck(problem, {.both = both->cycles, .wide = wide->cycles, .narrow = narrow->cycles});
}

std::unique_ptr<Operator> prepare(const BottleneckProblem& problem, const Preparation& p) {
  const auto choice = kept(p, [&] { return choose(problem, p); });
  if (!choice) lamina::detail::fail("bottleneck: no tile fits this device");
  const Tile& tile = choice->tile;
  Arguments args = choice->args;
  Constants constants(p.device.device.index);
  reserve_shared_memory(constants.device(), tile.kernel, p.device.shared_bytes);
  const int blocks = std::min(args.tiles, p.device.multiprocessors);
  args.weight = constants.add(pack(problem, args, tile.blocks));
  const auto fill = [&](channels_last::Arguments& of, const ConvProblem& layer) {
    of.geometry = layer.geometry, of.in_pitch = layer.geometry.in_channels;
    of.bias = constants.add(padded_biases(layer.bias, layer.geometry.out_channels));
    of.finish = finish_of(layer.epilogue, DType::f16);
  };
  fill(args.wide, problem.wide.first), fill(args.narrow, problem.narrow);
  args.wide.second = problem.wide.second;
  return make_launched(
      Launched<Arguments>{.description = lamina::detail::concat(
                              "bottleneck (wgmma, fp16): ", args.chunks * chunk_filters, " filters and ",
                              tile.blocks * block_filters, " of their map x ", tile.pixels, " pixels per block, K in ",
                              args.steps, " steps of 128 bytes", args.first_steps < args.steps ? " of two inputs" : "",
                              args.resident ? ", weights stay" : "", ", ring of ", args.stages, ", ", args.pixel_slots,
                              " slots for pixels, ", args.map_slots, " for maps, ", blocks, " blocks"),
                          .kernel = tile.kernel,
                          .how = of_blocks(blocks, Tile::threads(), tile.shared_bytes(args)),
                          .args = args,
                          .constants = constants},
      [tile](const Arguments& a, std::span<const Tensor> inputs, std::span<Tensor> outputs) {
        const ConvGeometry &wide = a.wide.geometry, &narrow = a.narrow.geometry;
        const auto map = [](const ConvGeometry& g, int pixels, const void* data) {
          return output_map(g, DType::f16, pixels, g.out_channels, const_cast<void*>(data));
        };
        const CUtensorMap to_wide = map(wide, tile.pixels, outputs[0].raw());
        CUtensorMap beside = to_wide;
        if (a.first_steps < a.steps) beside = input_map(a.wide.second, Operand::fp16, tile.pixels, inputs[1].raw());
        if (a.wide.adds) beside = map(wide, tile.pixels, inputs[1].raw());
        return std::tuple<CUtensorMap, CUtensorMap, CUtensorMap, CUtensorMap>(
            input_map(wide, Operand::fp16, tile.pixels, inputs[0].raw()), beside, to_wide,
            map(narrow, tile.narrow_columns, outputs[1].raw()));
      });
}

}  // namespace lamina::cuda::channels_last::bottleneck
