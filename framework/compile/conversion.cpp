#include "lamina/compile/conversion.h"

#include <cstring>

namespace lamina::detail {

Normalization::Normalization(const Preprocess& settings) {
  const LevelTable table = level_table(settings);
  problem_.table = Tensor::from(std::span<const float>(table.values), {3, LevelTable::levels});
  problem_.bgr = settings.order == ChannelOrder::bgr;
}

Tensor converted_constant(const Tensor& constant, Layout layout, Format format) {
  const Tensor value = constant.to(format.dtype);
  const Shape& shape = value.shape();
  if (same_order(shape, layout, format.layout)) return value;
  // From nchw, as all constants begin.
  const std::size_t size = size_of(format.dtype);
  const std::int64_t channels = shape[1], pixels = shape[2] * shape[3];
  Tensor result(shape, format.dtype);
  const auto* from = static_cast<const std::byte*>(value.raw());
  auto* to = static_cast<std::byte*>(result.raw());
  for (std::int64_t image = 0; image < shape[0]; ++image) {
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::int64_t channel = 0; channel < channels; ++channel, to += size) {
        const std::int64_t place = (image * channels + channel) * pixels + pixel;
        std::memcpy(to, from + static_cast<std::size_t>(place) * size, size);
      }
    }
  }
  return result;
}

}  // namespace lamina::detail
