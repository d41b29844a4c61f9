#pragma once

#include <filesystem>
#include <set>
#include <span>
#include <string>

namespace lamina::app {

/// Where a command that makes a picture of each photograph writes them: --out, a PNG or a directory, or the working
/// directory. No two pictures of a run get one name, and none the name of a photograph of the run.
class PicturePaths {
 public:
  /// Pictures are called PHOTO-`suffix`.png. Throws Error if `out` is named like a picture of another kind, is one of
  /// the photographs, or names one PNG for several of them.
  PicturePaths(std::string out, std::string suffix, std::span<const std::filesystem::path> photos);

  /// Throws Error if --out is a directory that cannot be made.
  void make_directory() const;

  /// The picture of this photograph; to be asked once for each.
  std::filesystem::path next(const std::filesystem::path& photo);

 private:
  bool take(const std::filesystem::path& path);

  std::string out_, suffix_;
  bool directory_;
  std::set<std::filesystem::path> taken_;  // resolved
};

}  // namespace lamina::app
