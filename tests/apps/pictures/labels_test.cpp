// The labels of things in pictures.

#include <gtest/gtest.h>

#include <algorithm>

#include "pictures/detect_picture.h"
#include "pictures/segment_picture.h"

namespace lamina::app::labels_test {
namespace {

/// How many pixels of a picture of things in these boxes have the colour of each.
std::vector<std::int64_t> pixels_of(const std::vector<Box>& boxes) {
  DetectPicture picture{{600, 500, std::vector<std::uint8_t>(std::size_t{600} * 500 * 3, 255)}, {}, {}};
  for (const Box& box : boxes) {
    Detection& thing = picture.found.emplace_back();
    thing.box = box, thing.label = static_cast<int>(picture.names.size());
    picture.names.emplace_back("some thing");
  }
  const Image drawn = draw(picture);
  std::vector<std::int64_t> counts;
  for (std::size_t label = 0; label < boxes.size(); ++label) {
    const auto color = class_color(static_cast<int>(label));
    std::int64_t& count = counts.emplace_back(0);
    for (std::size_t i = 0; i < drawn.rgb.size(); i += 3)
      count += std::ranges::equal(color, std::span(drawn.rgb).subspan(i, 3)) ? 1 : 0;
  }
  return counts;
}

TEST(Labels, HideNoOthersAndNotThePicture) {
  for (const Box& box : {Box{50, 100, 300, 300}, Box{0, 0, 600, 500}, Box{200, 460, 590, 499}, Box{550, 0, 590, 30}}) {
    // The lines around them hide each other, so that a colour is that of a label.
    for (const std::int64_t count : pixels_of({box, box, box, box})) EXPECT_GT(count, 1000) << box.left;
  }
  std::int64_t covered = 0;  // by the labels of boxes without extent: most of the picture stays free
  for (const std::int64_t count : pixels_of(std::vector<Box>(80, Box{300, 250, 300, 250}))) covered += count;
  EXPECT_LT(covered, 600 * 500 / 6);
}

}  // namespace
}  // namespace lamina::app::labels_test
