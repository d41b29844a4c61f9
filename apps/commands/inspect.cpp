#include <fmt/core.h>
#include <lamina/lamina.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "commands/commands.h"
#include "commands/tensor_table.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/base/atomic_file.h"
#include "lamina/base/names.h"
#include "lamina/base/text_table.h"
#include "lamina/compile/passes.h"
#include "lamina/onnx/onnx.h"
#include "model_options.h"
#include "models/shipped.h"
#include "options.h"
#include "outputs.h"

namespace lamina::app {
namespace {

using Json = nlohmann::ordered_json;

struct InspectOptions {
  std::string file;
  InputOptions inputs;
  std::string dump;  ///< a folder for the kernels' texts
  std::int64_t batch = 1;
  bool plan = false, passes = false, photos = false;
  RunOptions run;
  OpenOptions open;
  JsonOutput json;
};

void print_preprocess(const Preprocess& p) {
  fmt::print("\npreprocess: {} to {}{}, {} {}{}, {}levels / {:g}, mean [{:g}, {:g}, {:g}], std [{:g}, {:g}, {:g}]\n",
             p.aspect == Aspect::ignored ? "both sides"
             : p.aspect == Aspect::kept  ? "short side"
                                         : "long side",
             p.resize, p.antialias ? "" : " without antialias",
             p.placement == Placement::centre ? "centre crop" : "upper left crop", sides_text(p.crop, p.width()),
             p.fill == Preprocess().fill ? "" : fmt::format(" on {}, {}, {}", p.fill[0], p.fill[1], p.fill[2]),
             p.order == ChannelOrder::bgr ? "blue first, " : "", p.divisor, p.mean[0], p.mean[1], p.mean[2], p.std[0],
             p.std[1], p.std[2]);
}

/// What the model leaves open is as it was said, or as its photographs are.
void settle_inputs(CompileOptions& compile, const Model& model, const InspectOptions& options) {
  options.inputs.settle(compile, model.graph);
  compile.input_shapes.merge(photo_shapes(model));
}

Model opened(const InspectOptions& options) {
  Model model = open_model(options.file);
  options.inputs.apply(model.graph);
  return model;
}

CompileOptions compile_options(const Model& model, const InspectOptions& options) {
  CompileOptions compile = options.run.compile_options(options.batch);
  settle_inputs(compile, model, options);
  if (options.photos) compile.photos = model.preprocess.value_or(torchvision_imagenet());
  return compile;
}

/// What a GPU's driver compiles for the plan: a file for each kernel, headed by the steps that run it.
void dump_kernels(const Model& model, const InspectOptions& options) {
  if (options.dump.empty()) return;
  const auto texts = detail::kernel_texts(model.graph, compile_options(model, options));
  const std::filesystem::path folder = options.dump;
  make_folder("--dump-kernels", folder);
  std::size_t number = 0;
  for (const detail::KernelText& kernel : texts) {
    std::string text;
    for (const std::string& step : kernel.steps) text += fmt::format("// {}\n", detail::printable(step));
    text += kernel.text;
    detail::write_file_atomically(folder / fmt::format("{:03}.ptx", ++number), std::as_bytes(std::span(text)));
  }
  fmt::print("wrote {} generated kernels to {}\n", number, detail::printable(options.dump));
}

void print_plan(const Model& model, const InspectOptions& options) {
  fmt::print("{}", model.graph.plan_summary(compile_options(model, options)));
  dump_kernels(model, options);
}

/// Of a file of weights alone there is nothing to compile.
void print_passes(const InspectOptions& options) {
  if (!detail::is_onnx_file(options.file) &&
      !open_weights(options.file, options.open).metadata().contains("lamina.graph"))
    return fmt::print("{}", detail::describe_passes());
  const Model model = opened(options);
  fmt::print("{}", detail::describe_passes(model.graph, compile_options(model, options)));
}

/// What is noted in a file for whoever reads it, and not for Lamina.
bool is_note(const std::string& key) { return !key.starts_with("lamina.") || key == "lamina.source"; }

Json json_of(const Shape& shape) {
  Json list = Json::array();
  for (const std::int64_t extent : shape) {  // as text where it is not known
    list.push_back(extent >= 0 ? Json(extent) : Json(extent == batch ? "N" : extent == open ? "?" : "..."));
  }
  return list;
}

Json json_of(const Model& model) {
  Json inputs = Json::array(), outputs = Json::array(), nodes = Json::array();
  const auto& all = model.graph.nodes();
  for (const Graph::Node* node : input_nodes(model.graph)) {
    inputs.push_back({{"name", node->name}, {"dtype", name(node->dtype)}, {"shape", json_of(*node->shape)}});
  }
  for (const int i : model.graph.outputs()) outputs.push_back(all[static_cast<std::size_t>(i)].name);
  for (const Graph::Node& node : all) {
    if (node.module == nullptr) continue;
    Json from = Json::array();
    for (const int i : node.inputs) from.push_back(i < 0 ? Json() : Json(all[static_cast<std::size_t>(i)].name));
    nodes.push_back({{"name", node.name}, {"op", node.module->op()}, {"inputs", from}});
  }
  Json json = {{"inputs", inputs}, {"outputs", outputs}, {"nodes", nodes}};
  if (model.preprocess) json["preprocess"] = Json::parse(detail::preprocess_to_json(*model.preprocess));
  if (!model.labels.empty()) json["labels"] = model.labels;
  if (!model.description.empty()) json["for"] = model.description;
  return json;
}

/// What the plan takes, in bytes; why there is none where the model cannot run as was said.
Json plan_json(const Model& model, const InspectOptions& options) {
  try {
    const PlanMemory memory = model.graph.plan_memory(compile_options(model, options));
    return {{"batch", options.batch},
            {"activation_bytes", memory.activations},
            {"workspace_bytes", memory.workspace},
            {"parameter_bytes", memory.parameters}};
  } catch (const Error& error) {
    return {{"batch", options.batch}, {"error", error.what()}};
  }
}

void write_json(const InspectOptions& options) {
  const bool onnx = detail::is_onnx_file(options.file);
  const Weights weights = onnx ? Weights() : open_weights(options.file, options.open);
  Json json = {{"file", options.file}};
  Json& tensors = json["tensors"] = Json::array();
  for (const TensorInfo& info : weights.entries()) {
    tensors.push_back({{"name", info.name}, {"dtype", info.dtype}, {"shape", info.shape}, {"bytes", info.bytes}});
    const auto s = statistics(weights, info);
    if (!s) continue;
    if (s->finite > 0) tensors.back().update({{"min", s->low}, {"max", s->high}, {"mean", s->mean()}});
    tensors.back()["non_finite"] = s->odd;
  }
  for (const auto& [key, value] : weights.metadata()) {
    if (is_note(key)) json["metadata"][key] = value;
  }
  if (onnx || weights.metadata().contains("lamina.graph")) {
    const Model model = opened(options);
    print_warnings(model);
    json["model"] = json_of(model);
    json["plan"] = plan_json(model, options);
  }
  options.json.write(json);
}

/// The inputs whose extents nobody said, for --input-shape.
std::string open_inputs(const Model& model, const InputShapes& shapes) {
  std::string text;
  for (const Graph::Node* node : input_nodes(model.graph)) {
    const Shape& shape = shapes.contains(node->name) ? shapes.at(node->name) : *node->shape;
    if (shape.with_batch(1).is_known()) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", node->name, node->shape->to_string());
  }
  return detail::printable(text);
}

/// What can be said of a graph whose shapes are not known.
void print_open(const Graph& graph, const std::string& inputs) {
  detail::TextTable table({"name", "op", "output", "parameters"});
  std::int64_t all = 0;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module != nullptr && node.module->op() == "Constant") continue;  // counted where it is read
    std::int64_t parameters = 0;
    const auto count = [&](const Module& module) {
      for (const auto& p : module.parameters()) parameters += p.dtype == DType::f32 ? p.shape.numel() : 0;
    };
    if (node.module != nullptr) count(*node.module);
    for (const int input : node.inputs) {
      const auto& operand = input < 0 ? nullptr : graph.nodes()[static_cast<std::size_t>(input)].module;
      if (operand != nullptr && operand->op() == "Constant") count(*operand);
    }
    all += parameters;
    table.add({node.name, std::string(node.module == nullptr ? "input" : node.module->op()),
               node.shape ? node.shape->to_string() : "?", parameters > 0 ? detail::format_count(parameters) : ""});
  }
  table.add_total({"total", "", "", detail::format_count(all)});
  fmt::print("\n{}\nopen: {}; --input-shape NAME=SHAPE shows shapes, kernels and memory\n", table.to_string(), inputs);
}

void print_model(const Model& model, const InspectOptions& options) {
  print_warnings(model);
  CompileOptions shapes = {.batch = options.batch};
  settle_inputs(shapes, model, options);
  if (const std::string inputs = open_inputs(model, shapes.input_shapes); !inputs.empty()) {
    print_open(model.graph, inputs);
  } else {
    fmt::print("\n{}\n", model.graph.summary(shapes));
    print_plan(model, options);
  }
  if (model.preprocess) print_preprocess(*model.preprocess);
  if (!model.labels.empty())
    fmt::print("labels: {}, from {} to {}\n", model.labels.size(), detail::quote(model.labels.front()),
               detail::quote(model.labels.back()));
  if (!model.description.empty()) fmt::print("for: {}\n", detail::printable(model.description));
}

void inspect(const InspectOptions& options) {
  if (options.json.asked()) write_json(options);
  if (options.json.to_stdout()) return;
  if (options.passes) return print_passes(options);
  if (detail::is_onnx_file(options.file)) {
    const Model model = opened(options);
    if (options.plan) return print_plan(model, options);
    fmt::print("{}: an ONNX model of {} nodes\n", options.file, model.graph.nodes().size());
    return print_model(model, options);
  }
  const Weights weights = open_weights(options.file, options.open);
  if (options.plan) return print_plan(opened(options), options);
  fmt::print("{}: {} {}\n\n", options.file, weights.size(), weights.size() == 1 ? "tensor" : "tensors");
  print_tensors(weights);
  for (const auto& [key, value] : weights.metadata()) {
    if (is_note(key)) fmt::print("{}: {}\n", detail::printable(key), detail::printable(value));
  }
  if (!weights.metadata().contains("lamina.graph")) return;

  print_model(opened(options), options);
}

}  // namespace

void add_inspect(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "inspect", "Show the tensors, the graph and the memory of a weight or model file", inspect);
  command->add_option("file", options->file, "a .safetensors, .pth, .pt, .npy, .npz or .onnx file")
      ->required()
      ->transform(shipped(model_file));
  add_open_to(*command, options->open);
  options->inputs.add_to(*command);
  options->inputs.add_capacity_to(*command);
  command->add_option("--batch", options->batch, "batch that shapes and memory are shown for")
      ->check(whole_number(1, std::int64_t{1} << 20));
  CLI::Option* plan = command->add_flag("--plan", options->plan,
                                        "only how a model will run: kernels, what is fused, formats, FLOPs, bytes");
  command->add_flag("--passes", options->passes,
                    "only the passes that make a plan of a model, in order: what each does, and how many steps there "
                    "are after it");
  command
      ->add_option("--dump-kernels", options->dump,
                   "folder for the PTX of each kernel that a GPU's driver compiles for the plan; --plan --device cuda")
      ->needs(plan)
      ->type_name("DIR");
  command->add_flag("--photos", options->photos, "a plan that takes photographs in eight bits, as classify runs it");
  options->json.add_to(*command, "all of it, of the plan its memory,");
  options->run.add_to(*command);
  command->footer("Example:\n  lamina inspect alexnet-conv1 --batch 256");
}

}  // namespace lamina::app
