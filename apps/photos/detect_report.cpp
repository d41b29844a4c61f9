#include "photos/detect_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "photos/csv.h"
#include "photos/frames.h"
#include "words.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

/// COCO's compressed run lengths: each less the one two before it, five bits a letter.
std::string compressed(const Mask& mask) {
  std::string text;
  for (std::size_t i = 0; i < mask.runs.size(); ++i) {
    std::int64_t value = mask.runs[i];
    if (i > 2) value -= mask.runs[i - 2];
    for (bool more = true; more;) {
      auto letter = static_cast<int>(value & 31);
      value >>= 5;
      more = (letter & 16) != 0 ? value != -1 : value != 0;
      text += static_cast<char>(48 + (more ? letter | 32 : letter));
    }
  }
  return text;
}

Json rle(const Mask& mask) { return {{"size", {mask.height, mask.width}}, {"counts", compressed(mask)}}; }

/// What COCO numbers from 1 to 90 with gaps, its detectors number from 0 to 79.
int coco_category(int label, const std::vector<std::string>& classes) {
  constexpr std::array gaps = {12, 26, 29, 30, 45, 66, 68, 69, 71, 83};
  if (classes.size() != 80 || classes[0] != "person" || classes[79] != "toothbrush") return label;
  int category = label + 1;
  for (const int gap : gaps) category += category >= gap ? 1 : 0;
  return category;
}

/// A photograph's number where its name is one, as COCO's are; else its name.
Json image_id(const fs::path& photo) {
  const std::string stem = photo.stem().string();
  const auto number = number_in<std::int64_t>(stem);
  return number ? Json(*number) : Json(stem);
}

}  // namespace

CocoIds::CocoIds(const Photos& photos) {
  std::map<fs::path, std::array<Json, 3>> names;  // of each, from the one that is known the best
  std::map<Json, int> known;
  for (const fs::path& photo : photos.paths) {
    names[photo] = {image_id(photo), (photos.folder_of(photo) / photo.stem()).string(), photo.string()};
    for (const Json& name : std::set<Json>(names[photo].begin(), names[photo].end())) ++known[name];
  }
  for (const auto& entry : names) {
    const std::array<Json, 3>& own = entry.second;
    const auto alone = [&](const Json& name) { return known[name] == 1; };
    const auto first = std::ranges::find_if(own, alone);
    ids_[entry.first] = first == own.end() ? own.back() : *first;
  }
}

Json to_json(const FoundThings& found) {
  auto list = Json::array();
  for (std::size_t i = 0; i < found.things.size(); ++i) {
    const Detection& thing = found.things[i];
    const Box& box = thing.box;
    Json json = {{"box", {box.left, box.top, box.right, box.bottom}},
                 {"class", thing.label},
                 {"name", found.names[i]},
                 {"score", thing.score}};
    if (thing.turned) {
      const TurnedBox& t = *thing.turned;
      json["turned"] = {{"centre", {t.x, t.y}}, {"size", {t.width, t.height}}, {"angle", t.angle}};
      json["corners"] = t.corners();
    }
    for (const Keypoint& p : thing.points) json["points"].push_back({p.x, p.y, p.score});
    if (thing.mask) json["mask"] = rle(*thing.mask), json["polygons"] = outlines_of(*thing.mask);
    list.push_back(std::move(json));
  }
  return {{"photo", name_of_photo(found.photo)},
          {"width", found.width},
          {"height", found.height},
          {"detections", std::move(list)}};
}

void add_coco(Json& list, const FoundThings& found, const std::vector<std::string>& classes, const CocoIds& ids) {
  for (const Detection& thing : found.things) {
    const Box& box = thing.box;
    Json json = {{"image_id", ids.of(found.photo)},
                 {"category_id", coco_category(thing.label, classes)},
                 {"bbox", {box.left, box.top, box.right - box.left, box.bottom - box.top}},
                 {"score", thing.score}};
    if (thing.mask) json["segmentation"] = rle(*thing.mask);
    for (const Keypoint& p : thing.points) {
      for (const float value : {p.x, p.y, p.score}) json["keypoints"].push_back(value);
    }
    list.push_back(std::move(json));
  }
}

std::string to_csv(const FoundThings& found) {
  std::string text;
  for (std::size_t i = 0; i < found.things.size(); ++i) {
    const Detection& thing = found.things[i];
    text += fmt::format("{},{},{},{},{:.6g},{:.2f},{:.2f},{:.2f},{:.2f}\n", csv_field(name_of_photo(found.photo)),
                        i + 1, thing.label, csv_field(found.names[i]), thing.score, thing.box.left, thing.box.top,
                        thing.box.right, thing.box.bottom);
  }
  return text;
}

std::string summary(const FoundThings& found) {
  std::vector<std::pair<std::string, int>> counts;
  for (const std::string& name : found.names) {
    const auto known = std::ranges::find(counts, name, &std::pair<std::string, int>::first);
    if (known == counts.end()) {
      counts.emplace_back(name, 1);
    } else {
      ++known->second;
    }
  }
  std::string text;
  for (const auto& [name, count] : counts) text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, count);
  return text.empty() ? "nothing" : text;
}

}  // namespace lamina::app
