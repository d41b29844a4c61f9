// The convolutions of codes: whole numbers are multiplied and summed, so that no choice of a tile changes a bit.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "lamina/cuda/conv2d/channels_last/maps.h"
#include "lamina/cuda/conv2d/eight_bits.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cuda::channels_last {
namespace {

using lamina::detail::ceil_div;

constexpr std::size_t rows_at_once = std::size_t{32} << 20;  // bytes, which stay in L2 until they are multiplied

/// Whether TMA reads the windows. What it puts around the image is 0.
bool reads_windows(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const bool padded = g.padding_height != 0 || g.padding_width != 0;
  return g.in_channels % 16 == 0 && !p.input().is_slice() && expressible(g) &&
         (!padded || p.input().quantization.zero_point == 0);
}

/// The product of rows that is the same.
ConvGeometry of_rows(ConvGeometry g) {
  g.in_channels = static_cast<int>(eight_bits::row_bytes(g));
  g.in_height = g.out_height, g.in_width = g.out_width;
  g.kernel_height = g.kernel_width = g.stride_height = g.stride_width = g.dilation_height = g.dilation_width = 1;
  g.padding_height = g.padding_width = 0;
  return g;
}

/// Weights [OC, C, taps] as [blocks of 64 filters, steps, 64, 128 bytes], rows swizzled and, of each sixteen filters,
/// the even ones first; `rows`: for a product of rows.
std::vector<unsigned char> pack(const ConvGeometry& g, bool rows, int filter_blocks,
                                std::span<const std::int8_t> weight) {
  const int taps = g.kernel_height * g.kernel_width;
  const ConvGeometry product = rows ? of_rows(g) : g;
  const int steps = step_count(product, Operand::codes), slabs = slab_count(product, Operand::codes);
  std::vector<unsigned char> packed(static_cast<std::size_t>(filter_blocks) * static_cast<std::size_t>(steps) *
                                    block_bytes);
  std::size_t from = 0;
  for (int filter = 0; filter < g.out_channels; ++filter) {
    const int row = filter % block_filters / 16 * 16 + filter % 16 / 2 + filter % 2 * 8;
    for (int channel = 0; channel < g.in_channels; ++channel) {
      for (int tap = 0; tap < taps; ++tap) {
        const int term = rows ? tap * g.in_channels + channel : channel;
        const int step = rows ? term / step_bytes : step_of(channel / step_bytes, tap, slabs, taps, 1);
        const std::size_t block = static_cast<std::size_t>(filter / block_filters) * static_cast<std::size_t>(steps) +
                                  static_cast<std::size_t>(step);
        const int byte = term % step_bytes;
        packed[block * block_bytes + static_cast<std::size_t>(swizzled(row, byte / 16 * 16) + byte % 16)] =
            static_cast<unsigned char>(weight[from++]);
      }
    }
  }
  return packed;
}

/// Whether the bounds of codes are those of their type, and no sum is so large that it cannot be rounded before it is
/// clamped.
bool saturates(const lamina::detail::ChannelEnd& all, std::int64_t terms) {
  const float low = static_cast<float>((all.end.type == DType::u8 ? 0 : -128) - all.end.quantization.zero_point);
  if (!all.end.codes || all.end.low != low || all.end.high != low + 255) return false;
  const double products = 255.0 * 128 * static_cast<double>(terms);
  for (std::size_t c = 0; c < all.factor.size(); ++c) {
    if (!(all.factor[c] * (products + std::abs(static_cast<double>(all.bias[c]))) < 0x1p22)) return false;
  }
  return true;
}

/// How a sum with others' codes becomes the output's; nothing if no kernel does that.
std::optional<eight_bits::Addition> addition_of(const ConvProblem& problem, const Preparation& p) {
  eight_bits::Addition result = {
      .scale = problem.eight.addend.scale, .other = Meaning(p.inputs[1]), .results = Results(p.output())};
  Results& to = result.results;
  const auto ordinary = [](float scale) { return scale < 1e15f; };
  if (to.divides() || !ordinary(result.scale) || !ordinary(result.other.scale)) return {};
  const PointwiseChain& chain = problem.epilogue.chain;
  const auto clamp = chain.size() == 1 ? lamina::detail::Bounds() : *lamina::detail::clamp_of(chain[1]);
  const auto [low, high] = std::pair(to.low, to.high);
  to.low = std::clamp(clamp.low, low, high), to.high = std::clamp(clamp.high, low, high);
  return result;
}

class ChannelsLastCodes final : public Operator {
 public:
  /// `p` with one input; `addition`: to the codes of a second one.
  ChannelsLastCodes(const ConvProblem& problem, const Preparation& p, const View& output,
                    const std::optional<eight_bits::Addition>& addition)
      : device_(p.device.device.index),
        windows_(problem.geometry),
        pitch_(p.input().pixel_pitch()),
        padding_(static_cast<std::uint8_t>(p.input().quantization.zero_point)),
        unfolds_(!reads_windows(problem, p)),
        output_bytes_(static_cast<std::int64_t>(size_of(output.format.dtype))),
        constants_(device_) {
    windows_.batch = images_at_once();
    args_.geometry = unfolds_ ? of_rows(windows_) : windows_;
    args_.adds = addition.has_value();
    if (addition) args_.addition = *addition;
    const auto choice = choose(args_.geometry, p, {.adds = args_.adds, .codes = true});
    if (!choice) lamina::detail::fail("channels_last: no tile fits this device");
    choice_ = *choice;
    reserve_shared_memory(device_, choice_.tile.kernel, p.device.shared_bytes);
    images_ = problem.geometry.batch;
    args_.out_pitch = static_cast<int>(output.pixel_pitch());
    args_.m_tiles = ceil_div(ceil_div(windows_.out_channels, block_filters), choice_.tile.groups);
    args_.first_steps = args_.steps = step_count(args_.geometry, Operand::codes);
    args_.stages = choice_.stages, args_.multicast = choice_.multicast, args_.splits = choice_.splits;
    args_.in_ring = choice_.in_ring, args_.log2_buffers = choice_.log2_buffers;
    args_.is_signed = p.input().format.dtype == DType::i8;
    const int filter_blocks = args_.m_tiles * choice_.tile.groups;
    const auto packed = pack(windows_, unfolds_, filter_blocks, problem.eight.weight.values<std::int8_t>());
    args_.weight = constants_.add(packed);
    const auto end = lamina::detail::channel_end(problem, p, p.input().quantization.zero_point);
    args_.ends = eight_bits::ends_of(end, filter_blocks * block_filters, constants_);
    args_.saturates = saturates(end, windows_.reduction());
    args_.flip = output.format.dtype == DType::i8 ? 0x80808080u : 0;
    args_.to_code = output.quantization.zero_point + (args_.flip != 0 ? 128 : 0) - 0x4b400000;
    // What is rounded twice leaves one by one: it is rare, and its division is long.
    args_.boxed = args_.ends.end.codes && args_.out_pitch % 16 == 0 && output.alignment % 16 == 0;
  }

  std::string description() const override {
    return lamina::detail::concat(
        "int8_wgmma: ", unfolds_ ? "windows as rows, " : "", choice_.tile.groups * block_filters, " filters x ",
        choice_.tile.pixels, " pixels per block, K in ", args_.steps, " steps of 128", args_.adds ? ", with a sum" : "",
        args_.splits > 1 ? lamina::detail::concat(" over ", args_.splits, " splits") : std::string(),
        args_.multicast > 1 ? lamina::detail::concat(", weights shared by ", args_.multicast, " blocks")
                            : std::string(),
        ", ring of ", args_.stages, ", ", choice_.blocks, " blocks");
  }
  std::size_t workspace_bytes() const override {
    return unfolds_ ? alignment + static_cast<std::size_t>(windows_.batch * windows_.out_pixels() *
                                                           eight_bits::row_bytes(windows_))
                    : 0;
  }
  bool heeds_neighbours() const override { return !unfolds_; }
  std::size_t parameter_bytes() const override { return constants_.bytes(); }

  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    const DeviceGuard guard(device_);
    void* const rows = reinterpret_cast<void*>(
        lamina::detail::round_up(reinterpret_cast<std::uintptr_t>(execution.workspace), std::uintptr_t{alignment}));
    for (std::int64_t first = 0; first < images_; first += windows_.batch) {
      Arguments args = args_;
      const auto batch = std::min<std::int64_t>(windows_.batch, images_ - first);
      args.geometry.batch = batch;
      args.pixels = static_cast<int>(batch * windows_.out_pixels());
      args.n_tiles = ceil_div(args.pixels, choice_.tile.pixels);
      args.input = static_cast<const std::byte*>(inputs[0].raw()) + first * windows_.in_pixels() * pitch_;
      args.output =
          static_cast<std::byte*>(outputs[0].raw()) + first * windows_.out_pixels() * args.out_pitch * output_bytes_;
      if (unfolds_) {
        ConvGeometry some = windows_;
        some.batch = batch;
        eight_bits::unfold(some, args.input, pitch_, padding_, rows, execution.stream);
        args.input = rows;
      } else {
        args.neighbours = execution.neighbours;
      }
      CUtensorMap input = input_map(args.geometry, Operand::codes, choice_.tile.pixels, args.input), output = input,
                  others = input;
      if (args.boxed) {
        output = output_map(args.geometry, DType::u8, 2 * choice_.tile.store_pixels, args.out_pitch, args.output);
      }
      if (args.adds) {
        void* const added = static_cast<std::byte*>(const_cast<void*>(inputs[1].raw())) +
                            first * windows_.out_pixels() * args.out_pitch;
        args.finish.residual = added;
        others = output_map(args.geometry, DType::u8, 2 * choice_.tile.store_pixels, args.out_pitch, added);
      }
      void* arguments[] = {&args, &input, &output, &others};
      launch_kernel(choice_.tile.kernel,
                    {.grid = dim3(static_cast<unsigned>(choice_.blocks)),
                     .block = dim3(static_cast<unsigned>(choice_.tile.threads())),
                     .shared_bytes = static_cast<std::size_t>(choice_.tile.shared_bytes(
                         choice_.stages, choice_.splits, choice_.in_ring, args.adds, choice_.log2_buffers)),
                     .cluster = choice_.cluster()},
                    execution.stream, arguments);
    }
  }

 private:
  static constexpr std::size_t alignment = 128;  // of what TMA reads in rows

  std::int64_t images_at_once() const {
    if (!unfolds_) return windows_.batch;
    const auto image = static_cast<std::size_t>(windows_.out_pixels() * eight_bits::row_bytes(windows_));
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(rows_at_once / std::max<std::size_t>(1, image)), 1,
                                    windows_.batch);
  }

  int device_;
  ConvGeometry windows_;  // of a launch
  std::int64_t pitch_;    // from pixel to pixel of the input
  std::uint8_t padding_;
  bool unfolds_;
  std::int64_t output_bytes_;  // of an element
  std::int64_t images_ = 0;
  Choice choice_;
  Arguments args_;
  Constants constants_;
};

}  // namespace

bool takes_codes(const ConvProblem& problem, const Preparation& p) {
  if (problem.eight.addend.defined()) {
    if (!lamina::detail::is_sum_of_eight_bits(problem, p) || !addition_of(problem, p)) return false;
    // What is added lies as the output does, and both where TMA brings and takes them.
    const View &output = p.output(), &others = p.inputs[1];
    const lamina::detail::AddendAlone alone(problem, p);
    return lamina::detail::operands_fit(p, 1) && output.pixel_pitch() % 16 == 0 && output.alignment % 16 == 0 &&
           others.alignment % 16 == 0 && (!problem.bias.defined() || problem.eight.bias.defined()) &&
           takes_codes(alone.problem, alone.preparation);
  }
  const ConvGeometry& g = problem.geometry;
  return p.device.wgmma && lamina::detail::is_eight_bits(problem, p) && !problem.eight.zero_point.defined() &&
         g.groups == 1 && g.out_channels % 2 == 0 && p.output().pixel_pitch() % 2 == 0 &&
         p.output().alignment % 8 == 0 && lamina::detail::is_channels_last(p.input()) &&
         lamina::detail::is_channels_last(p.output()) && p.input().alignment % 16 == 0 &&
         g.batch * g.out_pixels() <= max_pixels &&
         g.out_pixels() * eight_bits::row_bytes(g) <= static_cast<std::int64_t>(p.workspace_limit / 2);
}

std::unique_ptr<Operator> prepare_codes(const ConvProblem& problem, const Preparation& preparation) {
  if (!problem.eight.addend.defined()) {
    return std::make_unique<ChannelsLastCodes>(problem, preparation, preparation.output(), std::nullopt);
  }
  const lamina::detail::AddendAlone alone(problem, preparation);
  return std::make_unique<ChannelsLastCodes>(alone.problem, alone.preparation, preparation.output(),
                                             addition_of(problem, preparation));
}

}  // namespace lamina::cuda::channels_last
