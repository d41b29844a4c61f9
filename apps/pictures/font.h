#pragma once

namespace lamina::app {

/// pictures/font/letters.ttf, which CMake puts into the program.
extern const unsigned char font_bytes[];

}  // namespace lamina::app
