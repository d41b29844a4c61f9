#include "lamina/cuda/conv2d/channels_last/channels_last.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "lamina/cuda/conv2d/channels_last/maps.h"
#include "lamina/cuda/conv2d/channels_last/rectangles.h"
#include "lamina/cuda/conv2d/channels_last/weights.h"
#include "lamina/cuda/runtime/launched.h"
#include "lamina/cuda/tensor_core/packing.h"
#include "lamina/cuda/tensor_core/scaled_rows.h"
#include "lamina/kernel/rules/patches.h"

namespace lamina::cuda::channels_last {
namespace {

using lamina::detail::ceil_div;

std::string operand_note(Operand operand) {
  return operand == Operand::scaled_pairs ? " by pairs of f16" : operand == Operand::scaled_f16 ? " by f16" : "";
}

/// The weights of both products in the order of the steps of K, block of filters by block of filters.
std::vector<unsigned char> side_by_side(const std::vector<unsigned char>& a, const std::vector<unsigned char>& b,
                                        int filter_blocks) {
  std::vector<unsigned char> both(a.size() + b.size());
  const std::size_t blocks = static_cast<std::size_t>(filter_blocks), from_a = a.size() / blocks,
                    from_b = b.size() / blocks;
  for (std::size_t i = 0; i < blocks; ++i) {
    std::memcpy(both.data() + i * (from_a + from_b), a.data() + i * from_a, from_a);
    std::memcpy(both.data() + i * (from_a + from_b) + from_a, b.data() + i * from_b, from_b);
  }
  return both;
}

class ChannelsLast final : public Operator {
 public:
  /// `sum`: of whose two products `problem` is the first.
  ChannelsLast(const ConvProblem& problem, const Preparation& preparation, const ConvSumProblem* sum = nullptr)
      : constants_(preparation.device.device.index),
        precision_(preparation.precision),
        input_(preparation.input().format.dtype),
        output_(preparation.output().format.dtype),
        channels_(problem.geometry.in_channels) {
    const ConvGeometry geometry = of_group(problem.geometry);
    const float* weight = lamina::detail::floats(problem.weight);
    args_.finish = finish_of(problem.epilogue, output_, true);
    args_.chained = chained(args_.finish, output_);
    Demands demands = demands_of(problem.epilogue, output_);
    args_.adds = demands.adds, args_.pooled = demands.pooled, demands.sum = sum != nullptr;
    if (problem.geometry.groups > 1) {
      args_.group_filters = demands.group_filters = problem.geometry.group_out_channels();
      args_.group_channels = geometry.in_channels;
    }
    const Operand stored = preparation.precision == Precision::bf16 ? Operand::bf16 : Operand::fp16;  // of a sum
    const int second_steps = sum == nullptr ? 0 : step_count(sum->second, stored);
    auto choice =
        choose(sum == nullptr ? geometry : of_steps(geometry, stored, step_count(geometry, stored) + second_steps),
               preparation, demands);
    ScaledWeights scaled;
    if (choice && is_scaled(choice->tile.operand)) {
      scaled = examine_scaled(geometry, choice->tile.operand, weight);
      strict_ = scaled.strict;
      demands.scaled = scaled.representable;
      if (!demands.scaled) choice = choose(geometry, preparation, demands);
    }
    if (!choice) lamina::detail::fail("channels_last: no tile fits this device or these weights");
    choice_ = *choice;
    reserve_shared_memory(constants_.device(), choice_.tile.kernel, preparation.device.shared_bytes);
    args_.geometry = choice_.tile.teams > 0 && !demands.pooled ? in_rectangles(geometry) : geometry;
    images_ = args_.geometry.batch;
    args_.geometry.batch = choice_.images;
    args_.output_type = output_;
    const auto pitch = [](const View& view, int channels) {
      return view.is_slice() ? static_cast<int>(view.channels) : channels;
    };
    args_.in_pitch = pitch(preparation.input(), channels_);
    args_.out_pitch = pitch(preparation.output(), geometry.out_channels);
    args_.m_tiles = ceil_div(ceil_div(geometry.out_channels, block_filters), choice_.tile.groups);
    args_.first_steps = step_count(geometry, choice_.tile.operand);
    args_.steps = args_.first_steps + second_steps;
    const int slabs = slab_count(geometry, choice_.tile.operand);
    args_.paired =
        chain_slabs(choice_.tile.operand) == 2 ? slabs / 2 * 2 * geometry.kernel_height * geometry.kernel_width : 0;
    args_.stages = choice_.stages;
    args_.multicast = choice_.multicast;
    args_.splits = choice_.splits;
    args_.in_ring = choice_.in_ring;
    args_.log2_buffers = choice_.log2_buffers;
    args_.halo = choice_.halo;

    const int filter_blocks = args_.m_tiles * choice_.tile.groups;
    std::vector<FilterRange> ranges;
    auto packed = pack_weights(geometry, choice_.tile.operand, filter_blocks, weight, std::move(scaled.shifts), ranges);
    if (sum != nullptr) {
      args_.second = sum->second;
      const float* second_weight = lamina::detail::floats(sum->second_weight);
      packed = side_by_side(packed, pack_weights(sum->second, stored, filter_blocks, second_weight, {}, ranges),
                            filter_blocks);
    }
    args_.weight = constants_.add(packed);
    args_.ranges = constants_.add(ranges);
    args_.bias = constants_.add(padded_biases(problem.bias, std::int64_t{filter_blocks} * block_filters));
  }

  std::string description() const override {
    using lamina::detail::concat;
    const Tile& tile = choice_.tile;
    const std::string pixels =
        tile.teams > 0 ? concat(rectangle_width, " x ", tile.pixels / rectangle_width) : concat(tile.pixels);
    return concat("channels_last (wgmma, ", name(precision_), operand_note(tile.operand),
                  "): ", tile.groups * block_filters, " filters x ", pixels, " pixels per block, K in ", args_.steps,
                  " steps of 128 bytes", args_.first_steps < args_.steps ? " of two inputs" : "",
                  tile.teams > 0
                      ? concat(args_.halo.by_tap ? ", " : ", each pixel brought once, ", args_.halo.boxes, " boxes")
                      : std::string(),
                  args_.halo.resident ? ", weights stay" : "",
                  args_.splits > 1 ? concat(" over ", args_.splits, " splits") : std::string(),
                  args_.multicast > 1 ? concat(", weights shared by ", args_.multicast, " blocks") : std::string(),
                  ", ring of ", args_.stages, ", ", choice_.blocks, " blocks");
  }

  std::size_t workspace_bytes() const override {
    return is_scaled(choice_.tile.operand) ? scaled_bytes().workspace() : 0;
  }

  bool heeds_neighbours() const override { return !is_scaled(choice_.tile.operand); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(constants_.device());
    const auto* in = static_cast<const std::byte*>(inputs[0].raw());
    auto* out = static_cast<std::byte*>(outputs[0].raw());
    const ConvGeometry& g = args_.geometry;
    const std::size_t in_bytes = static_cast<std::size_t>(g.in_pixels() * args_.in_pitch) * size_of(input_),
                      out_bytes = static_cast<std::size_t>(g.out_pixels() * args_.out_pitch) * size_of(output_);
    for (std::int64_t first = 0; first < images_; first += choice_.images) {
      Arguments args = args_;
      args.neighbours = execution.neighbours;
      args.geometry.batch = std::min<std::int64_t>(choice_.images, images_ - first);
      args.pixels = static_cast<int>(args.geometry.batch * g.out_pixels());
      args.n_tiles = choice_.tile.teams > 0 ? static_cast<int>(args.geometry.batch) * args.halo.across * args.halo.down
                                            : ceil_div(args.pixels, choice_.tile.pixels);
      args.input = in + static_cast<std::size_t>(first) * in_bytes;
      args.output = out + static_cast<std::size_t>(first) * out_bytes;
      if (args.first_steps < args.steps) args.second_input = inputs[1].raw();
      if (args.adds) {
        args.finish.residual =
            static_cast<const std::byte*>(inputs[1].raw()) + static_cast<std::size_t>(first) * out_bytes;
      }
      launch(args, is_scaled(choice_.tile.operand) ? scale(args, execution.workspace, execution.stream) : args.input,
             execution.stream);
    }
  }

 private:
  ScaledBytes scaled_bytes() const {
    return channels_last::scaled_bytes(args_.geometry, choice_.tile.operand, choice_.images);
  }

  /// Makes the words that the kernel multiplies, in the workspace; returns where TMA finds them.
  const void* scale(Arguments& args, void* workspace, Stream stream) const {
    auto* words = reinterpret_cast<std::byte*>(lamina::detail::round_up(
        reinterpret_cast<std::uintptr_t>(workspace), std::uintptr_t{ScaledBytes::workspace_alignment}));
    auto* scales = reinterpret_cast<float*>(words + scaled_bytes().rows);
    scale_rows({.input = static_cast<const float*>(args.input),
                .rows = words,
                .scales = scales,
                .pixels = args.geometry.batch * args.geometry.in_pixels(),
                .channels = args.geometry.in_channels,
                .pairs = choice_.tile.operand == Operand::scaled_pairs,
                .strict = strict_},
               stream);
    args.scales = scales;
    return words;
  }

  /// `pixels`: what TMA reads.
  void launch(Arguments& args, const void* pixels, Stream stream) const {
    // Maps hold addresses. Making them takes the host less than the launch does.
    const Tile& tile = choice_.tile;
    const bool rectangles = tile.teams > 0;
    const int store_pixels = tile.store_pixels / (output_ == DType::f32 ? 2 : 1);
    const auto outputs = [&](const void* data) {
      void* to = const_cast<void*>(data);
      return rectangles ? rectangle_map(args.geometry, output_, store_pixels, args.out_pitch, args.pooled, to)
                        : channels_last::output_map(args.geometry, output_, store_pixels, args.out_pitch, to);
    };
    ConvGeometry image = args.geometry;
    image.in_channels = channels_;
    CUtensorMap input_map = rectangles
                                ? channels_last::input_map(image, tile.operand, args.halo, pixels, args.in_pitch)
                                : channels_last::input_map(image, tile.operand, tile.pixels, pixels, args.in_pitch);
    CUtensorMap output_map = outputs(args.output), beside = output_map;
    if (args.first_steps < args.steps) {
      beside = channels_last::input_map(args.second, tile.operand, tile.pixels, args.second_input);
    }
    if (args.adds) beside = outputs(args.finish.residual);
    void* arguments[] = {&args, &input_map, &output_map, &beside};
    const int shared_bytes =
        rectangles
            ? rectangles_shared_bytes(tile, choice_.halo, choice_.stages, args.adds, choice_.log2_buffers)
            : tile.shared_bytes(choice_.stages, choice_.splits, choice_.in_ring, args.adds, choice_.log2_buffers);
    launch_kernel(tile.kernel, of_blocks(choice_.blocks, tile.threads(), shared_bytes, choice_.cluster()), stream,
                  arguments);
  }

  Constants constants_;
  Precision precision_;
  DType input_, output_;
  int channels_;  // of the image
  Choice choice_;
  std::int64_t images_ = 0;  // of the whole batch
  bool strict_ = true;       // ScaledRows::strict
  Arguments args_;
};

}  // namespace

std::unique_ptr<Operator> prepare(const ConvProblem& problem, const Preparation& preparation) {
  if (takes_windows(problem, preparation)) return std::make_unique<ChannelsLast>(problem, preparation);
  lamina::detail::PatchesAsRows rows(problem, preparation);
  rows.problem.weight = rows.weights(problem.weight);
  return std::make_unique<ChannelsLast>(rows.problem, rows.preparation);
}

std::unique_ptr<Operator> prepare_sum(const ConvSumProblem& problem, const Preparation& preparation) {
  return std::make_unique<ChannelsLast>(problem.first, preparation, &problem);
}

}  // namespace lamina::cuda::channels_last
