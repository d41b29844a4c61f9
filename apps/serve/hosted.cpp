#include "serve/hosted.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "complain.h"
#include "inputs.h"
#include "known_weights.h"
#include "lamina/base/names.h"
#include "lamina/graph/photographs.h"
#include "model_options.h"

namespace lamina::app {
namespace {

constexpr std::size_t most_kept = 16;  // plans that a model keeps, each of which has threads

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

Model load(const std::string& file, const SaidOfModel& said, bool in_place) {
  Model model = open_model(file);
  print_warnings(model);
  said.put_into(model, file, in_place);
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
    Hosted::Layer& layer = layers.back();
    layer.made = made_of(graph, node.name);
    if (!layer.made) continue;
    layer.filters = layer.made->how == "sum" && layer.made->weights.shape()[1] == 3 &&
                    is_photograph(graph, graph.find(layer.made->from));
  }
  return layers;
}

}  // namespace

Hosted::Hosted(const std::string& file, const HostOptions& options)
    : name_(std::filesystem::path(file).stem().string()),
      options_(options),
      said_(options.said.of(name_)),
      model_(load(file, said_, options.alone || said_.by_name)) {
  segmenter_options_.model.model = file;
  segmenter_options_.model.preprocess = said_.preprocess;
  segmenter_options_.run = options.run;
  try {
    const InputShapes first = first_shapes(model_, said_.preprocess.size);
    if (!first.empty()) open_ = std::exchange(model_.graph, with_inputs(model_.graph, first, {}));
    const bool batched =
        std::ranges::all_of(input_nodes(model_.graph), [](const auto* input) { return input->shape->has_batch(); });
    const std::int64_t most = batched ? options.max_batch : 1;
    pool_ = std::make_shared<PlanPool>(
        model_.graph, compile_options(most),
        PoolOptions{.devices = options.run.devices(),
                    .batches = ladder(most),
                    .max_delay = std::chrono::microseconds(static_cast<std::int64_t>(options.max_delay_ms * 1000)),
                    .max_queue = std::max(options.max_queue, most)});
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", file, in_servers_words(error.what())));
  }
  pictured_ = with_inputs(model_.graph, {}, {});
  take_photographs(pictured_);
  layers_ = layers_of(pictured_);
  find_shapes();
  find_task();
  if (!said_.labels.empty() && answers_.empty()) {
    throw Error(fmt::format("{}: there are {} --labels, and no output has scores of as many classes: {}", file,
                            model_.labels.size(), pool_->plan().output_shapes()[0].to_string()));
  }
}

template <class Work>
auto Hosted::guarded(const Work& work) {
  const std::scoped_lock lock(mutex_);
  try {
    return work();
  } catch (const Error& error) {
    refuse(fmt::format("{}: {}", name_, in_servers_words(error.what())));
  }
}

/// Open are extents that are another where the open ones of inputs are.
void Hosted::find_shapes() {
  const Plan& plan = pool_->plan();
  input_shapes_.assign(plan.input_shapes().begin(), plan.input_shapes().end());
  output_shapes_.assign(plan.output_shapes().begin(), plan.output_shapes().end());
  if (!is_open()) return;
  const auto vary = [&](Shape& shape, const auto& is_open) {
    for (std::size_t i = batched() ? 1 : 0; i < shape.rank(); ++i) {
      if (is_open(static_cast<int>(i))) shape.set(static_cast<int>(i), open);
    }
  };
  for (std::size_t i = 0; i < input_shapes_.size(); ++i) {
    const Shape& declared = *open_.find(plan.input_names()[i])->shape;
    vary(input_shapes_[i], [&](int axis) { return declared[axis] == open; });
  }
  const auto one = resolved_at(open_, 192), other = resolved_at(open_, 256);
  for (std::size_t i = 0; i < output_shapes_.size(); ++i) {
    vary(output_shapes_[i], [&](int axis) {
      if (!one || !other) return true;
      const auto extent = [&](const detail::Resolved& at) { return at.network[at.outputs[i]].shape[axis]; };
      return extent(*one) != extent(*other);
    });
  }
}

std::shared_ptr<PlanPool> Hosted::pool_for(const std::vector<Tensor>& inputs) {
  if (!is_open()) return pool_;
  bool first = true;
  InputShapes shapes;
  std::string key;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& usual = pool_->plan().input_shapes()[i];
    Shape shape = inputs[i].shape();
    for (std::size_t k = batched() ? 1 : 0; k < shape.rank(); ++k) {
      first = first && shape[static_cast<int>(k)] == usual[static_cast<int>(k)];
    }
    key += shape.to_string();
    const std::string& name = pool_->plan().input_names()[i];
    if (batched() && open_.find(name)->shape->has_batch()) shape.set(0, batch);
    shapes[name] = shape;
  }
  if (first) return pool_;
  return guarded([&] {
    return kept(key, with_inputs(open_, shapes, {}), compile_options(batched() ? inputs[0].shape()[0] : 1),
                options_.kept);
  });
}

std::shared_ptr<PlanPool> Hosted::kept(const std::string& key, const Graph& graph, const CompileOptions& compile,
                                       std::uint64_t most) {
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    if (it->key != key) continue;
    kept_.splice(kept_.begin(), kept_, it);
    return kept_.front().pool;
  }
  const auto own = [](const PlanMemory& memory) { return memory.total() - memory.shared; };
  if (const std::uint64_t bytes = most > 0 ? own(graph.plan_memory(compile)) : 0; bytes > most) {
    throw Refusal{413, fmt::format("{}: a plan of that size takes {} MiB, more than the {} that --memory leaves for it",
                                   name_, bytes >> 20, most >> 20)};
  }
  const PoolOptions how{.plans_per_device = 1, .max_queue = options_.max_queue};
  const auto pool = std::make_shared<PlanPool>(graph, compile, how);
  std::uint64_t taken = own(pool->plan().memory());
  kept_.push_front({key, pool, taken});
  for (auto it = std::next(kept_.begin()); it != kept_.end(); ++it) taken += it->bytes;
  for (; kept_.size() > 1 && (taken > options_.kept || kept_.size() > most_kept); kept_.pop_back()) {
    taken -= kept_.back().bytes;
  }
  return pool;
}

void Hosted::find_task() {
  const auto noted = model_.metadata.find("task");
  if (noted != model_.metadata.end()) task_ = noted->second;
  if (has_classes()) {
    if (model_.preprocess) answers_ = "classify";
    return;
  }
  const Purpose purpose = purpose_of(model_);
  answers_ = purpose.command;
  if (!purpose.task.empty()) task_ = purpose.task;
  if (purpose.drawn && !model_.preprocess) model_.preprocess = purpose.drawn;
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
  const auto is_own = [](const Layer& layer) {
    return layer.made && layer.made->how == "sum" && layer.name.find(of_photographs) == std::string::npos;
  };
  auto found = std::ranges::find(layers_, name, &Layer::name);
  if (name.empty() && !layers_.empty()) {
    found = std::ranges::find_if(layers_, &Layer::filters);
    if (found == layers_.end()) found = std::ranges::find_if(layers_, is_own);
    if (found == layers_.end()) return layers_.front();
    // The last: a SiLU is the product with a sigmoid, which stands before it.
    const auto after = std::find_if(layers_.rbegin(), layers_.rend(), [&](const Layer& layer) {
      return is_own(layer) && !layer.made->then.empty() && layer.made->weights.raw() == found->made->weights.raw();
    });
    return after == layers_.rend() ? *found : *after;
  }
  if (found != layers_.end()) return *found;
  std::vector<std::string> names;
  for (const Layer& layer : layers_) names.push_back(layer.name);
  throw Refusal{404, fmt::format("{}: there is no layer {} whose output is maps{}", name_, detail::quote(name),
                                 nearest_nodes(name, names))};
}

std::shared_ptr<PlanPool> Hosted::pool_of(const Layer& layer) {
  const std::scoped_lock lock(mutex_);
  return kept("layer " + layer.name, pictured_.until(layer.name), compile_options(1));
}

std::vector<Tensor> Hosted::run_with(const std::map<std::string, Tensor, std::less<>>& constants,
                                     const std::vector<Tensor>& inputs) {
  return guarded([&] {
    CompileOptions compile = compile_options(batched() ? inputs[0].shape()[0] : 1);
    compile.constants = constants;
    for (std::size_t i = 0; is_open() && i < inputs.size(); ++i) {
      compile.input_shapes[pool_->plan().input_names()[i]] = inputs[i].shape();
    }
    Plan plan = (is_open() ? open_ : model_.graph).compile(compile);
    std::vector<Tensor> results;
    for (const Tensor& result : plan.run(inputs)) results.push_back(result.clone());
    say_not_finite(plan, results);
    return results;
  });
}

#ifdef LAMINA_DETECT
const Detector& Hosted::detector() {
  return *guarded([&] {
    const DetectorOptions how{.compile = compile_options(1), .devices = options_.run.devices()};
    if (!detector_) detector_ = std::make_unique<Detector>(model_, how);
    return detector_.get();
  });
}
#endif

Segmenter& Hosted::segmenter() {
  return *guarded([&] {
    if (segmenter_) return segmenter_.get();
    Model model;
    model.graph = with_inputs(is_open() ? open_ : model_.graph, {}, {});
    model.preprocess = model_.preprocess, model.labels = model_.labels;
    segmenter_ = std::make_unique<Segmenter>(segmenter_options_, std::move(model));
    return segmenter_.get();
  });
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
