// The convolutions of codes: whole numbers are multiplied and summed, so that no choice of a tile changes a bit.

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/channels_last.h"
#include "lamina/cuda/conv2d/channels_last/choice.h"
#include "lamina/cuda/conv2d/channels_last/maps.h"
#include "lamina/cuda/conv2d/eight_bits.h"
#include "lamina/cuda/eight_bits/rounding.h"
#include "lamina/cuda/runtime/check.h"
#include "lamina/cuda/runtime/launch.h"
#include "lamina/kernel/rules/epilogue_rules.h"

namespace lamina::cuda::channels_last {
namespace {

using lamina::detail::ceil_div;

constexpr std::int64_t rows_at_once = std::int64_t{32} << 20;  // bytes, which stay in L2 until they are multiplied

/// How the windows come to be read by TMA, which wants whole 16 bytes of channels and puts 0 around the image: as they
/// lie, out of a copy of the image whose pixels are whole, or as rows, each window by itself.
enum class Source { image, whole_pixels, rows };

/// Windows of one pixel each, whose rows are the pixels.
ConvGeometry of_pixels(ConvGeometry g) {
  g.out_height = g.in_height, g.out_width = g.in_width;
  g.kernel_height = g.kernel_width = g.stride_height = g.stride_width = g.dilation_height = g.dilation_width = 1;
  g.padding_height = g.padding_width = 0, g.groups = 1;
  return g;
}

Source source_of(const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  if (!expressible(g) || (g.is_padded() && p.input().quantization.zero_point != 0)) return Source::rows;
  if (g.in_channels % 16 == 0 && !p.input().is_slice()) return Source::image;
  if (g.groups > 1) return Source::whole_pixels;
  // Windows that do not overlap take less as rows, and have fewer steps.
  return g.out_pixels() * eight_bits::row_bytes(g) > g.in_pixels() * eight_bits::row_bytes(of_pixels(g))
             ? Source::whole_pixels
             : Source::rows;
}

/// What is multiplied: the image, one of whole pixels, or rows.
ConvGeometry multiplied(ConvGeometry g, Source source) {
  if (source == Source::rows) {
    g.in_channels = static_cast<int>(eight_bits::row_bytes(g));
    g.in_height = g.out_height, g.in_width = g.out_width;
    return of_pixels(g);
  }
  if (source == Source::whole_pixels) g.in_channels = static_cast<int>(eight_bits::row_bytes(of_pixels(g)));
  return g;
}

/// That of a block of filters.
int first_of_block(const ConvGeometry& g, int filter_block) {
  return first_channel(filter_block * block_filters, g.group_out_channels(), g.group_in_channels());
}

/// The same product with as many channels as any 64 filters see.
ConvGeometry of_block(ConvGeometry g) {
  if (g.groups == 1) return g;
  int seen = 0;
  for (int block = 0; block * block_filters < g.out_channels; ++block) {
    const int last = std::min((block + 1) * block_filters, g.out_channels) - 1;
    seen = std::max(seen, (last / g.group_out_channels() + 1) * g.group_in_channels() - first_of_block(g, block));
  }
  g.in_channels = seen, g.groups = 1;
  return g;
}

/// Weights [OC, C, taps] as [blocks of 64 filters, steps, 64, 128 bytes], rows swizzled and, of each sixteen filters,
/// the even ones first; `rows`: for a product of rows.
std::vector<unsigned char> pack(const ConvGeometry& g, bool rows, int filter_blocks,
                                std::span<const std::int8_t> weight) {
  const int taps = g.kernel_height * g.kernel_width;
  const ConvGeometry product = rows ? multiplied(g, Source::rows) : of_block(g);
  const int steps = step_count(product, Operand::codes), slabs = slab_count(product, Operand::codes);
  std::vector<unsigned char> packed(static_cast<std::size_t>(filter_blocks) * static_cast<std::size_t>(steps) *
                                    block_bytes);
  std::size_t from = 0;
  for (int filter = 0; filter < g.out_channels; ++filter) {
    const int row = filter % block_filters / 16 * 16 + filter % 16 / 2 + filter % 2 * 8;
    const int first =
        filter / g.group_out_channels() * g.group_in_channels() - first_of_block(g, filter / block_filters);
    for (int channel = first; channel < first + g.group_in_channels(); ++channel) {
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

/// How codes become others with the numbers of f32 that input 1 has for each channel.
CodesAgain again_of(const lamina::detail::CodeSteps& steps, const Preparation& p) {
  View codes = p.output();
  if (steps.again != nullptr) codes.quantization = steps.again->codes, codes.format.dtype = steps.again->type;
  return {steps.own->codes.scale, steps.operand->function == Pointwise::mul, Rounding(codes)};
}

class ChannelsLastCodes final : public Operator {
 public:
  ChannelsLastCodes(const ConvProblem& problem, const Preparation& p)
      : device_(p.device.device.index),
        windows_(problem.geometry),
        pitch_(p.input().pixel_pitch()),
        padding_(static_cast<std::uint8_t>(p.input().quantization.zero_point)),
        source_(source_of(problem, p)),
        output_bytes_(static_cast<std::int64_t>(size_of(p.output().format.dtype))),
        constants_(device_) {
    const lamina::detail::CodeSteps steps = *lamina::detail::code_steps(problem.epilogue.chain);
    windows_.batch = images_at_once();
    args_.geometry = of_block(multiplied(windows_, source_));
    if (windows_.groups > 1) {
      args_.group_filters = windows_.group_out_channels(), args_.group_channels = windows_.group_in_channels();
    }
    args_.adds = lamina::detail::adds_codes(steps, p);
    if (args_.adds) args_.sums = constants_.add(eight_bits::rows_of_sums(lamina::detail::table_of_sums(problem, p)));
    const auto choice = choose(args_.geometry, p, {.adds = args_.adds, .codes = true, .single = windows_.groups > 1});
    if (!choice) lamina::detail::fail("channels_last: no tile fits this device");
    choice_ = *choice;
    reserve_shared_memory(device_, choice_.tile.kernel, p.device.shared_bytes);
    images_ = problem.geometry.batch;
    args_.out_pitch = static_cast<int>(p.output().pixel_pitch());
    args_.m_tiles = ceil_div(ceil_div(windows_.out_channels, block_filters), choice_.tile.groups);
    args_.first_steps = args_.steps = step_count(args_.geometry, Operand::codes);
    args_.stages = choice_.stages, args_.multicast = choice_.multicast, args_.splits = choice_.splits;
    args_.in_ring = choice_.in_ring, args_.log2_buffers = choice_.log2_buffers;
    args_.is_signed = p.input().format.dtype == DType::i8;
    const int filter_blocks = args_.m_tiles * choice_.tile.groups;
    const auto packed =
        pack(windows_, source_ == Source::rows, filter_blocks, problem.eight.weight.values<std::int8_t>());
    args_.weight = constants_.add(packed);
    const auto end = lamina::detail::channel_end(problem, p, p.input().quantization.zero_point);
    args_.ends = eight_bits::ends_of(end, filter_blocks * block_filters, constants_, steps.table.get());
    if (steps.operand != nullptr && !args_.adds) {
      const CodesAgain again = again_of(steps, p);
      std::vector<std::uint8_t> bytes(sizeof(again));
      std::memcpy(bytes.data(), &again, sizeof(again));
      args_.sums = constants_.add(bytes);
    }
    args_.saturates = eight_bits::saturates(end, windows_.reduction());
    args_.saturation = {end.end.type, end.end.quantization};
    // What is rounded twice leaves one by one: it is rare, and its division is long.
    const bool numbers = !end.end.codes && !end.end.read && steps.own == nullptr && output_bytes_ == 2;
    args_.boxed =
        (end.end.codes || numbers) && args_.out_pitch * output_bytes_ % 16 == 0 && p.output().alignment % 16 == 0;
  }

  std::string description() const override {
    return lamina::detail::concat(
        "int8_wgmma: ",
        source_ == Source::rows           ? "windows as rows, "
        : source_ == Source::whole_pixels ? "whole pixels, "
                                          : "",
        choice_.tile.groups * block_filters, " filters x ", choice_.tile.pixels, " pixels per block, K in ",
        args_.steps, " steps of 128",
        args_.adds              ? ", with a sum"
        : args_.sums != nullptr ? ", rounded again"
                                : "",
        args_.splits > 1 ? lamina::detail::concat(" over ", args_.splits, " splits") : std::string(),
        args_.multicast > 1 ? lamina::detail::concat(", weights shared by ", args_.multicast, " blocks")
                            : std::string(),
        ", ring of ", args_.stages, ", ", choice_.blocks, " blocks");
  }
  std::size_t workspace_bytes() const override {
    return copies() ? alignment + static_cast<std::size_t>(windows_.batch * image_bytes()) : 0;
  }
  bool heeds_neighbours() const override { return !copies(); }

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
      ConvGeometry some = windows_;
      some.batch = batch;
      if (copies()) {
        eight_bits::unfold(source_ == Source::rows ? some : of_pixels(some), args.input, pitch_, padding_, rows,
                           execution.stream);
        args.input = rows;
      } else {
        args.neighbours = execution.neighbours;
      }
      CUtensorMap input = input_map(multiplied(some, source_), Operand::codes, choice_.tile.pixels, args.input),
                  output = input, others = input;
      if (args.boxed) {
        output = output_map(args.geometry, args.ends.end.codes ? DType::u8 : args.ends.end.type,
                            (args.ends.end.codes ? 2 : 1) * choice_.tile.store_pixels, args.out_pitch, args.output);
      }
      if (args.adds) {
        void* const added = static_cast<std::byte*>(const_cast<void*>(inputs[1].raw())) +
                            first * windows_.out_pixels() * args.out_pitch;
        args.finish.residual = added;
        others = output_map(args.geometry, DType::u8, 2 * choice_.tile.store_pixels, args.out_pitch, added);
      }
      if (!args.adds && inputs.size() > 1) args.ends.bias = static_cast<const float*>(inputs[1].raw());
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

  bool copies() const { return source_ != Source::image; }
  /// Of the copy.
  std::int64_t image_bytes() const {
    const ConvGeometry g = multiplied(windows_, source_);
    return g.in_pixels() * g.in_channels;
  }
  std::int64_t images_at_once() const {
    if (!copies()) return windows_.batch;
    return std::clamp<std::int64_t>(rows_at_once / std::max<std::int64_t>(1, image_bytes()), 1, windows_.batch);
  }

  int device_;
  ConvGeometry windows_;  // of a launch
  std::int64_t pitch_;    // from pixel to pixel of the input
  std::uint8_t padding_;
  Source source_;
  std::int64_t output_bytes_;  // of an element
  std::int64_t images_ = 0;
  Choice choice_;
  Arguments args_;
  Constants constants_;
};

}  // namespace

bool takes_codes(const ConvProblem& problem, const Preparation& p) {
  if (!lamina::detail::is_eight_bits(problem, p)) return false;
  const lamina::detail::CodeSteps steps = *lamina::detail::code_steps(problem.epilogue.chain);
  if (steps.table && problem.bias.defined() && !problem.eight.bias.defined()) return false;
  if (steps.operand != nullptr) {
    // What is added lies as the output does, and both where TMA brings and takes them.
    const View &output = p.output(), &others = p.inputs[1];
    const bool fits = lamina::detail::adds_codes(steps, p) ? lamina::detail::operands_fit(p)
                                                           : again_of(steps, p).rounding.inverse != 0;
    if (!fits || output.pixel_pitch() % 16 != 0 || output.alignment % 16 != 0 || others.alignment % 16 != 0)
      return false;
  }
  const ConvGeometry& g = problem.geometry;
  return p.device.wgmma && (g.groups == 1 || source_of(problem, p) != Source::rows) && g.out_channels % 2 == 0 &&
         p.output().pixel_pitch() % 2 == 0 && p.output().alignment % 8 == 0 &&
         lamina::detail::is_channels_last(p.input()) && lamina::detail::is_channels_last(p.output()) &&
         p.input().alignment % 16 == 0 && g.batch * g.out_pixels() <= max_pixels &&
         std::max(g.out_pixels(), g.in_pixels()) * eight_bits::row_bytes(g) <=
             static_cast<std::int64_t>(p.workspace_limit / 2);
}

std::unique_ptr<Operator> prepare_codes(const ConvProblem& problem, const Preparation& preparation) {
  return std::make_unique<ChannelsLastCodes>(problem, preparation);
}

}  // namespace lamina::cuda::channels_last
