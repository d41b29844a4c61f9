#pragma once

#include <CLI/CLI.hpp>

#include <span>
#include <string>
#include <vector>

namespace lamina::app {

/// Writes options as people read them: `--batch N[,N...]   batches (default: 1,8,32)`.
class HelpFormatter : public CLI::Formatter {
 public:
  /// What few need is in --help-all alone.
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override;
  /// Of names that mean the same the first: others are those of old.
  std::string make_option_name(const CLI::Option* option, bool positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
  /// Each line of it is a paragraph; what is indented stays as it is.
  std::string make_footer(const CLI::App* app) const override;

 private:
  mutable bool all_ = true;  // of the help that is being made
};

/// What to say of a command or an option that does not exist, with the one that was probably meant; empty if all is
/// well.
std::string misspelling(const CLI::App& app, std::span<char* const> arguments);

/// What the parser found wrong, in our words.
std::string problem_of(const CLI::ParseError& error, const CLI::App& app, std::span<char* const> arguments);

/// "lamina bench model": the command that the arguments name, as far as they name one.
std::string command_line(const CLI::App& app, std::span<char* const> arguments);

}  // namespace lamina::app
