#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>

namespace lamina::app {

/// Writes options as people read them: `--batch N[,N...]   batches (default: 1,8,32)`.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

/// What to say if a word stands where a command should be but is none, with the command that was probably meant; empty
/// if all is well.
std::string unknown_command(const CLI::App& app, std::span<char* const> arguments);

}  // namespace lamina::app
