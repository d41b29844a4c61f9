// Of inputs of u8 and i8, whose products are whole numbers of f32, and so are their sums.

#include <algorithm>
#include <cstring>

#include "lamina/cpu/conv2d/int8/end.h"
#include "lamina/cpu/conv2d/lanes/lanes.h"

namespace lamina::cpu {

/// Sums are of codes: what the zero points come to is taken off together, and around an image is a row of them.
void LanesConv::pack_codes(const ConvProblem& problem, const Preparation& p) {
  const std::int32_t zero = p.input().quantization.zero_point;
  const int8::ChannelEnd end = int8::channel_end(problem, p);
  const auto size = static_cast<std::size_t>(kernel_.channels), all = blocks_.size() * size;
  codes_ = bf16::Int8End{.end = end.end, .kernel = &best_kernel(codes_kernels(), p.device)};
  codes_->offset.assign(all, 0), codes_->factor.assign(all, 0), codes_->bias.assign(all, 0);
  const std::span<const std::int8_t> weight = problem.eight.weight.values<std::int8_t>();
  const auto terms = static_cast<std::size_t>(g_.reduction());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    for (std::size_t i = 0; i < std::min(size, end.bias.size()); ++i) {
      const std::size_t filter = static_cast<std::size_t>(blocks_[b].output) + i, at = b * size + i;
      std::int32_t sum = 0;
      for (const std::int8_t w : weight.subspan(filter * terms, terms)) sum += w;
      codes_->offset[at] = end.bias[filter] - zero * sum;
      codes_->factor[at] = end.factor[filter], codes_->bias[at] = end.float_bias[filter];
    }
  }
  zeros_ = Tensor({std::int64_t{g_.in_width} * g_.in_channels}, input_);
  std::memset(zeros_.raw(), static_cast<std::uint8_t>(zero), zeros_.bytes());
}

}  // namespace lamina::cpu
