#pragma once

#include <lamina/lamina.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#ifdef LAMINA_DETECT
#include "lamina/detect/detector.h"
#endif
#include "options.h"
#include "photos/memory_budget.h"
#include "photos/preprocess_options.h"
#include "segmenter.h"
#include "serve/http.h"
#include "shown_layer.h"

namespace lamina::app {

struct HostOptions {
  RunOptions run;
  PreprocessOptions preprocess;  ///< for models that do not say how a photograph becomes their input
  std::int64_t max_batch = 32, max_queue = 256;
  double max_delay_ms = 2;
};

/// A model that is served: its pool of plans, and plans for single layers, made when they are asked for.
class Hosted {
 public:
  /// Throws Error, naming the file.
  Hosted(const std::string& file, const HostOptions& options);

  const std::string& name() const { return name_; }
  const Model& model() const { return model_; }
  PlanPool& pool() { return *pool_; }
  /// Whether its one output is scores of classes.
  bool has_classes() const {
    return pool_->plan().output_shapes().size() == 1 && scores_in(pool_->plan().output_shapes()[0]) > 0;
  }
  /// What it does by its outputs, or as its exporter says: detect, segment, pose, obb, classify; empty where nothing
  /// tells.
  const std::string& task() const { return task_; }
  /// What of photographs it answers: classify, detect, segment (the class of each pixel); empty: nothing.
  const std::string& answers() const { return answers_; }
  bool batched() const { return pool_->plan().batched(); }
  /// Throws Refusal where the model does not say how a photograph becomes its input.
  const Preprocess& preprocess() const;

  /// A node whose output for one photograph is maps [C, H, W].
  struct Layer {
    std::string name, op;
    Shape shape;
    Tensor filters = {}, bias = {};  ///< of a convolution that sees the photograph itself, or of the ReLU after it
    std::optional<ReceptiveField> field = {};  ///< of the photograph as the network sees it
  };
  const std::vector<Layer>& layers() const { return layers_; }
  /// The layer of that name; of none: the first with filters, after its ReLU. Throws Refusal if there is none.
  const Layer& layer(const std::string& name) const;
  /// A pool whose output is that layer, for one photograph at a time.
  std::shared_ptr<PlanPool> pool_of(const Layer& layer);

  /// Outputs where optional inputs have these values: by a plan of its own, one at a time. Throws Refusal where they do
  /// not fit.
  std::vector<Tensor> run_with(const std::map<std::string, Tensor, std::less<>>& constants,
                               const std::vector<Tensor>& inputs);

#ifdef LAMINA_DETECT
  /// Finds things, where the model is a detector; made when it is first asked for. Throws Refusal where it is none.
  const Detector& detector();
#endif
  /// Colours photographs, where the model's output is scores of pixels; likewise.
  Segmenter& segmenter();

  /// What each step takes for one image, on each device there is: the pool's, and the CPU. JSON, measured once.
  const std::string& profile();

 private:
  CompileOptions compile_options(std::int64_t batch) const;
  void find_task();

  std::string name_;
  HostOptions options_;
  Model model_;
  std::unique_ptr<PlanPool> pool_;
  std::vector<Layer> layers_;
  std::mutex mutex_;
  std::list<std::pair<std::string, std::shared_ptr<PlanPool>>> layer_pools_;  // the latest used first
  std::string profile_, task_, answers_;
  SegmenterOptions segmenter_options_;
  std::unique_ptr<Segmenter> segmenter_;
#ifdef LAMINA_DETECT
  std::unique_ptr<Detector> detector_;
#endif
};

}  // namespace lamina::app
