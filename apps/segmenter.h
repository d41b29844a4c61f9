#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lamina/base/thread_pool.h"
#include "model_options.h"
#include "options.h"
#include "pictures/class_map.h"
#include "pictures/segment_picture.h"

namespace lamina::app {

struct SegmenterOptions {
  ModelOptions model;
  std::string output;  ///< the node whose values are the scores; empty: the model's first output
  std::string labels;  ///< a file of class names, in place of the model's or Pascal VOC's
  int size = 0;        ///< of the short side where the model leaves it open; 0: `usual_size`
  RunOptions run;

  static constexpr int usual_size = 520;  // of torchvision's segmentation networks
};

/// A network that gives scores [1, classes, h, w] for a photograph, run on one photograph after another.
class Segmenter {
 public:
  /// Throws Error if the model has another form.
  explicit Segmenter(const SegmenterOptions& options);

  struct Answer {
    ClassMap map;
    std::vector<Segment> segments;  ///< the classes that occur, the largest first
    Shape input, scores;
  };

  Answer segment(const Image& photo);

  /// Whether class 0 stands for what belongs to no class.
  bool has_background() const;
  Device device() const { return compile_.device; }

 private:
  struct View;

  View view_of(const Image& photo) const;
  void compile(std::int64_t height, std::int64_t width);
  void name_classes(std::int64_t classes);
  std::string class_name(std::size_t index) const;

  const SegmenterOptions& options_;
  Model model_;
  std::string input_;  // its name
  Shape shape_;        // of the input, with what --input-shape says
  CompileOptions compile_;
  std::optional<Plan> plan_;  // for photographs of the last one's shape
  ThreadPool threads_;
};

}  // namespace lamina::app
