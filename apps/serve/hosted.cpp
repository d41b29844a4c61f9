#include "serve/hosted.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "complain.h"
#include "inputs.h"
#ifdef LAMINA_DETECT
#include "lamina/detect/parts.h"
#endif
#include "model_options.h"

namespace lamina::app {
namespace {

constexpr std::size_t layer_pools = 4;  // that a model keeps

/// 1, 2, 3, 4, 6, 8, 12, ... up to `most`: a plan computes all of its batch, however few images were given.
std::vector<std::int64_t> ladder(std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t n = 1; n < most; n *= 2) {
    sizes.push_back(n);
    if (n > 1 && n + n / 2 < most) sizes.push_back(n + n / 2);
  }
  sizes.push_back(most);
  return sizes;
}

/// Inputs whose height and width the model leaves open get the one size that they are served at: what its photographs
/// become, what --size says, or what its exporter noted. Throws Error, in this command's words, for those without.
void settle(Model& model, int size) {
  const InputShapes shapes = photo_shapes(model, size);
  if (!shapes.empty()) model.graph = with_inputs(model.graph, shapes, {});
  for (const int input : model.graph.inputs()) {
    const Graph::Node& node = model.graph.nodes()[static_cast<std::size_t>(input)];
    if (node.shape->with_batch(1).is_known()) continue;
    throw Error(fmt::format("{} is {}: a model is served at one size, which {}", node.name, node.shape->to_string(),
                            node.shape->rank() == 4 ? "--size gives, in pixels of both sides"
                                                    : "lamina convert --input-shape puts into a model file"));
  }
}

Model load(const std::string& file, const HostOptions& options) {
  Model model = open_model(file);
  print_warnings(model);
  PreprocessOptions levels = options.preprocess;
  levels.size = 0;  // alone it says nothing of how a photograph becomes an input
  if (!model.preprocess && levels.given()) model.preprocess = options.preprocess.of(model, {}, file);
  try {
    settle(model, options.preprocess.size);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file, in_servers_words(error.what())));
  }
  return model;
}

std::vector<Hosted::Layer> layers_of(const Graph& graph) {
  std::vector<Hosted::Layer> layers;
  std::vector<Shape> shapes;
  try {
    shapes = graph.shapes(1);
  } catch (const Error&) {
    return {};  // compiling alone tells
  }
  const auto& nodes = graph.nodes();
  const auto fields = receptive_fields(graph, shapes);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Graph::Node& node = nodes[i];
    if (node.module == nullptr || node.module->op() == "Constant") continue;
    if (shapes[i].rank() != 4 || shapes[i].numel() == 0) continue;
    layers.push_back({.name = node.name, .op = std::string(node.module->op()), .shape = shapes[i], .field = fields[i]});
    const ShownLayer shown = shown_layer(graph, node.name, "");
    if (!shown.field || shown.normalised || shown.filters.shape()[1] != 3) continue;
    layers.back().filters = shown.filters;
    layers.back().bias = shown.bias;
  }
  return layers;
}

}  // namespace

Hosted::Hosted(const std::string& file, const HostOptions& options)
    : name_(std::filesystem::path(file).stem().string()), options_(options), model_(load(file, options)) {
  segmenter_options_.model.model = file;
  segmenter_options_.run = options.run;
  try {
    bool batched = true;
    for (const int input : model_.graph.inputs()) {
      batched = batched && model_.graph.nodes()[static_cast<std::size_t>(input)].shape->has_batch();
    }
    const std::int64_t most = batched ? options.max_batch : 1;
    pool_ = std::make_unique<PlanPool>(
        model_.graph, compile_options(most),
        PoolOptions{.devices = options.run.devices(),
                    .batches = ladder(most),
                    .max_delay = std::chrono::microseconds(static_cast<std::int64_t>(options.max_delay_ms * 1000)),
                    .max_queue = std::max(options.max_queue, most)});
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file, in_servers_words(error.what())));
  }
  layers_ = layers_of(model_.graph);
  find_task();
}

void Hosted::find_task() {
  const auto noted = model_.metadata.find("task");
  if (noted != model_.metadata.end()) task_ = noted->second;
  if (has_classes()) {
    if (model_.preprocess) answers_ = "classify";
    return;
  }
  const Plan& plan = pool_->plan();
  const auto form = plan.input_shapes().size() == 1 ? picture_input(plan.input_shapes()[0]) : std::nullopt;
  if (!form || form->channels != 3 || form->channels_last || plan.input_dtypes()[0] != DType::f32) return;
#ifdef LAMINA_DETECT
  try {
    const detail::Head head(detail::ExportNotes(model_), plan.input_shapes()[0], plan.output_shapes());
    task_ = head.task, answers_ = "detect";
    if (model_.preprocess) return;
    // As the detector draws photographs, so that its layers can be looked at.
    model_.preprocess = letterbox(static_cast<int>(form->height));
    if (form->width != form->height) model_.preprocess->crop_width = static_cast<int>(form->width);
    if (head.layout.stretched) model_.preprocess->aspect = Aspect::ignored;
    return;
  } catch (const Error&) {  // no detector
  }
#endif
  const Shape& scores = plan.output_shapes()[0];
  constexpr std::int64_t pascal_voc = 21;
  const bool named = scores.rank() == 4 && std::ssize(model_.labels) == scores[1];
  if (scores.rank() == 4 && (named || (model_.labels.empty() && scores[1] == pascal_voc))) answers_ = "segment";
}

CompileOptions Hosted::compile_options(std::int64_t batch) const { return options_.run.compile_options(batch); }

const Preprocess& Hosted::preprocess() const {
  if (!model_.preprocess) {
    throw Refusal{
        400, fmt::format("{}: the model does not say how a photograph becomes its input; --preprocess does", name_)};
  }
  return *model_.preprocess;
}

const Hosted::Layer& Hosted::layer(const std::string& name) const {
  const Layer* found = nullptr;
  for (const Layer& layer : layers_) {
    if (name.empty() ? layer.filters.defined() && (found == nullptr || layer.op == "relu" || layer.op == "Relu")
                     : layer.name == name) {
      found = &layer;
    }
  }
  if (found == nullptr && name.empty() && !layers_.empty()) found = &layers_.front();
  if (found != nullptr) return *found;
  throw Refusal{404, fmt::format("{}: there is no layer \"{}\" whose output is maps", name_, name)};
}

std::shared_ptr<PlanPool> Hosted::pool_of(const Layer& layer) {
  const std::scoped_lock lock(mutex_);
  for (auto it = layer_pools_.begin(); it != layer_pools_.end(); ++it) {
    if (it->first != layer.name) continue;
    layer_pools_.splice(layer_pools_.begin(), layer_pools_, it);
    return layer_pools_.front().second;
  }
  CompileOptions compile = options_.run.compile_options(1);
  auto pool = std::make_shared<PlanPool>(model_.graph.until(layer.name), compile,
                                         PoolOptions{.plans_per_device = 1, .max_queue = options_.max_queue});
  layer_pools_.emplace_front(layer.name, pool);
  if (layer_pools_.size() > layer_pools) layer_pools_.pop_back();  // whoever uses it finishes
  return pool;
}

std::vector<Tensor> Hosted::run_with(const std::map<std::string, Tensor, std::less<>>& constants,
                                     const std::vector<Tensor>& inputs) {
  const std::scoped_lock lock(mutex_);
  try {
    CompileOptions compile = compile_options(batched() ? inputs[0].shape()[0] : 1);
    compile.constants = constants;
    Plan plan = model_.graph.compile(compile);
    std::vector<Tensor> results;
    for (const Tensor& result : plan.run(inputs)) results.push_back(result.clone());
    say_not_finite(plan, results);
    return results;
  } catch (const Error& error) {
    throw Refusal{400, fmt::format("{}: {}", name_, error.what())};
  }
}

#ifdef LAMINA_DETECT
const Detector& Hosted::detector() {
  const std::scoped_lock lock(mutex_);
  try {
    const DetectorOptions how{.compile = compile_options(1), .devices = options_.run.devices()};
    if (!detector_) detector_ = std::make_unique<Detector>(model_, how);
  } catch (const Error& error) {
    throw Refusal{400, fmt::format("{}: {}", name_, error.what())};
  }
  return *detector_;
}
#endif

Segmenter& Hosted::segmenter() {
  const std::scoped_lock lock(mutex_);
  try {
    Model model;
    model.graph = with_inputs(model_.graph, {}, {});
    model.preprocess = model_.preprocess, model.labels = model_.labels;
    if (!segmenter_) segmenter_ = std::make_unique<Segmenter>(segmenter_options_, std::move(model));
  } catch (const Error& error) {
    throw Refusal{400, fmt::format("{}: {}", name_, error.what())};
  }
  return *segmenter_;
}

const std::string& Hosted::profile() {
  const std::scoped_lock lock(mutex_);
  if (!profile_.empty()) return profile_;
  auto result = nlohmann::ordered_json::array();
  std::vector<Device> devices = {pool_->plan().options().device};
  if (devices[0].is_cuda() && options_.run.precision == "fp32") devices.push_back(Device::cpu());
  for (const Device device : devices) {
    CompileOptions compile = compile_options(1);
    compile.device = device;
    Plan plan = model_.graph.compile(compile);
    std::vector<Tensor> zeros;
    for (std::size_t i = 0; i < plan.input_shapes().size(); ++i) {
      zeros.push_back(Tensor::zeros(plan.input_shapes()[i], plan.input_dtypes()[i]));
    }
    auto steps = nlohmann::ordered_json::array();
    for (const StepTime& step : plan.profile(zeros, 5)) {
      steps.push_back({{"name", step.name}, {"fused", step.fused}, {"kernel", step.kernel}, {"ms", step.milliseconds}});
    }
    result.push_back({{"device", to_string(device)}, {"steps", steps}});
  }
  return profile_ = result.dump();
}

}  // namespace lamina::app
