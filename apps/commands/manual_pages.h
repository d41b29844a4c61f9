#pragma once

#include <CLI/CLI.hpp>

#include <map>
#include <string>

/// The same words as --help, for others that read them.
namespace lamina::app {

/// The pages of a command and of those below it as `man` reads them, roff, by their names: "lamina-classify".
std::map<std::string, std::string> manual_pages(const CLI::App& command);

/// What has a shell complete the command line.
std::string bash_completion(const CLI::App& app);
std::string zsh_completion(const CLI::App& app);

}  // namespace lamina::app
