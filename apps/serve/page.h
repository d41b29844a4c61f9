#pragma once

#include <span>
#include <string_view>

namespace lamina::app {

/// A file of the page, by the path that asks for it.
struct PageFile {
  const char* path;
  const char* name;
  const char* type;
  std::string_view content;
};

/// Built in: made of page/ by bake_page.cmake.
extern const std::span<const PageFile> page_files;

}  // namespace lamina::app
