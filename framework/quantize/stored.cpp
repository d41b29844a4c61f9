// Which values of a network that is being quantised are stored in eight bits: those that products in eight bits
// multiply, and those on the way to them, as far as they come from such products or are stored anyway.

#include <algorithm>

#include "lamina/quantize/draft.h"

namespace lamina::detail {

std::vector<bool> Draft::stored(const std::vector<bool>& products) const {
  std::vector<bool> wanted(items.size(), false), result(items.size(), false);
  std::vector<bool> comes(products);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!products[i]) continue;
    for (const int input : operands(items[i])) comes[static_cast<std::size_t>(input)] = true;
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (comes[i] || items[i].product || items[i].role == Role::other) continue;
    const std::vector<int> from = operands(items[i]);
    comes[i] =
        !from.empty() && std::ranges::all_of(from, [&](int input) { return comes[static_cast<std::size_t>(input)]; });
  }
  for (std::size_t i = items.size(); i-- > 0;) {
    const Item& item = items[i];
    const bool reads =
        item.product ? products[i] : wanted[i] && comes[i] && (item.role == Role::carrier || item.role == Role::same);
    const bool passes = wanted[i] && item.role == Role::end;
    if (!reads && !passes) continue;
    for (const int k : operands(item)) {
      const auto input = static_cast<std::size_t>(k);
      wanted[input] = true;
      if (reads) result[input] = true;
    }
  }
  const std::vector<std::vector<int>> read_by = readers();  // a product is stored behind the transpose that turns it
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!result[i] || !items[i].product || read_by[i].size() != 1) continue;
    const int reader = read_by[i][0];
    if (at(reader).module->op() == "Transpose" && result[static_cast<std::size_t>(reader)]) result[i] = false;
  }
  return result;
}

}  // namespace lamina::detail
