#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <string>

namespace lamina::app {

/// The options that every command which runs a plan shares.
struct RunOptions {
  std::string device = "auto";
  std::string precision = "fp32";
  std::string algorithm = "auto";
  int threads = 0;

  /// Adds --device, --precision, --threads and --algorithm.
  void add_to(CLI::App& command);
  /// Throws Error if the device cannot be used here. A fall-back from `auto` to the CPU is explained on stderr when
  /// a GPU would have been expected.
  CompileOptions compile_options(std::int64_t batch) const;
};

/// Accepts what `parse` accepts, and turns its Error into a usage error.
CLI::Validator accepted_by(void (*parse)(std::string_view), const std::string& description);

}  // namespace lamina::app
