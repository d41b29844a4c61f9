#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "lamina/base/names.h"

namespace lamina::app {

/// A message as the command says it: the library calls settings by their names in C++.
inline std::string in_commands_words(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"CompileOptions::input_shapes", "--input-shape"},
      {"CompileOptions::constants", "--constant NAME=VALUE"},
      {"CompileOptions::capacity", "--capacity"},
      {"CompileOptions::precision", "--precision"},
      {"OpenOptions::key", "--key"},
      {"OpenOptions::strip_prefix", "--strip-prefix"},
      {"set Model::preprocess, to torchvision_imagenet() for", "--preprocess does, imagenet for"},
      {"a divisor of 1, a mean of 0 and a std of 1", "--scale 1 alone"},
      {"lamina::class_scores", "lamina classify"}};
  return detail::in_words(std::string(message), words);
}

/// A message as a server says it, whose models are files that were made elsewhere.
inline std::string in_servers_words(std::string_view message) {
  constexpr std::pair<std::string_view, std::string_view> words[] = {
      {"CompileOptions::input_shapes", "lamina convert --input-shape"},
      {"CompileOptions::constants", "lamina convert --constant NAME=VALUE"},
      {"set Model::preprocess, to torchvision_imagenet() for", "--preprocess does, imagenet for"},
      {"a divisor of 1, a mean of 0 and a std of 1", "--scale 1 alone"},
      {"lamina::class_scores", "POST /classify"}};
  return detail::in_words(std::string(message), words);
}

/// Whether an error says what is wrong with the command line: it then begins with the option that it is about.
inline bool is_misuse(std::string_view message) {
  const std::string words = in_commands_words(message);
  return words.starts_with("--") || words.starts_with("expected --") || words.starts_with("the argument ");
}

/// What the command exits with: README and docs/troubleshooting.md say it too.
enum ExitCode : int { exit_success = 0, exit_failed = 1, exit_misuse = 2 };

/// "lamina: MESSAGE" on stderr, with control characters escaped: what a file says must not drive a terminal.
inline void complain(std::string_view message) {
  std::fprintf(stderr, "lamina: %s\n", detail::printable(in_commands_words(message), detail::LineEnds::kept).c_str());
}

}  // namespace lamina::app
