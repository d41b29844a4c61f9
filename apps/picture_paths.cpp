#include "picture_paths.h"

#include <fmt/core.h>

#include "lamina/base/error.h"
#include "photos.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

/// One path for each file, whatever links and dots lead to it.
fs::path resolved(const fs::path& path) {
  std::error_code problem;
  fs::path result = fs::weakly_canonical(fs::absolute(path, problem), problem);
  return problem ? path : result;
}

}  // namespace

PicturePaths::PicturePaths(std::string out, std::string suffix, std::span<const fs::path> photos)
    : out_(std::move(out)), suffix_(std::move(suffix)) {
  const bool named_png = out_.ends_with(".png") || out_.ends_with(".PNG");
  if (!named_png && is_named_like_photo(out_)) {
    throw Error(fmt::format(
        "--out: pictures are written as PNG: expected a name that ends in .png, or a directory, got {}", out_));
  }
  directory_ = fs::is_directory(out_) || (!out_.empty() && !named_png);
  if (photos.size() > 1 && named_png && !directory_) {
    throw Error(fmt::format("--out: expected a directory for {} photographs, got {}", photos.size(), out_));
  }
  for (const fs::path& photo : photos) taken_.insert(resolved(photo));
  if (!out_.empty() && !directory_ && taken_.contains(resolved(out_))) {
    throw Error(fmt::format("--out: {} is the photograph itself, which would be overwritten", out_));
  }
}

void PicturePaths::make_directory() const {
  std::error_code problem;
  if (directory_) fs::create_directories(out_, problem);
  if (problem) throw Error(fmt::format("--out: cannot make the directory {}: {}", out_, problem.message()));
}

fs::path PicturePaths::next(const fs::path& photo) {
  if (!directory_ && !out_.empty()) return out_;
  const fs::path folder = directory_ ? fs::path(out_) : fs::path(".");
  const std::string stem = photo.stem().string(), name = photo.filename().string();
  fs::path path = folder / fmt::format("{}-{}.png", stem, suffix_);
  // a.png and a.jpg of one directory have names of their own; those of several directories are numbered.
  for (int n = 1; !take(path); ++n) {
    path = folder / (n == 1 ? fmt::format("{}-{}.png", name, suffix_) : fmt::format("{}-{}-{}.png", name, suffix_, n));
  }
  return path.lexically_normal();
}

bool PicturePaths::take(const fs::path& path) { return taken_.insert(resolved(path)).second; }

}  // namespace lamina::app
