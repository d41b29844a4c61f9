#include "inputs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <optional>

#include "complain.h"
#include "lamina/base/names.h"
#include "lamina/graph/resolve.h"
#include "lamina/plan/not_finite.h"
#include "photos/photos.h"
#include "shown_layer.h"
#include "words.h"

namespace lamina::app {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(message); }

/// As the model's input. The batch and open extents are the caller's; everything else of a shape is the network's.
Tensor fitted(const Tensor& tensor, const Graph::Node& input, const std::string& path) {
  if (!input.shape->admits(tensor.shape())) {
    fail(fmt::format("{}: expected {} for input \"{}\", got {}", path, input.shape->to_string(), input.name,
                     tensor.shape().to_string()));
  }
  if (tensor.dtype() == input.dtype) return tensor;
  // Models of f32 take what files have, as they always did; a type that a model asks for is meant.
  if (input.dtype != DType::f32) {
    fail(fmt::format("{}: expected {} for input \"{}\", got {}", path, name(input.dtype), input.name,
                     name(tensor.dtype())));
  }
  return tensor.to(DType::f32);
}

}  // namespace

const Graph::Node& input_node(const Graph& graph, std::size_t i) {
  return graph.nodes()[static_cast<std::size_t>(graph.inputs()[i])];
}

std::vector<const Graph::Node*> input_nodes(const Graph& graph) {
  std::vector<const Graph::Node*> nodes;
  for (const int input : graph.inputs()) nodes.push_back(&graph.nodes()[static_cast<std::size_t>(input)]);
  return nodes;
}

Shape one_input(const Graph& graph, const InputShapes& said, const std::string& source) {
  if (graph.inputs().size() != 1) {
    throw Error(fmt::format("{}: expected a model with one input [N, 3, H, W] for photographs, it has {}: {}", source,
                            graph.inputs().size(), listed(graph.input_names())));
  }
  const Graph::Node& node = input_node(graph);
  if (said.empty()) return *node.shape;
  if (const auto found = said.find(node.name); found != said.end()) return found->second;
  throw Error(fmt::format("--input-shape: the model's input is {}, not {}", detail::quote(node.name),
                          detail::quote(said.begin()->first)));
}

std::vector<Tensor> read_inputs(const fs::path& path, const Model& model, Constants& constants,
                                const ImageOptions& options, const std::vector<std::string>& others) {
  const std::vector<std::string> names = model.graph.input_names();
  if (is_photo(path)) {
    if (names.size() != 1)
      fail(fmt::format("{}: a photograph serves a model of one input, this one has {}", path.string(), names.size()));
    if (!model.preprocess)
      fail(path.string() +
           ": the model does not say how a photograph becomes its input; lamina convert --preprocess "
           "puts it into a model file");
    return {as_input(load_image(path, *model.preprocess, options), model.graph)};
  }
  const Weights file = Weights::open(path);
  const std::vector<std::string> there = file.names();
  std::vector<std::string> known = names;
  for (const int node : model.graph.optional_inputs()) {
    const Graph::Node& input = model.graph.nodes()[static_cast<std::size_t>(node)];
    known.push_back(input.name);
    if (file.contains(input.name)) constants[input.name] = fitted(file.at(input.name), input, path.string());
  }
  // What NumPy writes without a name: an .npy, known by its file's, and the first of an .npz.
  const bool nameless = names.size() == 1 && there.size() == 1 && constants.empty() &&
                        (there[0] == path.stem().string() || there[0] == "arr_0");
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    if (!file.contains(name) && !nameless) {
      fail(fmt::format("{}: expected a tensor \"{}\" for the model's input; the file has {}", path.string(), name,
                       listed(there)));
    }
    const Tensor tensor = file.contains(name) ? file.at(name) : file.at(there[0]);
    inputs.push_back(fitted(tensor, input_node(model.graph, i), path.string()));
  }
  known.insert(known.end(), others.begin(), others.end());
  for (const std::string& name : there) {
    if (nameless || std::ranges::find(known, name) != known.end()) continue;
    fail(fmt::format("{}: the model has no input {}\"{}\"{}", path.string(), others.empty() ? "" : "and no node ", name,
                     detail::nearest_text(name, known)));
  }
  return inputs;
}

namespace {

/// The numbers of a text, if there is nothing else in it.
template <class T>
std::optional<std::vector<T>> numbers_in(std::string_view text) {
  std::vector<T> numbers;
  for (const std::string_view part : parts_of(text, ',')) {
    const auto number = number_in<T>(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

template <class T>
std::optional<Tensor> said_tensor(const Graph::Node& input, std::string_view text) {
  const auto numbers = numbers_in<T>(text);
  if (!numbers) return std::nullopt;
  const auto count = static_cast<std::int64_t>(numbers->size());
  // What is open takes as many as are left; of several open extents a list does not tell which.
  std::int64_t known = 1;
  int opened = -1;
  Shape shape = *input.shape == Shape{any_rank} ? Shape{open} : *input.shape;
  for (int i = 0; i < static_cast<int>(shape.rank()); ++i) {
    if (shape[i] >= 0) known *= shape[i];
    if (shape[i] < 0 && std::exchange(opened, i) >= 0) known = 0;
  }
  if (opened >= 0 && known > 0 && count % known == 0) shape.set(opened, count / known);
  if (!shape.is_known() || shape.numel() != count) {
    fail(fmt::format("--constant {}: expected {}, got {} numbers; a tensor file in their place has a shape too",
                     input.name, input.shape->to_string(), count));
  }
  return Tensor::from(std::span<const T>(*numbers), shape).to(input.dtype);
}

}  // namespace

Tensor constant_of(const Graph::Node& input, const std::string& text) {
  const auto said = is_float(input.dtype) ? said_tensor<double>(input, text) : said_tensor<std::int64_t>(input, text);
  if (said) return *said;
  if (!fs::exists(text)) {
    fail(fmt::format("--constant {}: expected {} with commas between, or a tensor file, got {}", input.name,
                     is_float(input.dtype) ? "numbers" : "whole numbers", detail::quote(text)));
  }
  const Weights file = Weights::open(text);
  if (!file.contains(input.name) && file.size() != 1) {
    fail(fmt::format("{}: expected a tensor \"{}\"; the file has {}", text, input.name, listed(file.names())));
  }
  return fitted(file.at(file.contains(input.name) ? input.name : file.names()[0]), input, text);
}

Graph with_inputs(const Graph& graph, const InputShapes& shapes, const Constants& constants) {
  Graph result;
  for (const Graph::Node& node : graph.nodes()) {
    if (const auto value = constants.find(node.name); value != constants.end()) {
      result.add(node.name, std::make_shared<Constant>(value->second), {});
    } else if (node.module == nullptr) {
      const auto shape = shapes.find(node.name);
      result.input(node.name, shape == shapes.end() ? *node.shape : shape->second, node.dtype);
    } else {
      std::vector<Value> inputs;
      for (const int input : node.inputs) inputs.push_back({input});
      result.add(node.name, node.module, inputs);
    }
  }
  for (const int output : graph.outputs()) result.output({output});
  return result;
}

void require_nodes(const Graph& graph, const std::string& option, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (graph.find(name) != nullptr) continue;
    throw Error(fmt::format("{}: the model has no node \"{}\"{}", option, name,
                            nearest_nodes(name, detail::node_names(graph, false))));
  }
}

void say_not_finite(const Plan& plan, std::span<const Tensor> outputs) {
  static std::atomic<bool> said = false;
  if (said) return;
  std::vector<Tensor> here;
  for (const Tensor& output : outputs) here.push_back(output.to(Device::cpu()));
  std::vector<bool> each;
  const std::string text = detail::not_finite(plan, here, each, std::numeric_limits<std::int64_t>::max());
  if (!text.empty() && !said.exchange(true)) complain("warning: " + text);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  const std::span<const std::string> shown = std::span(names).first(std::min(most, names.size()));
  std::string text = names.empty() ? "none" : fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return detail::printable(text);
}

Plan compile_for(const Graph& graph, CompileOptions options, std::vector<Tensor>& inputs) {
  // One batch for all, where it is the batch that the first extents are: an exporter may call anything so.
  std::vector<std::int64_t> batches;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& declared = *input_node(graph, i).shape;
    if (declared.rank() > 0 && declared[0] == batch) batches.push_back(inputs[i].shape()[0]);
  }
  const bool one = std::ranges::adjacent_find(batches, std::ranges::not_equal_to()) == batches.end();
  const bool batched = !batches.empty() && one && batches[0] >= 1;
  options.batch = batched ? batches[0] : 1;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Graph::Node& node = input_node(graph, i);
    const auto is_left = [&](std::int64_t extent) { return extent < batch || (extent == batch && !batched); };
    if (std::ranges::any_of(*node.shape, is_left)) options.input_shapes[node.name] = inputs[i].shape();
  }
  const std::vector<std::string> names = graph.input_names();
  for (;;) {
    try {
      Plan plan = graph.compile(options);
      for (std::size_t i = inputs.size(); i-- > 0;) {
        if (options.constants.contains(names[i])) inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
      }
      return plan;
    } catch (const UnboundInputs& unbound) {
      const std::size_t before = options.constants.size();
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (std::ranges::find(unbound.names, names[i]) != unbound.names.end()) options.constants[names[i]] = inputs[i];
      }
      if (options.constants.size() == before) throw;
    }
  }
}

void print_warnings(const Model& model) {
  for (const std::string& warning : model.warnings) complain("warning: " + warning);
}

}  // namespace lamina::app
