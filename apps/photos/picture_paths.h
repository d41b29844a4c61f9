#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "lamina/images/image.h"
#include "photos/photos.h"

namespace lamina::app {

inline constexpr const char* picture_as_jpeg = "write pictures as JPEG in place of PNG: a third as large";

/// --out and --jpeg.
struct PictureOptions {
  std::string out;
  bool jpeg = false;

  /// `name`: what a picture is called without --out, "PHOTO-segments".
  void add_to(CLI::App& command, const std::string& name);
  /// By --jpeg, or by the name that --out has.
  bool are_jpeg() const;
  /// The bytes of a picture.
  std::string encoded(const Image& image) const;
};

/// Where a command that makes a picture of each photograph writes them: --out, a picture or a directory, or the working
/// directory. A picture that --out names is replaced. In a directory no picture takes another's place, of this run or
/// of an earlier one, unless it is the same to the byte; and none that of a photograph of the run. Folders below a
/// directory of photographs are there again below --out.
class PicturePaths {
 public:
  /// Pictures are called PHOTO-`suffix`.png or .jpg. Throws Error if `out` is named like a picture of another kind, is
  /// one of the photographs, or names one picture for several of them.
  PicturePaths(const PictureOptions& options, std::string suffix, const Photos& photos);

  /// Throws Error if --out is a directory that cannot be made.
  void make_directory() const;

  /// Writes the picture of this photograph, its bytes, and says so: "wrote cat-features.png". To be called
  /// once for each, from one thread. Throws Error if it cannot be written.
  std::string write(const std::filesystem::path& photo, std::string_view picture);

  /// What was written last, or the directory if that was more than one picture.
  std::filesystem::path written() const;

 private:
  bool take(const std::filesystem::path& path);

  std::string out_, suffix_, ending_;
  const Photos& photos_;
  bool directory_;
  std::set<std::filesystem::path> taken_;  // resolved
  std::filesystem::path last_;
  int count_ = 0;
};

}  // namespace lamina::app
