#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <string>
#include <vector>

#include "photos/detect_report.h"
#include "photos/photos.h"

namespace lamina::app {

/// What is written beside a detector's answers, where it is asked for: of each photograph a file of YOLO's labels, and
/// a picture of each thing. In folders as the photographs are below those that were named.
class DetectFiles {
 public:
  /// Folders, or empty; `jpeg`: what pictures are. Throws Error where two photographs would share a file of labels.
  DetectFiles(std::string labels, std::string crops, bool jpeg, const Photos& photos);

  /// The picture of each thing, if they are asked for.
  std::vector<std::string> crops_of(const Image& photo, const FoundThings& found) const;
  /// Writes what is asked for, to be called for one photograph after the other; the lines that say so. Throws Error.
  std::string write(const FoundThings& found, const std::vector<std::string>& crops) const;

 private:
  std::string labels_, crops_;
  bool jpeg_;
  const Photos& photos_;
};

/// YOLO's labels, a line for each thing: its class, then shares of the width and height: the box's middle and size, of
/// a turned box its corners, of a mask its outline in their place; of a skeleton also its points, each with its score.
std::string to_yolo(const FoundThings& found);

}  // namespace lamina::app
