#include "lamina/compile/conversion.h"

namespace lamina::detail {

Normalization::Normalization(const Preprocess& settings) {
  const LevelTable table = level_table(settings);
  problem_.table = Tensor::from(std::span<const float>(table.values), {3, LevelTable::levels});
  problem_.bgr = settings.order == ChannelOrder::bgr;
}

}  // namespace lamina::detail
