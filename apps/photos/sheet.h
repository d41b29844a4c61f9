#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace lamina::app {

/// One picture of many photographs, each a card, in pages: sheet.png, sheet-2.png, ... A page is written where it is
/// full, so that neither memory nor a file grows with their number.
class Sheet {
 public:
  /// No sheet if `path` is empty. Throws Error if a page is one of the photographs.
  Sheet(std::string path, std::span<const std::filesystem::path> photos);

  /// What to say of it: "wrote sheet.png: ..." where this card fills a page. Throws Error if it cannot be written.
  std::string add(Image card, const std::string& layer);
  /// Writes what is left.
  std::string finish(const std::string& layer);

 private:
  std::string name_of(std::size_t page) const;

  std::string path_;
  std::size_t photos_, pages_ = 0, written_ = 0;
  std::vector<Image> cards_;
};

}  // namespace lamina::app
