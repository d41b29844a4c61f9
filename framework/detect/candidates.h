#pragma once

#include <cstdint>
#include <vector>

#include "lamina/detect/layout.h"
#include "lamina/detect/letterbox.h"

/// From a network's numbers to the boxes that stay.
namespace lamina::detail {

/// A box that may be a thing: x1 y1 x2 y2, of turned boxes its middle, width and height, in pixels of the input.
struct Candidate {
  float a = 0, b = 0, c = 0, d = 0;
  float angle = 0;
  float score = 0;
  int label = 0;
  std::int64_t index = 0;  // in the output
};

/// A network's first output, of one photograph.
struct Answer {
  const Head& head;
  const float* data;  // [values, boxes] or [boxes, values], as the layout says

  float at(std::int64_t box, std::int64_t value) const {
    return head.layout.columns ? data[value * head.boxes + box] : data[box * head.values + value];
  }
  /// The numbers behind the scores.
  float extra(std::int64_t box, std::int64_t i) const { return at(box, head.values - head.extras + i); }
};

/// The boxes above the confidence that is asked for, of a wanted class, in the output's order; `width` and `height` are
/// the input's. Throws Error where a score or such a box is no number.
std::vector<Candidate> candidates_of(const Answer& answer, const DetectOptions& options, int width, int height);

/// Sorts by score, best first, equal ones as they came, and leaves no more than `most`.
void keep_best(std::vector<Candidate>& candidates, std::size_t most);

/// Of sorted candidates the first `most` that do not overlap better ones by more than `iou`: torchvision's `nms` with
/// its order and its ties, of each class by itself or across all. Of turned boxes the overlap is that of their
/// Gaussians (ProbIoU, Murrugarra-Llerena et al. 2021), and a box that is left out still keeps others out.
std::vector<Candidate> suppressed(const std::vector<Candidate>& candidates, double iou, bool across_classes,
                                  bool turned, std::size_t most);

/// What masks are mixed of: [count, height, width], planes a fraction of the input's size.
struct Prototypes {
  const float* data = nullptr;
  int count = 0, height = 0, width = 0;
};

/// The pixels within `box` where the mixture of prototypes is above 0, resized in two bilinear steps: to where whole
/// pixels of padding can be cut off, and to the photograph.
Mask mask_of(const Prototypes& prototypes, std::span<const float> shares, const Box& box, const Letterbox& letterbox);

}  // namespace lamina::detail
