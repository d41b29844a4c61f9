// Of inputs of u8 and i8, whose products are whole numbers of f32, and so are their sums.

#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/lanes/lanes.h"

namespace lamina::cpu {

/// Sums are of codes: what the zero points come to is taken off together, and around an image is a row of them.
void LanesConv::pack_codes(const ConvProblem& problem, const Preparation& p) {
  const std::int32_t zero = p.input().quantization.zero_point;
  const detail::ChannelEnd end = detail::channel_end(problem, p, zero);
  const auto all = static_cast<std::size_t>(g_.out_channels + kernel_.channels);  // read in whole vectors
  codes_ = bf16::Int8End{.end = end.end, .kernel = &best_kernel(codes_kernels(), p.device)};
  codes_->offset.assign(all, 0), codes_->factor.assign(all, 0), codes_->bias.assign(all, 0);
  std::ranges::copy(end.bias, codes_->offset.begin());
  std::ranges::copy(end.factor, codes_->factor.begin());
  std::ranges::copy(end.float_bias, codes_->bias.begin());
  zeros_ = Tensor({std::int64_t{g_.in_width} * g_.in_channels}, input_);
  std::memset(zeros_.raw(), static_cast<std::uint8_t>(zero), zeros_.bytes());
}

/// `output`: of channel 0 of the tile's first position.
void LanesConv::finish_codes(LanesTile t, std::byte* output, std::int32_t* sums) const {
  const std::int64_t first = t.blocks[0].output, last = t.blocks[t.count - 1].output + t.channels;
  t.whole = sums;
  t.whole_row = g_.out_channels + kernel_.channels;
  run_(t);
  codes_->kernel->finish(codes_->end, {.sums = sums,
                                       .row = t.whole_row,
                                       .offset = codes_->offset.data() + first,
                                       .factor = codes_->factor.data() + first,
                                       .bias = codes_->bias.data() + first,
                                       .output = output + first * static_cast<std::int64_t>(size_of(output_)),
                                       .pixel = g_.out_channels,
                                       .count = t.positions,
                                       .channels = static_cast<int>(last - first)});
}

}  // namespace lamina::cpu
