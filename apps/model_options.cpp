#include "model_options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "complain.h"
#include "inputs.h"
#include "known_weights.h"
#include "lamina/base/content.h"
#include "lamina/graph/resolve.h"
#include "lamina/onnx/onnx.h"
#include "models/shipped.h"
#include "options.h"
#include "photos/notes_beside.h"
#include "words.h"

namespace lamina::app {
namespace {

/// Where nothing fits, a hundred lines would push what they are about off the screen.
std::string first_lines(const std::string& text) {
  constexpr std::size_t most = 12;
  std::size_t end = 0;
  for (std::size_t i = 0; i < most && end != std::string::npos; ++i) end = text.find('\n', end + 1);
  if (end == std::string::npos) return text;
  return fmt::format("{}\n  and {} more", text.substr(0, end),
                     std::count(text.begin() + static_cast<std::ptrdiff_t>(end), text.end(), '\n'));
}

void load_into(Model& model, const Weights& weights, const std::string& path) {
  const std::string prefix = detail::foreign_prefix(model.graph, weights);
  if (!prefix.empty()) complain(fmt::format("{}: the names are those after \"{}\"", path, prefix));
  try {
    for (const std::string& name : model.graph.load(weights)) {
      model.warnings.push_back(fmt::format("the graph does not use tensor \"{}\"", name));
    }
  } catch (const Error& error) {
    const std::string owner = whose(unwrapped(weights));
    if (!owner.empty()) throw Error(fmt::format("{}: the weights do not fit the graph: {}", path, owner));
    throw Error(path + ": " + first_lines(error.what()));
  }
}

constexpr std::int64_t imagenet_classes = 1000;

/// The ready-made networks are ImageNet's: with as many classes, these are their names, in the order of torchvision and
/// of Caffe. Empty where the list that ships cannot be found.
std::vector<std::string> usual_labels(const Model& model) {
  if (class_count(model) != imagenet_classes) return {};
  std::vector<std::string> names;
  try {
    names = read_labels(shipped_file("imagenet_classes.txt"));
  } catch (const Error&) {
  }
  if (static_cast<std::int64_t>(names.size()) != imagenet_classes) return {};  // another file of that name
  return names;
}

}  // namespace

CLI::Validator shipped(std::string (*file_of)(const std::string& name)) {
  return CLI::Validator(
      [file_of](std::string& name) {
        name = file_of(name);
        return std::string();
      },
      "");
}

Model open_model(const std::string& path) {
  if (detail::is_onnx_file(path)) {
    Model model = load_model(path);
    take_notes_beside(model, path);
    return model;
  }
  const Weights weights = Weights::open(path);
  if (weights.metadata().contains("lamina.graph")) return load_model(path);
  const std::string owner = whose(unwrapped(weights));
  throw Error(
      fmt::format("{}: holds weights without a graph{}{}; --arch NETWORK --weights FILE runs them, lamina convert "
                  "--arch makes a model file",
                  path, owner.empty() ? "" : ": ", owner));
}

void add_open_to(CLI::App& command, OpenOptions& options) {
  command
      .add_option("--key", options.key, "where the weights are in a PyTorch checkpoint that has several: model, ema")
      ->type_name("KEY");
  command
      .add_option(
          "--strip-prefix", options.strip_prefix,
          "what to leave out in front of the weights' names: backbone. (module., _orig_mod. and model. are left "
          "out unasked)")
      ->type_name("PREFIX");
}

Weights open_weights(const std::string& path, const OpenOptions& options) {
  try {
    Weights weights = Weights::open(path, options);
    for (const std::string& note : weights.notes()) complain(note);
    return weights;
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const auto& [option, value] :
         {std::pair("--key: ", options.key), {"--strip-prefix: ", options.strip_prefix}}) {
      if (!value.empty() && message.find('"' + value) != message.npos) throw Error(option + message);
    }
    throw;
  }
}

CLI::Validator network_name() { return one_of({network_names().begin(), network_names().end()}); }

Model model_of(const std::string& arch, const Weights& weights, const std::string& path) {
  Model model;
  model.graph = fitting_network(arch, unwrapped(weights));
  model.labels = usual_labels(model);
  load_into(model, weights, path);
  model.preprocess = network_preprocess(arch);
  return model;
}

std::string class_name(const std::vector<std::string>& labels, int number) {
  const auto at = static_cast<std::size_t>(number);
  return at < labels.size() ? detail::printable(labels[at]) : fmt::format("class {}", number);
}

nlohmann::ordered_json class_json(int number, const std::string& name) {
  return {{"class", number}, {"name", name}, {"index", number}};
}

std::vector<std::string> read_labels(const std::string& path) {
  const std::string named = "--labels: " + path;
  detail::require_end(path);
  std::ifstream file(path);
  if (!file)
    throw Error(fmt::format("cannot read {}: {}", path, detail::words_of(errno, path)), detail::kind_of(errno));
  if (std::filesystem::is_directory(path)) throw Error(named + ": expected class names, one on each line; a folder");
  std::vector<std::string> labels;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    labels.push_back(std::move(line));
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.empty()) throw Error(named + ": expected class names, one on each line; the file is empty");
  return labels;
}

std::int64_t class_count(const Model& model, int side) {
  const Graph& graph = model.graph;
  if (graph.outputs().size() != 1) {
    throw Error(
        fmt::format("expected a model with one output, scores [N, classes]; it has {}", graph.outputs().size()));
  }
  const auto output = static_cast<std::size_t>(graph.outputs()[0]);
  Shape shape;
  if (graph.nodes()[output].shape) {
    shape = *graph.nodes()[output].shape;
  } else {
    const detail::Resolved resolved = detail::resolve(graph, {.input_shapes = photo_shapes(model, side, 224)});
    shape = resolved.network[resolved.outputs[0]].shape;
  }
  const std::int64_t numbers = scores_in(shape);
  if (numbers == 0) {
    throw Error(fmt::format("expected a model whose output is scores [N, classes]; {} is {}",
                            graph.nodes()[output].name, shape.to_string()));
  }
  return numbers == 1 && scores_of(graph) == Scores::independent ? 2 : numbers;
}

Ranking ranked(const Tensor& row, Scores scores, int top) {
  constexpr float enough = 0.9f;
  const int judges = scores == Scores::independent ? 1 : std::max(1, static_cast<int>(row.numel() / 200));
  Ranking found = {top_k(row, std::max(top, judges)), judges};
  float share = 0;
  for (const Scored& each : std::span(found.classes).first(static_cast<std::size_t>(judges))) share += each.score;
  found.sure = row.numel() == 1 || share >= enough;
  if (found.classes.size() > static_cast<std::size_t>(top)) found.classes.resize(static_cast<std::size_t>(top));
  return found;
}

std::string doubt_of(const Model& model, const std::string& name, int judges, const std::string& photographs,
                     std::size_t count) {
  return fmt::format("{} {} not sure of {}, which may show something else ({} less than 90 %{})", name,
                     model.description.empty() ? "is" : model.description + "; it is", photographs,
                     judges != 1  ? fmt::format("{} {} best classes have", count == 1 ? "its" : "their", judges)
                     : count == 1 ? "its best class has"
                                  : "their best classes have",
                     judges == 1 ? "" : " together");
}

void set_labels(Model& model, std::vector<std::string> labels, const std::string& source, int side) {
  const std::int64_t classes = class_count(model, side);
  if (static_cast<std::int64_t>(labels.size()) != classes) {
    throw Error(
        fmt::format("--labels: {}: expected {} labels, one for each class, got {}", source, classes, labels.size()));
  }
  model.labels = std::move(labels);
}

void ModelOptions::add_to(CLI::App& command) {
  const bool own = made_by.empty();  // models that Lamina has serve the command
  std::string files = "model file: a .safetensors file that describes itself, or .onnx";
  if (own) files += "; or digits, which ships, or classifier, which " + classifier_bringer() + " brings";
  command.add_option("--model", model, files)->transform(shipped(model_file));
  command.add_option("--weights", weights, "weights of their own for the model: .safetensors, .pth, .pt, .npz");
  if (own) command.add_option("--arch", arch, "the ready-made network that --weights belong to")->check(network_name());
  add_open_to(command, open);
  inputs.add_to(command);
}

void ModelOptions::add_preprocess_to(CLI::App& command) { preprocess.add_to(command, size_help); }

void add_labels_to(CLI::App& command, std::string& labels) {
  command.add_option("--labels", labels, "class names, one on each line, or imagenet, in place of the model's")
      ->transform(shipped(labels_file));
}

Model ModelOptions::load() const {
  constexpr std::string_view published =
      "PyTorch's are https://download.pytorch.org/models/alexnet-owt-7be5be79.pth and the like";
  if (!model.empty() && !arch.empty()) throw Error("--model and --arch both say which model: give one of them");
  if (model.empty() && weights.empty() && !arch.empty()) {
    throw Error(fmt::format("--arch {} needs its weights, --weights FILE; {}", arch, published));
  }
  if (model.empty() && arch.empty() && !weights.empty() && made_by.empty()) {
    throw Error(fmt::format("--weights {} needs --arch NETWORK, of {}", weights, fmt::join(network_names(), ", ")));
  }
  if (model.empty() && arch.empty() && !made_by.empty()) throw Error("expected --model FILE: " + made_by);
  if (model.empty() && arch.empty()) {
    throw Error(
        fmt::format("expected --model FILE (--model digits, which ships, reads a handwritten digit; {} brings one that "
                    "classify takes by itself), or --arch NETWORK and --weights FILE; {}",
                    classifier_bringer(), published));
  }
  if (weights.empty() && !(open.key + open.strip_prefix).empty()) {
    throw Error("--key and --strip-prefix say how --weights are read: there are none");
  }
  Model result;
  if (!arch.empty()) {
    result = model_of(arch, open_weights(weights, open), weights);
  } else {
    require_no_checkpoint(model, made_by);
    result = open_model(model);
    if (!weights.empty()) load_into(result, open_weights(weights, open), weights);
  }
  inputs.apply(result.graph);
  if (!labels.empty()) {
    set_labels(result, read_labels(labels), labels, preprocess.size);
  }
  return result;
}

}  // namespace lamina::app
