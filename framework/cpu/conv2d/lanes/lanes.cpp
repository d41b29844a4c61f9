#include "lamina/cpu/conv2d/lanes/lanes.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/patches.h"
#include "lamina/tensor/constants.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::round_up;

/// Bytes of an image that the layer before has left in the caches.
constexpr std::int64_t cached_bytes = 6 << 20, line = 64;

bool is_code(DType type) { return type == DType::u8 || type == DType::i8; }

/// Terms of 255 and 128 whose sum is a whole number of f32.
constexpr std::int64_t most_exact_terms = 514;

const LanesKernel& kernel_of(DType input, const DeviceDescription& device) {
  return best_kernel(lanes_kernels(input), device);
}

/// Whether that of fours has what becomes of the sums, and this machine its instruction.
bool takes_fours(const ConvProblem& problem, DType input, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  if (!is_code(input) || !detail::is_depthwise(g) || p.device.instructions != InstructionSet::avx512) return false;
  if (!p.device.avx512_vnni || !describe(Device::cpu()).avx512_vnni) return false;
  const int k = g.kernel_width, stride = g.stride_width;
  const bool known = (k == 3 && stride <= 2) || (k == 5 && stride <= 2) || (k == 7 && stride == 1);
  if (!known || g.kernel_height != k || g.dilation_height != 1 || g.dilation_width != 1) return false;
  const detail::ChannelEnd end = detail::channel_end(problem, p);
  return end.end.codes && std::ranges::all_of(end.factor, [](float factor) { return factor <= 0.5f; });
}

const LanesKernel& kernel_of(const ConvProblem& problem, DType input, const Preparation& p) {
  return takes_fours(problem, input, p) ? *dot_lanes_kernel(input) : kernel_of(input, p.device);
}

std::int64_t part_begin(std::int64_t count, std::int64_t n, std::int64_t index) { return count * index / n; }

}  // namespace

LanesConv::LanesConv(const ConvProblem& problem, DType input, const Preparation& p)
    : g_(problem.geometry),
      input_(input),
      output_(p.output().format.dtype),
      kernel_(kernel_of(problem, input, p)),
      moves_(bf16::moves_of(p.device.instructions, true)),
      epilogue_(row_epilogue(problem.epilogue, p.device)),
      adds_(problem.epilogue.reads_operands()),
      from_(p.input().pixel_pitch()),
      to_(p.output().pixel_pitch()) {
  const bool rounding = kernel_.run_rounding != nullptr && supports_avx512_bf16();
  run_ = !depthwise() ? kernel_.run_grouped : rounding ? kernel_.run_rounding : kernel_.run;
  const auto function = bf16::written_function(epilogue_);
  in_registers_ = function && output_ == input_ && !is_code(input);
  if (in_registers_) function_ = *function;
  const int size = kernel_.channels, filters = g_.group_out_channels(), channels = g_.group_in_channels();
  for (int first = 0; first < g_.out_channels; first += size) {
    // The last block computes some channels once more rather than fewer.
    const int output = std::max(0, std::min(first, g_.out_channels - size));
    blocks_.push_back({std::max(0, std::min(output / filters * channels, g_.in_channels - size)), output});
  }
  divide(p.threads);
  pack(problem);
  if (is_code(input)) pack_codes(problem, p);
  for (Tensor* each : {&weights_, &bias_, &plain_bias_, &zeros_}) *each = detail::constant(*each);
}

void LanesConv::divide(int threads) {
  const auto blocks = static_cast<int>(blocks_.size());
  // No part is a single block: the last one may share channels with the one before it.
  if (g_.batch * g_.out_height < 8 * threads && blocks >= 2 * threads) {
    parts_ = threads;
  } else if (threads > 1) {
    bands_ = std::clamp<std::int64_t>(8 * threads / std::max<std::int64_t>(1, g_.batch), 1, g_.out_height);
  }
}

void LanesConv::operator()(std::span<const Tensor> inputs, std::span<Tensor> outputs,
                           const Execution& execution) const {
  const Tensors tensors = {.input = static_cast<const std::byte*>(inputs[0].raw()),
                           .residual = adds_ ? static_cast<const std::byte*>(inputs[1].raw()) : nullptr,
                           .output = static_cast<std::byte*>(outputs[0].raw())};
  const auto blocks = static_cast<std::int64_t>(blocks_.size());
  execution.pool->parallel_for(g_.batch * bands_ * parts_, [&](std::int64_t index, int worker) {
    std::byte* const own =
        static_cast<std::byte*>(execution.workspace) + static_cast<std::size_t>(worker) * workspace_bytes();
    const std::int64_t part = index % parts_, band = index / parts_ % bands_, image = index / parts_ / bands_;
    for (std::int64_t row = part_begin(g_.out_height, bands_, band); row < part_begin(g_.out_height, bands_, band + 1);
         ++row) {
      run_row(tensors, image, row, static_cast<int>(part_begin(blocks, parts_, part)),
              static_cast<int>(part_begin(blocks, parts_, part + 1)), own);
    }
  });
}

std::size_t LanesConv::pointer_bytes() const {
  return static_cast<std::size_t>(round_up<std::int64_t>(g_.kernel_height * std::int64_t{sizeof(void*)}, line));
}

std::size_t LanesConv::tile_floats() const {
  const int channels = is_code(input_) ? round_up(g_.out_channels + kernel_.channels, 16) : kernel_.channels;
  return static_cast<std::size_t>(round_up(kernel_.positions * channels, 16));
}

/// [block][row of taps, tap, channel of the group][channels as lane_place() has them], as bf16 rounds them if it does.
void LanesConv::pack(const ConvProblem& problem) {
  const int size = kernel_.channels, channels = g_.group_in_channels(), filters = g_.group_out_channels();
  const std::int64_t taps = std::int64_t{g_.kernel_height} * g_.kernel_width;
  const auto blocks = static_cast<std::int64_t>(blocks_.size());
  weights_ = Tensor::zeros({blocks * taps * channels * size});
  bias_ = Tensor::zeros({blocks * size});
  plain_bias_ = Tensor::zeros({blocks * size});
  zeros_ = Tensor::zeros({g_.in_channels});
  const auto weight = [&](std::int64_t i) {
    if (is_code(input_))
      return static_cast<float>(problem.eight.weight.values<std::int8_t>()[static_cast<std::size_t>(i)]);
    return detail::floats(problem.weight)[i];
  };
  float *to = detail::floats(weights_), *bias = detail::floats(bias_), *plain_bias = detail::floats(plain_bias_);
  for (const LanesBlock& block : blocks_) {
    const int there = std::min(size, g_.out_channels);
    for (int i = 0; i < there; ++i) {
      const std::int64_t filter = block.output + i;
      const int place = lane_place(input_, i, size);
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        for (int c = 0; c < channels; ++c) {
          const float w = weight((filter * channels + c) * taps + tap);
          to[(tap * channels + c) * size + place] = input_ == DType::bf16 ? to_float(to_bfloat16(w)) : w;
        }
      }
      // What is written from sums has its bias added there.
      const float b = problem.bias.defined() && !is_code(input_) ? detail::floats(problem.bias)[filter] : 0.0f;
      in_registers_ ? bias[place] = b : plain_bias[i] = b;
    }
    for (int c = 0; c < channels && !depthwise(); ++c) {
      for (int i = 0; i < size; ++i) {
        places_.push_back(static_cast<std::int32_t>((block.output + i) / filters * channels + c - block.input));
      }
    }
    to += taps * channels * size, bias += size, plain_bias += size;
  }
}

void LanesConv::run_row(const Tensors& tensors, std::int64_t image, std::int64_t row, int first_block, int last_block,
                        std::byte* workspace) const {
  const std::int64_t top = row * g_.stride_height - g_.padding_height, dilation = g_.dilation_height;
  const bool codes = codes_.has_value();  // which have something around an image
  const std::int64_t first = codes     ? 0
                             : top < 0 ? std::min<std::int64_t>(ceil_div(-top, dilation), g_.kernel_height)
                                       : 0;
  const std::int64_t last =
      codes ? g_.kernel_height
            : std::clamp<std::int64_t>(top < g_.in_height ? (g_.in_height - 1 - top) / dilation + 1 : 0, first,
                                       g_.kernel_height);
  const auto element = static_cast<std::int64_t>(size_of(input_));
  const std::int64_t row_bytes = g_.in_width * from_ * element;
  const std::byte* const image_input = tensors.input + (image * g_.in_height - tensors.first_row) * row_bytes;
  auto** const rows = reinterpret_cast<const void**>(workspace);
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t from = top + i * dilation;
    rows[i - first] = from >= 0 && from < g_.in_height ? image_input + from * row_bytes : zeros_.raw();
  }
  const auto at = static_cast<std::size_t>(first_block);
  const std::int64_t size = kernel_.channels, channels = g_.group_in_channels();
  const std::int64_t block_weights = std::int64_t{g_.kernel_height} * g_.kernel_width * channels * size;
  LanesTile tile = {
      .rows = rows,
      .kernel_rows = static_cast<int>(last - first),
      .kernel_columns = g_.kernel_width,
      .blocks = &blocks_[at],
      .count = last_block - first_block,
      .channels = std::min(kernel_.channels, g_.out_channels),
      .group_channels = g_.group_in_channels(),
      .chain = LanesTile::chunk_terms / g_.group_in_channels(),
      .pixel = from_,
      .columns = g_.in_width,
      .zeros = zeros_.raw(),
      .stride = g_.stride_width,
      .dilation = g_.dilation_width,
      .weights = detail::floats(weights_) + first_block * block_weights + first * g_.kernel_width * channels * size,
      .block_weights = block_weights,
      .bias = detail::floats(bias_) + first_block * size,
      .places = depthwise() ? nullptr : &places_[at * static_cast<std::size_t>(channels * size)],
      .positions = static_cast<int>(std::min<std::int64_t>(kernel_.positions, g_.out_width)),
      .low = epilogue_.low,
      .high = epilogue_.high,
      .function = function_,
      .output_pixel = to_};
  const std::int64_t out_row = (image * g_.out_height + row) * g_.out_width;
  // The processor follows the rows of a window, but does not foresee where the next begins.
  const std::int64_t below = std::max<std::int64_t>(0, top + (g_.kernel_height - 1) * dilation + 1);
  const bool fetches =
      !tensors.near && g_.batch * g_.in_height * row_bytes > cached_bytes && below + g_.stride_height <= g_.in_height;
  for (std::int64_t column = 0; column < g_.out_width; column += kernel_.positions) {
    const std::int64_t begin = std::clamp<std::int64_t>(g_.out_width - kernel_.positions, 0, column);
    if (fetches) {
      const std::byte* ahead = image_input + below * row_bytes + begin * g_.stride_width * from_ * element;
      const std::int64_t bytes = tile.positions * std::int64_t{g_.stride_width} * from_ * element;
      for (int r = 0; r < g_.stride_height; ++r, ahead += row_bytes) {
        for (std::int64_t i = 0; i < bytes; i += line) __builtin_prefetch(ahead + i, 0, 2);
      }
    }
    tile.left = begin * g_.stride_width - g_.padding_width;
    std::byte* const output = tensors.output + (out_row + begin) * to_ * static_cast<std::int64_t>(size_of(output_));
    tile.output = output;
    if (codes) {
      finish_codes(tile, output, reinterpret_cast<std::int32_t*>(workspace + pointer_bytes()));
      continue;
    }
    if (in_registers_) {
      if (epilogue_.adds) tile.addend = tensors.residual + (output - tensors.output);
      run_(tile);
      continue;
    }
    for (int block = first_block; block < last_block; ++block) {
      finish_block(tile, block - first_block, tensors, out_row + begin, workspace);
    }
  }
}

/// Block `block` of a tile's, by its sums, at `pixel` of the output.
void LanesConv::finish_block(LanesTile t, int block, const Tensors& tensors, std::int64_t pixel,
                             std::byte* workspace) const {
  auto* const sums = reinterpret_cast<float*>(workspace + pointer_bytes());
  const std::ptrdiff_t size = kernel_.channels;
  t.blocks += block, t.count = 1, t.weights += block * t.block_weights, t.bias += block * size;
  if (t.places != nullptr) t.places += block * t.group_channels * size;
  t.sums = sums;
  run_(t);
  const std::int64_t place = (pixel * to_ + t.blocks->output) * static_cast<std::int64_t>(size_of(output_));
  bf16::finish(moves_, epilogue_,
               {.sums = sums,
                .row = size,
                .bias = detail::floats(plain_bias_) + (t.bias - detail::floats(bias_)),
                .output = tensors.output + place,
                .pixel = to_,
                .count = t.positions,
                .filters = t.channels},
               output_, adds_ ? tensors.residual + place : nullptr, sums + tile_floats(), sums + 2 * tile_floats());
}

std::string LanesConv::description() const {
  return detail::concat(kernel_.finishes        ? "int8_lanes: AVX512-VNNI, "
                        : codes_                ? "int8_lanes: "
                        : input_ == DType::bf16 ? "bf16_lanes: "
                        : depthwise()           ? "depthwise: "
                                                : "grouped: ",
                        kernel_.channels, " channels x ", kernel_.positions, " pixels in registers, ",
                        name(kernel_.set));
}

bool takes_lanes(DType input, const ConvProblem& problem, const Preparation& p) {
  const ConvGeometry& g = problem.geometry;
  const LanesKernel& kernel = kernel_of(input, p.device);
  const int size = kernel.channels, filters = g.group_out_channels();
  // Blocks are whole groups, and read no more channels than they have.
  const bool grouped = kernel.run_grouped != nullptr && g.group_in_channels() <= filters && size % filters == 0 &&
                       size <= std::min(g.in_channels, g.out_channels);
  if (!detail::is_depthwise(g) && !grouped) return false;
  if (is_code(input)) {
    const View &from = p.input(), &to = p.output();
    return detail::is_eight_bits(problem, p) && g.reduction() <= most_exact_terms &&
           from.format == Format{input, Layout::nhwc} && to.format.layout == Layout::nhwc;
  }
  if (p.precision != (input == DType::bf16 ? Precision::bf16 : Precision::fp32)) return false;
  if (!problem.epilogue.is_residual()) return false;
  const View& output = p.output();
  if (p.input().format != Format{input, Layout::nhwc}) return false;
  if (output.format != p.input().format && output.format != Format{DType::f32, Layout::nhwc}) return false;
  const auto like_output = [&](const View& view) {
    return view.format == output.format && view.channels == output.channels;
  };
  return !problem.epilogue.reads_operands() || (p.inputs.size() > 1 && like_output(p.inputs[1]));
}

std::unique_ptr<Operator> prepare_lanes(DType input, const ConvProblem& problem, const Preparation& p) {
  LanesConv conv(problem, input, p);
  const std::string description = conv.description();
  const detail::OperatorTraits memory = {.workspace = conv.workspace_bytes() * static_cast<std::size_t>(p.threads)};
  return detail::make_operator(description, memory, std::move(conv));
}

}  // namespace lamina::cpu
