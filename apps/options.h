#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "lamina/files/safetensors.h"

namespace lamina::app {

/// What `text` names. Throws Error, naming the option, for one that the device does not compute in.
Precision precision_on(Device device, std::string_view option, const std::string& text);

/// The options that every command which runs a plan shares.
struct RunOptions {
  std::string device = "auto";
  std::string precision = "fp32";
  std::string algorithm = "auto";
  std::string linear_weights = "f32";
  std::string architecture = "0";
  int threads = 0;
  bool batch_invariant = false;

  /// Adds --device, --precision, --algorithm, --architecture, --linear-weights, --threads, and --batch-invariant or,
  /// where that is set already, --fastest. Where the command runs on `several` devices, --device may name more than
  /// one.
  void add_to(CLI::App& command, bool several = false);
  /// What --device names, the first of them the CompileOptions' own. Throws Error if one cannot be used here.
  std::vector<Device> devices() const { return parse_devices(device); }
  /// For a batch of n. Throws Error if the device cannot be used here; where `auto` means the CPU in a build with CUDA,
  /// stderr says why.
  CompileOptions compile_options(std::int64_t n) const;
};

/// Accepts whole numbers from `least` to `most`.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// Accepts numbers from `least` to `most`, of 0 or more, also inf, where nothing is said.
CLI::Validator real_number(double least = 0, double most = std::numeric_limits<double>::infinity());

/// Accepts these words.
CLI::Validator one_of(std::vector<std::string> words);

CLI::Validator precision_name();

/// Accepts these words and the names of the convolutions that this build has, on any device.
CLI::Validator algorithm_name(std::vector<std::string> words);

/// Accepts auto, cpu, cuda and cuda:INDEX; where there may be several, also lists of them, and cuda:all.
CLI::Validator device_syntax(bool several = false);

/// Accepts what `parse` accepts, and turns its Error into a usage error.
CLI::Validator accepted_by(std::function<void(std::string_view)> parse, const std::string& description);

/// Accepts names of files that end in one of these.
template <class... Ending>
CLI::Validator ends_in(Ending... endings) {
  return accepted_by([=](std::string_view name) { lamina::detail::require_ending(name, {endings...}); }, "");
}

}  // namespace lamina::app
