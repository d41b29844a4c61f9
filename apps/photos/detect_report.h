#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lamina/detect/detector.h"
#include "photos/photos.h"

namespace lamina::app {

/// What was found in one photograph.
struct FoundThings {
  std::filesystem::path photo;
  int width = 0, height = 0;
  std::vector<Detection> things;
  std::vector<std::string> names;  ///< of each, fit for a terminal
};

/// Around one part of a mask: x and y of each corner in pixels, clockwise, the last joined to the first.
using Outline = std::vector<float>;

/// The outlines of a mask's parts, the largest first, along the edges of pixels and nowhere off them by more than one.
/// Parts that touch at corners alone are apart, holes are passed over.
std::vector<Outline> outlines_of(const Mask& mask);

/// All parts as one outline, joined by lines that are walked to and fro, which is how YOLO has them. Empty where the
/// mask is.
Outline as_one(const std::vector<Outline>& parts);

/// {"photo", "width", "height", "detections": [...]}
nlohmann::ordered_json to_json(const FoundThings& found);

/// What COCO's results call photographs, each by another name: a number where its name is one, as COCO's are; else its
/// name, with the folders around it where another has that name too.
class CocoIds {
 public:
  explicit CocoIds(const Photos& photos);

  const nlohmann::ordered_json& of(const std::filesystem::path& photo) const { return ids_.at(photo); }

 private:
  std::map<std::filesystem::path, nlohmann::ordered_json> ids_;
};

/// Adds what COCO calls results: an object for each thing. `classes`: the names of all, of which COCO's own eighty get
/// its category numbers; others get theirs, counted from 0.
void add_coco(nlohmann::ordered_json& list, const FoundThings& found, const std::vector<std::string>& classes,
              const CocoIds& ids);

inline constexpr const char* csv_header = "photo,rank,class,name,score,left,top,right,bottom\n";
std::string to_csv(const FoundThings& found);

/// "2 person, 1 dog", in the order of the best of each.
std::string summary(const FoundThings& found);

}  // namespace lamina::app
