#include "model_options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

namespace lamina::app {
namespace {

/// The name of the last fully connected layer: its outputs are the classes.
std::string last_linear(const Graph& graph) {
  std::string name;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module != nullptr && node.module->op() == "linear") name = node.name;
  }
  return name;
}

/// The ready-made network with as many classes as the weights have, 1000 where they do not say.
Graph fitting_network(std::string_view arch, const Weights& weights) {
  Graph graph = network(arch);
  const TensorInfo* info = weights.info(last_linear(graph) + ".weight");
  const bool says = info != nullptr && info->shape.size() == 2 && info->shape[0] > 0 && info->shape[0] <= 1 << 24;
  return says && info->shape[0] != 1000 ? network(arch, static_cast<int>(info->shape[0])) : std::move(graph);
}

bool fits(const Graph& graph, const Weights& weights) {
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const auto& parameter : node.module->parameters()) {
      const TensorInfo* info = weights.info(node.name + '.' + parameter.name);
      if (info == nullptr || !std::ranges::equal(info->shape, parameter.shape.extents())) return false;
    }
  }
  return true;
}

/// "vgg16", or nothing.
std::string recognised(const Weights& weights) {
  std::string names;
  for (const std::string_view name : network_names()) {
    if (fits(fitting_network(name, weights), weights)) names += (names.empty() ? "" : " or ") + std::string(name);
  }
  return names;
}

void load_into(Model& model, const Weights& weights, const std::string& path) {
  try {
    for (const std::string& name : model.graph.load(weights)) {
      model.warnings.push_back(fmt::format("the graph does not use tensor \"{}\"", name));
    }
  } catch (const Error& error) {
    const std::string owner = recognised(weights);
    if (!owner.empty())
      throw Error(fmt::format("{}: the weights do not fit the graph: they are those of {}", path, owner));
    throw Error(path + ": " + error.what());
  }
}

}  // namespace

CLI::Validator network_name() {
  return CLI::IsMember(std::vector<std::string>(network_names().begin(), network_names().end()));
}

Model model_of(const std::string& arch, const Weights& weights, const std::string& path) {
  Model model;
  model.graph = fitting_network(arch, weights);
  load_into(model, weights, path);
  // Caffe's networks see BGR pixels less a mean image, which our preprocessing cannot say.
  const bool caffe = model.graph.nodes()[0].name == "data";
  if (!caffe) model.preprocess = torchvision_imagenet();
  return model;
}

std::vector<std::string> read_labels(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(path + ": cannot be read");
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(std::move(line));
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.empty()) throw Error(path + ": expected class names, one on each line; the file is empty");
  return labels;
}

std::int64_t class_count(const Graph& graph) {
  if (graph.outputs().size() != 1) {
    throw Error(
        fmt::format("expected a model with one output, scores [N, classes]; it has {}", graph.outputs().size()));
  }
  const Graph::Node& output = graph.nodes()[static_cast<std::size_t>(graph.outputs()[0])];
  if (output.shape.rank() != 2) {
    throw Error(fmt::format("expected a model whose output is scores [N, classes]; {} is {}", output.name,
                            output.shape.to_string()));
  }
  return output.shape[1];
}

void set_labels(Model& model, std::vector<std::string> labels, const std::string& source) {
  const std::int64_t classes = class_count(model.graph);
  if (static_cast<std::int64_t>(labels.size()) != classes) {
    throw Error(fmt::format("{}: expected {} labels, one for each class, got {}", source, classes, labels.size()));
  }
  model.labels = std::move(labels);
}

void ModelOptions::add_to(CLI::App& command) {
  command.add_option("--model", model, "self-describing model file");
  command.add_option("--weights", weights, "weights of their own for --model or --arch: .safetensors, .pth, .pt");
  command.add_option("--arch", arch, "the ready-made network that --weights belong to")->check(network_name());
  command.add_option("--labels", labels, "class names, one on each line, in place of the model's");
}

Model ModelOptions::load() const {
  if (!model.empty() && !arch.empty()) throw Error("--model and --arch both say which network: give one of them");
  if (model.empty() && (arch.empty() || weights.empty())) {
    throw Error("expected --model FILE, or --arch NETWORK and --weights FILE");
  }
  Model result;
  if (!arch.empty()) {
    result = model_of(arch, Weights::open(weights), weights);
  } else {
    result = load_model(model);
    if (!weights.empty()) load_into(result, Weights::open(weights), weights);
  }
  if (!labels.empty()) set_labels(result, read_labels(labels), labels);
  return result;
}

}  // namespace lamina::app
