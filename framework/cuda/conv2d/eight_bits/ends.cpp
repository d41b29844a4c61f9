#include "lamina/cuda/conv2d/eight_bits/ends.h"

namespace lamina::cuda::eight_bits {

UploadedEnds::UploadedEnds(const ConvProblem& problem, const Preparation& p, int channels) {
  detail::ChannelEnd end = detail::channel_end(problem, p);
  for (std::size_t c = 0; c < end.bias.size(); ++c) {
    end.bias[c] = detail::offset_of(end, problem, c, p.input().quantization.zero_point);
  }
  const auto upload = [&](auto values) {
    values.resize(static_cast<std::size_t>(channels));
    return Constant(p.device.device.index, values.data(), values.size() * sizeof(values[0]));
  };
  end_ = end.end, offset_ = upload(end.bias), factor_ = upload(end.factor), bias_ = upload(end.float_bias);
}

}  // namespace lamina::cuda::eight_bits
