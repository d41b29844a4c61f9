#pragma once

#include <filesystem>

namespace lamina::app {

/// Shows a picture or a directory in the desktop's own viewer. Throws Error if there is no desktop or no viewer.
void open_file(const std::filesystem::path& path);

}  // namespace lamina::app
