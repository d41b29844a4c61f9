#include "lamina/ops/table.h"

#include <algorithm>
#include <vector>

namespace lamina::detail {

std::span<const OpRow> all_ops() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> joined;
    for (const auto part : {pointwise_ops(), shape_ops(), move_ops(), index_ops(), reduce_ops(), norm_ops(), conv_ops(),
                            product_ops(), pool_ops(), resize_ops(), grid_ops(), quantized_ops(), recurrent_ops(),
                            count_ops(), sequence_ops(), signal_ops()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    std::ranges::sort(joined, {}, &OpRow::name);
    return joined;
  }();
  return rows;
}

const OpRow* find_op(std::string_view name) {
  const auto rows = all_ops();
  const auto found = std::ranges::lower_bound(rows, name, {}, &OpRow::name);
  return found == rows.end() || found->name != name ? nullptr : &*found;
}

}  // namespace lamina::detail
