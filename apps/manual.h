#pragma once

#include <CLI/CLI.hpp>

#include <string>

/// The same words as --help, for others that read them.
namespace lamina::app {

/// The page of a command as `man` reads it: roff.
std::string manual_page(const CLI::App& command);

/// What has a shell complete the command line.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

}  // namespace lamina::app
