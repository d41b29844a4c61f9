#pragma once

#include <CLI/CLI.hpp>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lamina::app {

/// Marks an option whose value names a file that the command writes; "-" is stdout. That the file can be written is
/// asked before the work begins; where the value may also be a folder, which the command makes, of names of files.
/// Returns the option.
CLI::Option* writes(CLI::Option* option, bool or_folder = false);

/// Throws Error if both are one file, whatever links lead there, or `output` a picture that is there below `input`, a
/// directory. Nothing is wrong with empty names, "-", and an output that is a directory.
void require_apart(const std::string& option, const std::string& output, const std::string& reader,
                   const std::string& input);

/// Before the command runs: the same for every option that it writes to and every other that was given; two outputs
/// must be two files.
void require_outputs_apart(const CLI::App& command);

/// What CLI11 says is wrong with a value: with an argument's too it names the option that can stand for it ("--out:
/// ..."). Where no such option was written, it is "the argument out: ...".
std::string as_written(const std::string& problem, const CLI::App& command, std::span<char* const> arguments);

/// One path for each file, whatever links and dots lead to it.
std::filesystem::path real_path(const std::filesystem::path& path);

/// Makes a folder that the option names, and those around it. Throws Error that names both if that fails.
void make_folder(std::string_view option, const std::filesystem::path& folder);

}  // namespace lamina::app
