#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>

namespace lamina::app {

/// Writes options as people read them: `--batch N[,N...]   batches (default: 1,8,32)`.
class HelpFormatter : public CLI::Formatter {
 public:
  /// Of names that mean the same the first: others are those of old.
  std::string make_option_name(const CLI::Option* option, bool positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

/// What to say of a command or an option that does not exist, with the one that was probably meant; empty if all is
/// well.
std::string misspelling(const CLI::App& app, std::span<char* const> arguments);

/// "lamina bench model": the command that the arguments name, as far as they name one.
std::string command_line(const CLI::App& app, std::span<char* const> arguments);

}  // namespace lamina::app
