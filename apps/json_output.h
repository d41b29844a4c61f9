#pragma once

#include <CLI/CLI.hpp>

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace lamina::app {

/// --json [FILE], which means the same to every command: what was found as JSON, in a file or, for "-" or nothing, on
/// stdout, which then holds nothing else.
class JsonOutput {
 public:
  /// Adds the option. `what` of it is in the JSON. Returns it.
  CLI::Option* add_to(CLI::App& command, const std::string& what);

  bool asked() const { return option_ != nullptr && option_->count() > 0; }
  bool to_stdout() const { return asked() && (path_.empty() || path_ == "-"); }
  /// Where it is written; empty or "-": on stdout.
  const std::string& file() const { return path_; }
  /// Writes it, if it was asked for. Throws Error if that fails.
  void write(const nlohmann::ordered_json& json) const;

 private:
  std::string path_;
  CLI::Option* option_ = nullptr;
};

}  // namespace lamina::app
