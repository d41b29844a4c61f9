#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string_view>

#include "lamina/base/error.h"
#include "lamina/detect/detector.h"
#include "lamina/graph/resolve.h"

/// What a Detector is made of: the way from a photograph to a network's input and back, what its outputs mean, and from
/// their numbers to the boxes that stay.
namespace lamina::detail {

/// Of a photograph in a network's input, one axis: whole and in the middle, or stretched over all of it.
struct Side {
  int input = 0, photo = 0;   // pixels
  int inner = 0, before = 0;  // of the input's pixels those that the photograph fills, and those before them
  bool stretched = false;
  float gain = 0, zero = 0;  // of the way back: input pixels for one of the photograph, and where it begins

  /// From the input's pixels to the photograph's.
  float back(float place) const { return (place - zero) / gain; }
  /// The same, within the photograph; where it is stretched its detectors do not mind.
  float held(float place) const {
    return stretched ? back(place) : std::clamp(back(place), 0.0f, static_cast<float>(photo));
  }
};

/// Where a photograph lies in a network's input.
struct Letterbox {
  Side x, y;

  /// `whole`: the way back is from the pixels that the photograph fills, not from where it would lie to the fraction.
  Letterbox(int photo_width, int photo_height, int width, int height, bool stretched, bool whole = true);

  /// Of a consistent view of the photograph's size.
  void draw(const ImageView& image, std::span<std::uint8_t> out, ThreadPool& threads) const;  // [height, width, 3]
};

/// How a family of exports lays out its first output, or what that is in `choose_best`. A row of a table.
struct Layout {
  std::string_view name;
  bool columns = false;     ///< a box is a column of [N, values, boxes], not a row of [N, boxes, values]
  bool corners = false;     ///< x1 y1 x2 y2, not the middle, width and height (which turned boxes have anyway)
  bool stretched = false;   ///< the photograph fills the input, whatever its proportions, and boxes are from 0 to 1
  bool objectness = false;  ///< a factor of all scores stands before them
  bool best = false;        ///< one score and its class, not a score for each class
  bool nms = false;         ///< overlapping boxes are the reader's to leave out
  bool apart = false;       ///< boxes, a score of each and its class are three outputs, of as many as a run finds

  std::int64_t fixed() const { return 4 + (best ? 2 : 0) + (objectness ? 1 : 0); }
};

/// What the exporter said in the model's metadata.
struct ExportNotes {
  std::string task, head, layout;
  std::vector<std::string> names;
  std::array<int, 2> imgsz{};      // height, width
  std::array<int, 2> kpt_shape{};  // of pose: how many points, and 2 or 3 numbers of each
  bool nms = false;

  /// Throws Error, naming the key, where something is not what it should be.
  explicit ExportNotes(const Model& model);
  /// Throws Error of an export with its NMS inside.
  void require_without_nms() const;
};

/// What a network answered to the first of its photographs, as rows of numbers. Nothing else reads an answer's memory:
/// its size and type are asked here, and at each place that is read whether it is inside.
template <class T>
class Answer {
 public:
  Answer() = default;
  /// Throws Error where there is no such output, or it is not [N, ...] of so many numbers.
  Answer(std::span<const Tensor> outputs, std::size_t output, std::int64_t rows, std::int64_t columns)
      : columns_(columns) {
    const Shape shape = output < outputs.size() ? outputs[output].shape() : Shape{0};
    if (shape.rank() == 0 || shape[0] < 1 || shape.numel() != shape[0] * rows * columns) {
      fail("expected output ", output + 1, " of ", rows, " x ", columns, " numbers, got ", shape);
    }
    numbers_ = outputs[output].values<T>().first(static_cast<std::size_t>(rows * columns));
  }

  T at(std::int64_t row, std::int64_t column) const { return part(row, column, 1)[0]; }
  /// Numbers [first, first + count) of a row.
  std::span<const T> part(std::int64_t row, std::int64_t first, std::int64_t count) const {
    const auto begin = row * columns_ + first;
    if (row < 0 || first < 0 || count < 0 || first + count > columns_ || begin + count > std::ssize(numbers_)) {
      fail("there is no number ", first + count, " in row ", row, " of an answer of ", numbers_.size(), " numbers");
    }
    return numbers_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
  }

 private:
  std::span<const T> numbers_;
  std::int64_t columns_ = 0;
};

struct Head;

/// All that is read of an answer.
struct Answers {
  std::int64_t count = 0;        // of boxes
  Answer<float> boxes;           // what the first output became
  Answer<std::int64_t> classes;  // the best of each box, where the boxes do not have it
  Answer<float> prototypes;      // of masks: a row of a plane is a row here

  Answers(const Head& head, std::span<const Tensor> outputs);
};

/// The meaning of all outputs.
struct Head {
  Layout layout;
  std::string task;                    // detect, segment, pose or obb
  std::int64_t boxes = 0, values = 0;  // of the first output; and after `choose_best` of what comes in its place
  std::array<int, 5> apart{};          // which outputs are boxes, scores, classes, and perhaps points and masks
  std::int64_t class_count = 0;        // that have a score of their own; 0: who chose among them does not say
  std::int64_t extras = 0;             // numbers behind the scores
  std::int64_t points = 0, point_values = 0;

  /// Throws Error for outputs that are no detector's, saying what they may be, and where the notes contradict them.
  Head(const ExportNotes& notes, const Resolved& network);

  int mask_height = 0, mask_width = 0;  // of a plane of prototypes; 0 where there are none

  /// Makes outputs of a graph of those of the model that are read, in f32 whatever they are. Of the first leaves of
  /// each box but the box, its best score, the extras, and in an output of its own its best class: the device that runs
  /// the network does that, and a fraction of the numbers comes down to the host.
  void choose_best(Graph& graph, std::span<const int> outputs);

  /// Of the boxes one number of one, and one of those behind the scores.
  float at(const Answers& answers, std::int64_t box, std::int64_t value) const {
    return layout.columns ? answers.boxes.at(value, box) : answers.boxes.at(box, value);
  }
  float extra(const Answers& answers, std::int64_t box, std::int64_t i) const {
    return at(answers, box, values - extras + i);
  }
};

/// The names of COCO's 91 numbers, as torchvision has them, where a graph's classes were chosen among so many and
/// nobody says more. Empty if not.
std::vector<std::string> usual_names(const Graph& graph, const Resolved& network, const Head& head);

/// A box that may be a thing: x1 y1 x2 y2, of turned boxes its middle, width and height, in pixels of the input.
struct Candidate {
  float a = 0, b = 0, c = 0, d = 0;
  float angle = 0;
  float score = 0;
  int label = 0;
  std::int64_t index = 0;  // in the output
};

/// The boxes above the confidence that is asked for, of a wanted class, in the output's order. Throws Error where a
/// score or such a box is no number.
std::vector<Candidate> candidates_of(const Head& head, const Answers& answers, const DetectOptions& options,
                                     const Letterbox& way);

/// Of sorted candidates the first `most` that do not overlap better ones by more than `iou`: torchvision's `nms` with
/// its order and its ties, of each class by itself or across all. Of turned boxes the overlap is that of their
/// Gaussians (ProbIoU, Murrugarra-Llerena et al. 2021), and a box that is left out still keeps others out.
std::vector<Candidate> suppressed(std::span<const Candidate> candidates, const DetectOptions& options, bool turned);

/// What all masks of a photograph may take: noise changes with every pixel.
constexpr std::int64_t most_runs = std::int64_t{1} << 25;

/// The pixels within `box` where the mixture of prototypes is above 0, resized in two bilinear steps: to where whole
/// pixels of padding can be cut off, and to the photograph. Takes its runs off
/// those that may be; throws Error where none are left, or nobody waits.
Mask mask_of(const Head& head, const Answers& answers, std::span<const float> shares, const Box& box,
             const Letterbox& letterbox, const DetectOptions& options, std::atomic<std::int64_t>& runs);

}  // namespace lamina::detail
