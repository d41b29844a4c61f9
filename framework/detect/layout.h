#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/detect/detector.h"
#include "lamina/graph/model.h"
#include "lamina/tensor/shape.h"

/// What a detector's outputs mean.
namespace lamina::detail {

enum class Task : std::uint8_t { detect, segment, pose, obb };

/// How a family of exports lays out its first output. A row of a table.
struct Layout {
  std::string_view name;
  bool columns = false;     ///< a box is a column of [N, values, boxes], not a row of [N, boxes, values]
  bool corners = false;     ///< x1 y1 x2 y2, not the middle, width and height (which turned boxes have anyway)
  bool relative = false;    ///< to the photograph, 0 to 1, not pixels of the input
  bool objectness = false;  ///< a factor of all scores stands before them
  bool best = false;        ///< one score and its class, not a score for each class
  bool nms = false;         ///< overlapping boxes are the reader's to leave out
  bool stretched = false;   ///< the photograph fills the input, whatever its proportions

  std::int64_t fixed() const { return 4 + (best ? 2 : 0) + (objectness ? 1 : 0); }
};

/// What the exporter said in the model's metadata.
struct ExportNotes {
  std::string task, head, layout;
  std::vector<std::string> names;
  int points = 0, point_values = 0;  // of pose: how many, and 2 or 3 numbers of each
  int height = 0, width = 0;         // imgsz
  bool nms = false;

  /// Throws Error, naming the key, where something is not what it should be.
  explicit ExportNotes(const Model& model);
};

/// The meaning of all outputs.
struct Head {
  Layout layout;
  Task task = Task::detect;
  std::int64_t boxes = 0, values = 0;  // of the first output
  std::int64_t classes = 0;            // 0: not known (end to end)
  std::int64_t extras = 0;             // numbers behind the scores
  std::int64_t points = 0, point_values = 0;

  /// Throws Error for outputs that are no detector's, saying what they may be, and where the notes contradict them.
  Head(const ExportNotes& notes, std::span<const Shape> outputs);
};

/// "segment"
std::string_view name(Task task);

}  // namespace lamina::detail
