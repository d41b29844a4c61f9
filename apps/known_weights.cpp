#include "known_weights.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#ifdef LAMINA_DETECT
#include "lamina/detect/parts.h"
#endif
#include "lamina/files/prefixes.h"
#include "lamina/graph/resolve.h"
#include "photos/preprocess_options.h"

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

/// "caffenet or alexnet_original": the ready-made networks that the weights fit.
std::string ready_made(const Weights& weights) {
  std::string names;
  for (const std::string_view name : network_names()) {
    if (fits(fitting_network(name, weights), weights)) names += (names.empty() ? "" : " or ") + std::string(name);
  }
  return names;
}

/// What gives away torchvision's other networks: a tensor that they have, and one that their larger relatives have too.
struct Telltale {
  std::string_view name, has, lacks;
};

constexpr std::array<Telltale, 21> telltales = {
    {{"ResNet34", "layer3.5.conv2.weight", "layer1.0.conv3.weight"},
     {"ResNet50", "layer3.5.conv3.weight", "layer3.6.conv3.weight"},
     {"ResNet101", "layer3.22.conv3.weight", "layer3.23.conv3.weight"},
     {"ResNet152", "layer3.35.conv3.weight", "-"},
     {"VGG with batch norm", "features.1.running_mean", "features.denseblock1.denselayer1.conv1.weight"},
     {"VGG11", "features.18.weight", "features.20.weight"},
     {"VGG13", "features.22.weight", "features.24.weight"},
     {"VGG19", "features.34.weight", "features.1.running_mean"},
     {"DenseNet", "features.denseblock1.denselayer1.conv1.weight", "-"},
     {"SqueezeNet", "features.3.squeeze.weight", "-"},
     {"SqueezeNet", "features.4.squeeze.weight", "features.3.squeeze.weight"},
     {"GoogLeNet", "inception3a.branch1.conv.weight", "-"},
     {"Inception v3", "Mixed_5b.branch1x1.conv.weight", "-"},
     {"MNASNet", "layers.8.0.layers.0.weight", "-"},
     {"MobileNetV2", "features.1.conv.0.0.weight", "-"},
     {"MobileNetV3", "features.1.block.0.0.weight", "-"},
     {"EfficientNet", "features.1.0.block.0.0.weight", "-"},
     {"ConvNeXt", "features.1.0.layer_scale", "-"},
     {"ShuffleNetV2", "stage2.0.branch1.0.weight", "-"},
     {"RegNet", "trunk_output.block1.block1-0.proj.0.weight", "-"},
     {"a vision transformer", "encoder.layers.encoder_layer_0.ln_1.weight", "-"}}};

}  // namespace

Weights unwrapped(const Weights& weights) {
  const std::string_view prefix = detail::shared_prefix(detail::known_prefixes, weights.names());
  return prefix.empty() ? weights : unwrapped(weights.without_prefix(prefix));
}

Graph fitting_network(std::string_view arch, const Weights& weights) {
  Graph graph = network(arch);
  const TensorInfo* info = weights.info(last_linear(graph) + ".weight");
  const bool says = info != nullptr && info->shape.size() == 2 && info->shape[0] > 0 && info->shape[0] <= 1 << 24;
  return says && info->shape[0] != 1000 ? network(arch, static_cast<int>(info->shape[0])) : std::move(graph);
}

std::string whose(const Weights& weights) {
  if (const std::string owner = ready_made(weights); !owner.empty()) return "they are those of " + owner;
  const auto gives_away = [&](const Telltale& t) { return weights.contains(t.has) && !weights.contains(t.lacks); };
  const auto found = std::ranges::find_if(telltales, gives_away);
  if (found == telltales.end()) return "";
  return detail::concat("they look like those of ", found->name,
                        ", which is not among the ready-made networks; scripts/export_torch.py makes a model file of a "
                        "PyTorch module");
}

void require_no_checkpoint(const std::string& path, const std::string& made_by) {
  if (made_by.empty()) return;
  if (!std::filesystem::exists(path))
    throw Error("--model: there is no file " + detail::printable(path) + "; " + made_by);
  if (!path.ends_with(".pt") && !path.ends_with(".pth")) return;
  const std::pair<std::string_view, std::string_view> words[] = {{"yolo11n.pt", path}};
  throw Error(path + ": PyTorch's weights, expected a model file, such as .onnx: " + detail::in_words(made_by, words));
}

bool ends_in_features(const Graph& graph) {
  constexpr std::string_view ops[] = {"relu",       "Relu",    "local_response_norm", "LRN",
                                      "max_pool2d", "MaxPool", "avg_pool2d",          "AveragePool"};
  const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(graph.outputs()[0])];
  return node.module != nullptr && std::ranges::find(ops, node.module->op()) != std::end(ops);
}

Purpose purpose_of(const Model& model) try {
  const detail::Resolved found = detail::resolve(model.graph, {.input_shapes = photo_shapes(model, 0, 224)});
  if (found.inputs.size() != 1 || model.graph.outputs().empty()) return {};
  const auto& input = found.network[found.inputs[0]];
  const auto form = picture_input(input.shape);
  const auto floats = [&](int node) { return is_float(found.network[node].dtype); };
  if (!form || form->channels != 3 || form->channels_last || input.dtype != DType::f32) return {};
  if (std::ranges::none_of(found.outputs, floats)) return {};
  const Shape& first = found.network[found.outputs[0]].shape;
  if (first.rank() == 4 && floats(found.outputs[0])) {
    // As many as there are names; without names three are the colours of a picture.
    const std::int64_t classes = first[1], names = std::ssize(model.labels);
    const bool few = model.graph.outputs().size() <= 2 && first[2] > 1;
    const bool unnamed = classes > 1 && classes != 3 && classes < 256 && few;
    if (names > 0 ? classes == names : unnamed && !ends_in_features(model.graph)) return {.command = "segment"};
  }
#ifdef LAMINA_DETECT
  const detail::Head head(detail::ExportNotes(model), found);
  Preprocess drawn = letterbox(static_cast<int>(form->height));
  if (form->width != form->height) drawn.crop_width = static_cast<int>(form->width);
  if (head.layout.stretched) drawn.aspect = Aspect::ignored;
  return {.command = "detect", .task = head.task, .drawn = drawn};
#endif
  return {};
} catch (const Error&) {  // no detector; or what compiling says better
  return {};
}

void require_purpose(const Model& model, const std::string& source, std::string_view commands,
                     const std::string& more) {
  const std::string command = purpose_of(model).command;
  if (command.empty() || commands.find(command) != commands.npos) return;
  throw Error(source + ": this is a " + (command == "detect" ? "detector" : "segmenter") + ": lamina " + command +
              " is for it" + more);
}

}  // namespace lamina::app
