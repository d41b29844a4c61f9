#pragma once

#include <string_view>

#include "lamina/base/export.h"

namespace lamina {

/// "0.1.0"
LAMINA_API std::string_view version();

}  // namespace lamina
