#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>
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
  RunOptions run;

  static constexpr int usual_size = 520;  // of the short side where the model leaves it open: torchvision's networks'
};

/// A network that gives scores [1, classes, h, w] for a photograph. Photographs may come from several threads: they run
/// on whichever device is free.
class Segmenter {
 public:
  /// Throws Error if the model has another form.
  explicit Segmenter(const SegmenterOptions& options) : Segmenter(options, options.model.load()) {}
  /// The same of a model that is loaded already. The options must outlive it.
  Segmenter(const SegmenterOptions& options, Model model);

  struct Answer {
    ClassMap map;
    std::vector<Segment> segments;  ///< the classes that occur, the largest first
    Shape input, scores;
    Device device;
  };

  /// The map has the photograph's size, or of a larger one that of it whose longer side is `most`.
  Answer segment(const Image& photo, int most = std::numeric_limits<int>::max());

  /// Whether class 0 stands for what belongs to no class.
  bool has_background() const;
  /// How many photographs are worth having under way at a time.
  std::size_t at_once() const { return devices_.size() > 1 ? 2 * devices_.size() : 1; }

 private:
  struct View;

  View view_of(const Image& photo) const;
  /// Plans for photographs of that size. Those of another size go, when nobody runs them any more.
  std::shared_ptr<PlanPool> pool_for(std::int64_t height, std::int64_t width);
  void name_classes(std::int64_t classes);

  const SegmenterOptions& options_;
  Model model_;
  std::string input_;                 // its name
  Shape shape_;                       // of the input, with what --input-shape says
  std::optional<Preprocess> square_;  // how photographs are made square, where they are
  CompileOptions compile_;
  std::vector<Device> devices_;
  int threads_;  // of one photograph
  std::mutex mutex_;
  std::shared_ptr<PlanPool> pool_;  // for photographs of the last one's size
};

}  // namespace lamina::app
