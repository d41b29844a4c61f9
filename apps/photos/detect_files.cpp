#include "photos/detect_files.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "lamina/base/names.h"
#include "lamina/images/codecs/codec.h"
#include "outputs.h"
#include "pictures/text.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

Image part_of(const Image& photo, const Box& box) {
  const auto within = [](float place, int side) { return std::clamp(static_cast<int>(place), 0, side); };
  const int left = within(std::floor(box.left), photo.width), right = within(std::ceil(box.right), photo.width);
  const int top = within(std::floor(box.top), photo.height), bottom = within(std::ceil(box.bottom), photo.height);
  Image part{std::max(1, right - left), std::max(1, bottom - top), {}};
  const auto first = [&](int row) {
    const int column = std::min(left, photo.width - 1);
    return photo.rgb.begin() + 3 * (std::ptrdiff_t{row} * photo.width + column);
  };
  for (int y = 0; y < part.height; ++y) {
    const auto from = first(std::min(top + y, photo.height - 1));
    part.rgb.insert(part.rgb.end(), from, from + 3 * std::ptrdiff_t{part.width});
  }
  return part;
}

/// A class as a folder's name.
std::string folder_of(std::string name) {
  for (char& letter : name) letter = letter == '/' || static_cast<unsigned char>(letter) < ' ' ? '_' : letter;
  return name.empty() || name[0] == '.' ? '_' + name : name;
}

}  // namespace

DetectFiles::DetectFiles(std::string labels, std::string crops, bool jpeg, const Photos& photos)
    : labels_(std::move(labels)), crops_(std::move(crops)), jpeg_(jpeg), photos_(photos) {
  std::set<fs::path> known;
  for (const fs::path& photo : photos.paths) {
    if (labels_.empty() || known.insert(photos.folder_of(photo) / photo.stem()).second) continue;
    throw Error(fmt::format("--txt: two photographs would have their labels in {}.txt: run them apart",
                            (photos.folder_of(photo) / photo.stem()).string()));
  }
}

std::vector<std::string> DetectFiles::crops_of(const Image& photo, const FoundThings& found) const {
  std::vector<std::string> crops;
  for (std::size_t i = 0; !crops_.empty() && i < found.things.size(); ++i) {
    const Image part = part_of(photo, found.things[i].box);
    crops.push_back(jpeg_ ? detail::encode_jpeg(part) : detail::encode_png(part));
  }
  return crops;
}

std::string DetectFiles::write(const FoundThings& found, const std::vector<std::string>& crops) const {
  const fs::path folder = photos_.folder_of(found.photo);
  const std::string stem = found.photo.stem().string();
  std::string said;
  if (!labels_.empty()) {
    make_folder("--txt", labels_ / folder);
    const std::string path = (labels_ / folder / (stem + ".txt")).string();
    write_text(path, to_yolo(found));
    said += fmt::format("  wrote {}\n", detail::printable(path));
  }
  for (std::size_t i = 0; i < crops.size(); ++i) {
    const fs::path of_class = crops_ / folder / folder_of(found.names[i]);
    make_folder("--crops", of_class);
    write_text((of_class / fmt::format("{}-{}{}", stem, i + 1, jpeg_ ? ".jpg" : ".png")).string(), crops[i]);
  }
  if (!crops.empty())
    said += fmt::format("  wrote {} crops to {}\n", crops.size(), detail::printable((crops_ / folder).string()));
  return said;
}

std::string to_yolo(const FoundThings& found) {
  std::string text;
  const float width = static_cast<float>(found.width), height = static_cast<float>(found.height);
  for (const Detection& thing : found.things) {
    const auto put = [&](float x, float y) {
      text += fmt::format(" {:.6f} {:.6f}", std::clamp(x / width, 0.0f, 1.0f), std::clamp(y / height, 0.0f, 1.0f));
    };
    text += std::to_string(thing.label);
    const Box& box = thing.box;
    Outline corners;
    if (thing.turned) corners = thing.turned->corners();
    if (thing.mask) corners = as_one(outlines_of(*thing.mask));
    if (thing.mask && corners.empty())  // of a thing smaller than a pixel
      corners = {box.left, box.top, box.right, box.top, box.right, box.bottom, box.left, box.bottom};
    for (std::size_t i = 0; i < corners.size(); i += 2) put(corners[i], corners[i + 1]);
    if (corners.empty()) {
      put((box.left + box.right) / 2, (box.top + box.bottom) / 2);
      put(box.right - box.left, box.bottom - box.top);
    }
    for (const Keypoint& point : thing.points) {
      put(point.x, point.y);
      text += fmt::format(" {:.6f}", point.score);
    }
    text += '\n';
  }
  return text;
}

}  // namespace lamina::app
