#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lamina/detect/detector.h"

namespace lamina::app {

/// What was found in one photograph.
struct FoundThings {
  std::filesystem::path photo;
  int width = 0, height = 0;
  std::vector<Detection> things;
  std::vector<std::string> names;  ///< of each, fit for a terminal
};

/// {"photo", "width", "height", "detections": [...]}
nlohmann::ordered_json to_json(const FoundThings& found);

/// Adds what COCO calls results: an object for each thing. `classes`: the names of all, of which COCO's own eighty get
/// its category numbers; others get theirs, counted from 0.
void add_coco(nlohmann::ordered_json& list, const FoundThings& found, const std::vector<std::string>& classes);

/// Throws Error where two photographs have one number or name, which is all that COCO's results say of them.
void require_coco_names(const std::vector<std::filesystem::path>& photos);

inline constexpr const char* csv_header = "photo,rank,class,name,score,left,top,right,bottom\n";
std::string to_csv(const FoundThings& found);

/// "2 person, 1 dog", in the order of the best of each.
std::string summary(const FoundThings& found);

}  // namespace lamina::app
