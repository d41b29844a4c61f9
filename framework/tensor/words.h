#pragma once

#include <cstddef>
#include <cstdint>

namespace lamina::detail {

/// Calls `f` with a whole number of as many bytes as an element has: 1, 2, 4 or 8.
template <class F>
void with_word(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

}  // namespace lamina::detail
