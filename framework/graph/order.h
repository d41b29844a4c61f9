#pragma once

#include <vector>

namespace lamina::detail {

/// The places of a list in an order in which each comes after its inputs, which are places too, and otherwise as they
/// are. What is part of a cycle, or depends on one, is left out.
std::vector<int> in_order(const std::vector<std::vector<int>>& inputs);

}  // namespace lamina::detail
