#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/base/names.h"

namespace lamina::app {

/// A message with settings as the command has them: the library calls them by their names in C++.
inline std::string in_commands_words(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"CompileOptions::input_shapes", "--input-shape"},
      {"CompileOptions::constants", "a constant, as lamina run does with the tensors of its input"},
      {"OpenOptions::key", "--key"},
      {"OpenOptions::strip_prefix", "--strip-prefix"}};
  std::string text(message);
  for (const auto& [setting, word] : words) {
    for (std::size_t at = 0; (at = text.find(setting, at)) != std::string::npos; at += word.size())
      text.replace(at, setting.size(), word);
  }
  return text;
}

/// "lamina: MESSAGE" on stderr, with control characters escaped: what a file says must not drive a terminal.
inline void complain(std::string_view message) {
  std::fprintf(stderr, "lamina: %s\n", detail::printable(in_commands_words(message), detail::LineEnds::kept).c_str());
}

}  // namespace lamina::app
