#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lamina/base/export.h"

namespace lamina::detail {

/// The CRC-32 of zip and PNG: polynomial 0x04c11db7, bits reflected.
LAMINA_API std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace lamina::detail
