#pragma once

#include <string_view>

#include "lamina/tensor/format.h"

namespace lamina {

/// Reads what a Format prints, also with a comma between, or without nchw: "f16 nhwc", "f16,nhwc", "bf16".
/// Throws Error for anything else.
LAMINA_API Format parse_format(std::string_view text);

}  // namespace lamina
