#pragma once

#include <cstdio>
#include <string_view>

#include "lamina/base/names.h"

namespace lamina::app {

/// "lamina: MESSAGE" on stderr, with control characters escaped: what a file says must not drive a terminal.
inline void complain(std::string_view message) {
  std::fprintf(stderr, "lamina: %s\n", detail::printable(message, detail::LineEnds::kept).c_str());
}

}  // namespace lamina::app
