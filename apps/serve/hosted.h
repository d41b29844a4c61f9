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
#include "photos/said_of_models.h"
#include "segmenter.h"
#include "serve/http.h"
#include "shown_layer.h"

namespace lamina::app {

struct HostOptions {
  RunOptions run;
  SaidOfModels said;
  bool alone = false;  ///< one model, which all that is said is of
  std::int64_t max_batch = 32, max_queue = 256;
  double max_delay_ms = 2;
  std::uint64_t kept = 1 << 30;  ///< bytes that plans for layers and for other sizes may take, of each model
};

/// A model that is served: its pool of plans, and plans for single layers and for inputs of other sizes where it leaves
/// them open, made when they are asked for.
class Hosted {
 public:
  /// Throws Error, naming the file.
  Hosted(const std::string& file, const HostOptions& options);

  const std::string& name() const { return name_; }
  const Model& model() const { return model_; }
  /// Of the size of its photographs, where the model leaves that open.
  PlanPool& pool() { return *pool_; }
  /// Shapes of inputs and outputs, of a batch of the pool's; -1 where they are open.
  const std::vector<Shape>& input_shapes() const { return input_shapes_; }
  const std::vector<Shape>& output_shapes() const { return output_shapes_; }
  bool is_open() const { return !open_.nodes().empty(); }
  /// The pool for such inputs: each size is compiled once, and kept while there is room. Throws Refusal where they do
  /// not fit, or it would take more than may be kept.
  std::shared_ptr<PlanPool> pool_for(const std::vector<Tensor>& inputs);
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
    std::optional<MadeOf> made = {};
    bool filters = false;                      ///< whether it sees the photograph itself, in colours
    std::optional<ReceptiveField> field = {};  ///< of the photograph as the network sees it
  };
  const std::vector<Layer>& layers() const { return layers_; }
  /// The layer of that name; of none: the first with filters, or the model's first convolution, after its ReLU. Throws
  /// Refusal if there is none.
  const Layer& layer(const std::string& name) const;
  /// A pool whose output is that layer, for one photograph f32 [1, 3, H, W] at a time.
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
  /// What `work` returns, one at a time; its Error becomes a Refusal that names the model.
  template <class Work>
  auto guarded(const Work& work);
  void find_task();
  void find_shapes();
  /// Plans by what they are for. Those used the longest ago go where there is no room for more; whoever uses them
  /// finishes. Throws Refusal where one would take more than `most` bytes, unless that is 0.
  std::shared_ptr<PlanPool> kept(const std::string& key, const Graph& graph, const CompileOptions& compile,
                                 std::uint64_t most = 0);

  struct Kept {
    std::string key;
    std::shared_ptr<PlanPool> pool;
    std::uint64_t bytes = 0;
  };

  std::string name_;
  HostOptions options_;
  SaidOfModel said_;
  Model model_;
  Graph open_;      // as the file has it, where it leaves sizes open that are settled in model_
  Graph pictured_;  // the same, of pictures f32 [N, 3, H, W]
  std::shared_ptr<PlanPool> pool_;
  std::vector<Shape> input_shapes_, output_shapes_;
  std::vector<Layer> layers_;
  std::mutex mutex_;
  std::list<Kept> kept_;  // the latest used first
  std::string profile_, task_, answers_;
  SegmenterOptions segmenter_options_;
  std::unique_ptr<Segmenter> segmenter_;
#ifdef LAMINA_DETECT
  std::unique_ptr<Detector> detector_;
#endif
};

}  // namespace lamina::app
