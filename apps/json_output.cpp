#include "json_output.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "complain.h"
#include "lamina/base/names.h"
#include "lamina/images/image.h"
#include "outputs.h"
#include "pictures/text.h"

namespace lamina::app {

CLI::Option* JsonOutput::add_to(CLI::App& command, const std::string& what) {
  option_ = command.add_option("--json", path_, what + " as JSON, to this file, or to stdout for - or nothing");
  option_->expected(0, 1)->check(CLI::Validator(
      [](std::string& text) {  // of `--json photo.png` that photograph would be the file
        std::error_code problem;
        const bool model = std::ranges::any_of(std::array{".onnx", ".safetensors", ".pt", ".pth"},
                                               [&](const char* ending) { return text.ends_with(ending); });
        const char* const other = detail::is_named_like_image(text)              ? "a picture"
                                  : model                                        ? "a model"
                                  : std::filesystem::is_directory(text, problem) ? "a folder"
                                                                                 : nullptr;
        return other == nullptr ? std::string()
                                : fmt::format("expected a file for the JSON, or - for stdout, got {}, {}",
                                              detail::printable(text), other);
      },
      ""));
  return writes(option_);
}

void JsonOutput::write(const nlohmann::ordered_json& json) const {
  if (!asked()) return;
  // A file name need not be UTF-8; JSON must be.
  const std::string text = in_commands_words(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)) + '\n';
  if (to_stdout()) {
    fmt::print("{}", text);
  } else {
    write_text(path_, text);
  }
}

}  // namespace lamina::app
