#pragma once

#include <utility>
#include <vector>

#include "lamina/images/preprocess.h"

namespace lamina {

/// The usual ways in which photographs become inputs, by the names that they have in the command, in Python and in C:
/// imagenet as in torchvision, symmetric from -1 to 1, caffe, yolo (Ultralytics' detectors), yolox.
LAMINA_API const std::vector<std::pair<std::string, Preprocess>>& named_preprocesses();

/// The one of that name. Throws Error that lists them if there is none.
LAMINA_API Preprocess named_preprocess(std::string_view name);

}  // namespace lamina
