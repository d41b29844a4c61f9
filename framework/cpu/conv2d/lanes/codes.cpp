// Of inputs of u8 and i8, whose products are whole numbers of f32, and so are their sums.

#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/lanes/lanes.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu {

/// Sums are of codes: what the zero points come to is taken off together, and around an image is a row of them.
void LanesConv::pack_codes(const ConvProblem& problem, const Preparation& p) {
  const std::int32_t zero = p.input().quantization.zero_point;
  zeros_ = Tensor({std::int64_t{g_.in_width} * g_.in_channels}, input_);
  std::memset(zeros_.raw(), static_cast<std::uint8_t>(zero), zeros_.bytes());
  if (kernel_.finishes) return pack_fours(problem, p);
  const detail::ChannelEnd end = detail::channel_end(problem, p, zero);
  const auto all = static_cast<std::size_t>(g_.out_channels + kernel_.channels);  // read in whole vectors
  codes_ = bf16::Int8End{.end = end.end, .kernel = &best_kernel(codes_kernels(), p.device)};
  const auto padded = [&](auto values) {
    values.resize(all);
    return detail::constant(values);
  };
  codes_->offset = padded(end.bias), codes_->factor = padded(end.factor), codes_->bias = padded(end.float_bias);
}

/// By block, as dot_lanes_kernel() wants them; i8 is taken for u8 that is 128 more.
void LanesConv::pack_fours(const ConvProblem& problem, const Preparation& p) {
  const int size = kernel_.channels, taps = g_.kernel_height * g_.kernel_width;
  const std::int32_t more = input_ == DType::i8 ? 128 : 0;
  const detail::ChannelEnd end = detail::channel_end(problem, p, p.input().quantization.zero_point + more);
  codes_ = bf16::Int8End{.end = end.end};
  std::vector<std::int32_t> offset(blocks_.size() * static_cast<std::size_t>(size));
  std::vector<float> factor(offset.size());
  const std::int8_t* const weight = problem.eight.weight.values<std::int8_t>().data();
  std::memset(weights_.raw(), 0, weights_.bytes());
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    auto* const to = static_cast<std::int8_t*>(weights_.raw()) + block * static_cast<std::size_t>(taps * size) * 4;
    const int there = 2 * g_.out_channels == size ? size : std::min(size, g_.out_channels);  // twice, for two outputs
    for (int i = 0; i < there; ++i) {
      const auto channel = static_cast<std::size_t>(blocks_[block].output + i % g_.out_channels);
      const std::size_t at = block * static_cast<std::size_t>(size) + static_cast<std::size_t>(fours_place(i));
      offset[at] = end.bias[channel], factor[at] = end.factor[channel];
      for (int row = 0; row < g_.kernel_height; ++row) {
        for (int k = 0; k < g_.kernel_width; ++k) {
          to[((row / 4 * g_.kernel_width + k) * size + fours_place(i)) * 4 + row % 4] =
              weight[static_cast<int>(channel) * taps + row * g_.kernel_width + k];
        }
      }
    }
  }
  codes_->offset = detail::constant(offset), codes_->factor = detail::constant(factor);
}

/// `output`: of channel 0 of the tile's first position.
void LanesConv::finish_codes(LanesTile t, std::byte* output, std::int32_t* sums) const {
  if (kernel_.finishes) {
    const std::ptrdiff_t block = t.blocks - blocks_.data();
    t.end = &codes_->end;
    t.offset = static_cast<const std::int32_t*>(codes_->offset.raw()) + block * kernel_.channels;
    t.factor = detail::floats(codes_->factor) + block * kernel_.channels;
    return run_(t);
  }
  const std::int64_t first = t.blocks[0].output, last = t.blocks[t.count - 1].output + t.channels;
  t.whole = sums;
  t.whole_row = g_.out_channels + kernel_.channels;
  run_(t);
  codes_->kernel->finish(codes_->end, {.sums = sums,
                                       .row = t.whole_row,
                                       .offset = static_cast<const std::int32_t*>(codes_->offset.raw()) + first,
                                       .factor = detail::floats(codes_->factor) + first,
                                       .bias = detail::floats(codes_->bias) + first,
                                       .output = output + first * static_cast<std::int64_t>(size_of(output_)),
                                       .pixel = g_.out_channels,
                                       .count = t.positions,
                                       .channels = static_cast<int>(last - first)});
}

}  // namespace lamina::cpu
