#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <ranges>
#include <span>
#include <string_view>

namespace lamina::detail {

/// What nn.DataParallel and DistributedDataParallel put before every name, and torch.compile; and under what training
/// modules, such as Lightning's, keep their network. A network may have a part called "model" itself, so that one is
/// left out only where it is known not to.
inline constexpr std::array<std::string_view, 3> known_prefixes = {"module.", "_orig_mod.", "model."};
inline constexpr std::span<const std::string_view> wrapper_prefixes(known_prefixes.data(), 2);

/// The one of `prefixes` that all names begin with; empty if there is none, or there are no names.
template <std::ranges::range Range, class Projection = std::identity>
std::string_view shared_prefix(std::span<const std::string_view> prefixes, const Range& range,
                               Projection projection = {}) {
  if (std::ranges::empty(range)) return {};
  for (const std::string_view prefix : prefixes) {
    const auto begins_so = [&](const auto& name) { return std::string_view(name).starts_with(prefix); };
    if (std::ranges::all_of(range, begins_so, projection)) return prefix;
  }
  return {};
}

}  // namespace lamina::detail
