#pragma once

#include <lamina/lamina.h>

#include <string>
#include <vector>

#include "pictures/canvas.h"
#include "pictures/class_map.h"

namespace lamina::app {

/// A class that a photograph has pixels of.
struct Segment {
  int index = 0;
  std::string name;
  double share = 0;  ///< of the area
};

struct SegmentPicture {
  std::string title;
  Image photo;
  ClassMap map;                   ///< of the photograph's size
  std::vector<Segment> segments;  ///< those of the legend, in its order
  std::string footnote;           ///< below the legend; may be empty
  bool background = false;        ///< class 0 is what belongs to no class: left as it is
};

/// The colour of a class, the same in every picture; those of neighbouring numbers are far apart.
Color class_color(int index);

/// The photograph under the colours of its classes, with an outline around each, and what they are called beside it.
Image draw(SegmentPicture picture);

}  // namespace lamina::app
