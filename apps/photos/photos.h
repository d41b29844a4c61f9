#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lamina::app {

/// Which photographs a command reads, and how.
struct PhotoOptions {
  std::vector<std::string> paths;
  bool recursive = false, as_stored = false;
  std::uint64_t memory = 0;  ///< bytes that decoding may take; 0: half of what the machine has

  /// Adds the photographs themselves, --recursive, --as-stored and --memory.
  void add_to(CLI::App& command);
  /// Adds --as-stored and --memory alone.
  void add_reading_to(CLI::App& command);
  /// How each of them is to be read.
  ImageOptions image() const;
};

/// "500M" in bytes: K, M, G and T are powers of 1000.
CLI::Validator memory_size();

/// What a search for photographs found.
struct Photos {
  std::vector<std::filesystem::path> paths;
  bool failed = false;                                                  ///< some could not be found; stderr says which
  std::map<std::filesystem::path, std::filesystem::path> folders = {};  ///< below a directory that was named

  /// In which folder below the named directory a photograph lies; empty where it is in that itself.
  std::filesystem::path folder_of(const std::filesystem::path& photo) const {
    const auto found = folders.find(photo);
    return found == folders.end() ? std::filesystem::path() : found->second;
  }
};

/// The photographs that the paths name: files as they are, directories by the files that are images or are named like
/// one, sorted, but for pictures that Lamina drew. On stderr: paths that are not there, directories without
/// photographs, links that lead nowhere or in circles, and what is left out. Throws Failed if nothing is left.
Photos find_photos(const PhotoOptions& options);

/// Width and height of a photograph, or of a smaller one of it whose longer side is `most`.
std::pair<int, int> sides_within(const Image& photo, int most);

/// Whether the file at `path` looks like a picture, judged by its first bytes.
bool is_photo(const std::filesystem::path& path);

}  // namespace lamina::app
