#include "photos/sheet.h"

#include <fmt/core.h>

#include <utility>

#include "lamina/base/names.h"
#include "outputs.h"
#include "pictures/feature_picture.h"
#include "pictures/png.h"
#include "pictures/text.h"

namespace lamina::app {
namespace {

constexpr std::size_t max_cards = 40;  // of a page: some 10 MB

}  // namespace

Sheet::Sheet(std::string path, std::span<const std::filesystem::path> photos)
    : path_(std::move(path)), photos_(photos.size()) {
  if (path_.empty()) return;
  pages_ = (photos_ + max_cards - 1) / max_cards;
  for (std::size_t page = 1; page <= pages_; ++page) {
    for (const auto& photo : photos) require_apart("--sheet", name_of(page), "photos", photo.string());
  }
}

std::string Sheet::add(Image card, const std::string& layer) {
  cards_.push_back(std::move(card));
  return cards_.size() == max_cards ? finish(layer) : "";
}

std::string Sheet::finish(const std::string& layer) {
  if (cards_.empty()) return "";
  const std::string path = name_of(++written_);
  const std::string page = pages_ > 1 ? fmt::format(" (page {} of {})", written_, pages_) : "";
  const std::size_t photos = pages_ > 1 ? photos_ : cards_.size();  // some may have been damaged
  const auto counted = [](std::size_t count) { return fmt::format("{} photograph{}", count, count == 1 ? "" : "s"); };
  write_text(path, png_of(draw_sheet(fmt::format("{}: the strongest maps of {}{}; %: of a map's places, above zero",
                                                 layer, counted(photos), page),
                                     cards_)));
  return fmt::format("wrote {}: {}\n", detail::printable(path), counted(std::exchange(cards_, {}).size()));
}

std::string Sheet::name_of(std::size_t page) const {
  return page == 1 ? path_ : fmt::format("{}-{}.png", path_.substr(0, path_.size() - 4), page);
}

}  // namespace lamina::app
