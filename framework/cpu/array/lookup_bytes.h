#pragma once

#include <array>
#include <cstdint>

namespace lamina::cpu {

/// to[i] = table[from[i]]; `to` may be `from`.
void lookup_bytes(const std::array<std::uint8_t, 256>& table, const std::uint8_t* from, std::uint8_t* to,
                  std::int64_t count);

}  // namespace lamina::cpu
