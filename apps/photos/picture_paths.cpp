#include "photos/picture_paths.h"

#include <fmt/core.h>

#include <algorithm>

#include "lamina/base/atomic_file.h"
#include "lamina/base/error.h"
#include "lamina/base/mapped_file.h"
#include "lamina/base/names.h"
#include "outputs.h"
#include "pictures/png.h"
#include "words.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

/// Whether that is a file of just these bytes.
bool holds(const fs::path& path, std::span<const std::byte> bytes) {
  try {
    return std::ranges::equal(detail::MappedFile::open(path.string())->bytes(), bytes);
  } catch (const Error&) {
    return false;
  }
}

/// ".png" of "a.PNG".
std::string ending_of(const std::string& out) { return lower(fs::path(out).extension().string()); }

bool is_jpeg(const std::string& ending) { return ending == ".jpg" || ending == ".jpeg"; }

/// "-", and what has an extension of letters, as files have: of a folder that is to be made one says so by its end,
/// "/".
bool is_no_folder(const std::string& out) {
  const std::string ending = ending_of(out);
  const bool letters = std::ranges::all_of(ending.substr(std::min<std::size_t>(1, ending.size())),
                                           [](char c) { return c >= 'a' && c <= 'z'; });
  return !fs::is_directory(out) &&
         (out == "-" || detail::is_named_like_image(out) || (ending.size() > 2 && ending.size() < 6 && letters));
}

}  // namespace

void PictureOptions::add_to(CLI::App& command, const std::string& name) {
  writes(command.add_option("--out", out,
                            fmt::format("the picture to write (.png, .jpg), or a folder for several (default: "
                                        "{}.png here)",
                                        name)),
         true);
  command.add_flag("--jpeg", jpeg, picture_as_jpeg);
}

bool PictureOptions::are_jpeg() const { return jpeg || is_jpeg(ending_of(out)); }

std::string PictureOptions::encoded(const Image& image) const { return are_jpeg() ? jpeg_of(image) : png_of(image); }

PicturePaths::PicturePaths(const PictureOptions& options, std::string suffix, const Photos& photos)
    : out_(options.out), suffix_(std::move(suffix)), ending_(options.are_jpeg() ? ".jpg" : ".png"), photos_(photos) {
  const std::string ending = ending_of(out_);
  const bool named = options.are_jpeg() ? is_jpeg(ending) : ending == ".png";
  if (!named && is_no_folder(out_)) {
    throw Error(fmt::format("--out: expected the name of a {}, or a folder, such as {}/, got {}",
                            options.jpeg ? ".jpg as --jpeg says" : ".png or a .jpg", suffix_, out_));
  }
  directory_ = fs::is_directory(out_) || (!out_.empty() && !named);
  if (photos.paths.size() > 1 && named && !directory_) {
    throw Error(fmt::format("--out: expected a folder for {} photographs, got {}", photos.paths.size(), out_));
  }
  for (const fs::path& photo : photos.paths) taken_.insert(real_path(photo));
  if (!out_.empty() && !directory_ && taken_.contains(real_path(out_))) {
    throw Error(fmt::format("--out: {} is the photograph itself, which would be overwritten", out_));
  }
}

void PicturePaths::make_directory() const {
  if (directory_) make_folder("--out", out_);
}

std::string PicturePaths::write(const fs::path& photo, std::string_view picture) {
  const auto bytes = std::as_bytes(std::span(picture));
  ++count_;
  if (!directory_ && !out_.empty()) {
    detail::write_file_atomically(out_, bytes);
    last_ = out_;
    return "wrote " + detail::printable(out_);
  }
  const fs::path folder = directory_ ? out_ / photos_.folder_of(photo) : fs::path(".");
  if (directory_) make_folder("--out", folder);
  // a.png and a.jpg of one directory have names of their own; those of several directories are numbered.
  std::string stem = photo.stem().string();
  if (!take(folder / fmt::format("{}-{}{}", stem, suffix_, ending_))) stem = photo.filename().string();
  std::string other;  // of that name already
  for (int n = 1;; ++n) {
    const std::string number = n == 1 ? "" : fmt::format("-{}", n);
    last_ = (folder / fmt::format("{}-{}{}{}", stem, suffix_, number, ending_)).lexically_normal();
    const bool first = n == 1 && stem == photo.stem().string();  // which was taken above
    if (!first && !take(last_)) continue;
    if (detail::write_new_file_atomically(last_, bytes)) break;
    if (holds(last_, bytes))
      return fmt::format("{} holds this very picture already", detail::printable(last_.string()));
    if (other.empty()) other = last_.string();
  }
  std::string text = "wrote " + detail::printable(last_.string());
  if (!other.empty()) text += fmt::format(", as {} holds another picture", detail::printable(other));
  return text;
}

fs::path PicturePaths::written() const {
  if (count_ == 1 || !directory_) return last_;
  return out_;
}

bool PicturePaths::take(const fs::path& path) { return taken_.insert(real_path(path)).second; }

}  // namespace lamina::app
