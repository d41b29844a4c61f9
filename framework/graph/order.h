#pragma once

#include <vector>

namespace lamina::detail {

/// The places of a list, ordered so that each comes after its inputs, which are places too; apart from that they keep
/// their order. A place that is part of a cycle, or depends on one, is left out.
std::vector<int> in_order(const std::vector<std::vector<int>>& inputs);

}  // namespace lamina::detail
