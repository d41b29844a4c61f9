#include "lamina/graph/model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/graph/graph_json.h"
#include "lamina/graph/notes.h"
#include "lamina/graph/scores.h"
#include "lamina/layers/op_table.h"
#include "lamina/ops/table.h"

namespace lamina {
namespace {

using Json = nlohmann::ordered_json;
using detail::fail;

constexpr const char* graph_key = "lamina.graph";
constexpr const char* preprocess_key = "lamina.preprocess";
constexpr const char* labels_key = "lamina.labels";
constexpr const char* description_key = "lamina.description";
constexpr const char* export_key = "lamina.export";

/// Calls `f` with the key and the member of each setting; the first four are in every file.
template <class F>
void for_each_setting(const F& f) {
  f("resize", &Preprocess::resize);
  f("crop", &Preprocess::crop);
  f("mean", &Preprocess::mean);
  f("std", &Preprocess::std);
  f("divisor", &Preprocess::divisor);
  f("order", &Preprocess::order);
  f("aspect", &Preprocess::aspect);
  f("fill", &Preprocess::fill);
  f("rounding", &Preprocess::rounding);
  f("placement", &Preprocess::placement);
  f("antialias", &Preprocess::antialias);
  f("crop_width", &Preprocess::crop_width);
}

// The names of enumerators, in their order.
constexpr std::array<std::string_view, 2> names_of(ChannelOrder) { return {"rgb", "bgr"}; }
constexpr std::array<std::string_view, 3> names_of(Aspect) { return {"kept", "ignored", "letterbox"}; }
constexpr std::array<std::string_view, 2> names_of(Rounding) { return {"down", "nearest"}; }
constexpr std::array<std::string_view, 2> names_of(Placement) { return {"centre", "corner"}; }

// A setting from a file.
void set(int& pixels, const Json& value, const std::string& key) {
  if (!value.is_number_integer() || value <= 0 || value > 1 << 20)
    fail(preprocess_key, ": expected \"", key, "\" of 1 or more pixels, got ", detail::shortened(value.dump()));
  pixels = value.get<int>();
}
void set(float& divisor, const Json& value, const std::string& key) {
  if (!value.is_number() || value == 0)
    fail(preprocess_key, ": expected a \"", key, "\" other than 0, got ", detail::shortened(value.dump()));
  divisor = value.get<float>();
}
void set(std::array<float, 3>& channels, const Json& value, const std::string& key) {
  const bool numbers = value.is_array() && value.size() == 3 &&
                       std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_number(); });
  if (!numbers) fail(preprocess_key, ": expected \"", key, "\" of 3 numbers, got ", detail::shortened(value.dump()));
  for (std::size_t c = 0; c < 3; ++c) channels[c] = value[c].get<float>();
}
void set(std::array<std::uint8_t, 3>& levels, const Json& value, const std::string& key) {
  std::array<float, 3> numbers;
  set(numbers, value, key);
  for (std::size_t c = 0; const float level : numbers) {
    if (!(level >= 0 && level <= 255)) fail(preprocess_key, ": expected \"", key, "\" from 0 to 255, got ", level);
    levels[c++] = static_cast<std::uint8_t>(level);
  }
}
void set(bool& flag, const Json& value, const std::string& key) {
  if (!value.is_boolean())
    fail(preprocess_key, ": expected \"", key, "\" true or false, got ", detail::shortened(value.dump()));
  flag = value.get<bool>();
}
template <class Enum>
requires std::is_enum_v<Enum>
void set(Enum& result, const Json& value, const std::string& key) {
  std::string expected;
  for (std::size_t i = 0; const std::string_view name : names_of(Enum())) {
    if (value.is_string() && value.get_ref<const std::string&>() == name) return void(result = static_cast<Enum>(i));
    expected += detail::concat(i++ == 0 ? "" : " or ", '"', name, '"');
  }
  fail(preprocess_key, ": expected \"", key, "\" of ", expected, ", got ", detail::shortened(value.dump()));
}

/// The decimal number that people write for this float: 0.485, not 0.48500001430511475.
double shortest(float value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = 0;
  std::from_chars(text.data(), end, result);
  return result;
}

// A setting as a file has it.
int written(int pixels) { return pixels; }
bool written(bool flag) { return flag; }
double written(float value) { return shortest(value); }
Json written(const std::array<float, 3>& list) { return {shortest(list[0]), shortest(list[1]), shortest(list[2])}; }
const std::array<std::uint8_t, 3>& written(const std::array<std::uint8_t, 3>& levels) { return levels; }
template <class Enum>
requires std::is_enum_v<Enum> std::string_view written(Enum value) {
  return names_of(value)[static_cast<std::size_t>(value)];
}

}  // namespace

Preprocess detail::preprocess_from_json(std::string_view text) {
  const Json json = detail::parse_json<Json>(text, preprocess_key);
  if (!json.is_object()) fail(preprocess_key, ": expected an object, got ", detail::shortened(json.dump()));
  Preprocess result = torchvision_imagenet();
  for (const auto& [key, value] : json.items()) {
    bool known = false;
    std::vector<std::string> names;
    for_each_setting([&, &key = key, &value = value](std::string_view name, auto member) {
      names.emplace_back(name);
      if (name != key) return;
      set(result.*member, value, key);
      known = true;
    });
    if (!known) fail(preprocess_key, ": unknown key ", detail::quote(key), detail::nearest_text(key, names));
  }
  return result;
}

const Preprocess& ModelPreprocess::value() const {
  if (!has_value()) {
    fail(
        "the model does not say how a photograph becomes its input, as few .onnx files do: set Model::preprocess, to "
        "torchvision_imagenet() for most networks; lamina convert puts it into a model file");
  }
  return std::optional<Preprocess>::operator*();
}

std::string detail::preprocess_to_json(const Preprocess& preprocess) {
  Json json;
  // What is as in torchvision is left out: readers that know of nothing else then read the file.
  const Preprocess usual;
  for_each_setting([&](const char* key, auto member) {
    if (json.size() < 4 || preprocess.*member != usual.*member) json[key] = written(preprocess.*member);
  });
  return json.dump();
}

namespace {

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

}  // namespace

void detail::require_labels(const Model& model) {
  const auto task = model.metadata.find("task");
  const bool classifier = task == model.metadata.end() || task->second == "classify";
  if (model.labels.empty() || model.graph.outputs().size() != 1 || !classifier) return;
  const auto output = static_cast<std::size_t>(model.graph.outputs()[0]);
  std::optional<Shape> shape = model.graph.nodes()[output].shape;
  try {
    if (!shape) shape = model.graph.shapes(1)[output];
  } catch (const Error&) {
    return;
  }
  const std::int64_t classes = scores_in(*shape);
  if (classes > 1 && classes != static_cast<std::int64_t>(model.labels.size()))
    fail("labels: expected ", classes, ", one for each class, got ", model.labels.size());
}

Model model_from(const Weights& weights) {
  const auto& metadata = weights.metadata();
  const auto graph = metadata.find(graph_key);
  if (graph == metadata.end())
    fail("there is no graph in it (no \"", graph_key,
         "\" in its metadata): it holds weights only, which a ready-made network or a graph of yours loads");
  Model model;
  model.graph = detail::graph_from_json(graph->second, weights);
  for (const std::string& name : model.graph.load(weights))
    model.warnings.push_back("the graph does not use tensor " + detail::quote(name));
  if (const auto found = metadata.find(preprocess_key); found != metadata.end())
    model.preprocess = detail::preprocess_from_json(found->second);
  if (const auto found = metadata.find(labels_key); found != metadata.end()) model.labels = lines(found->second);
  if (const auto found = metadata.find(description_key); found != metadata.end()) model.description = found->second;
  if (const auto found = metadata.find(export_key); found != metadata.end()) {
    const Json notes = detail::parse_json<Json>(found->second, export_key);
    for (const auto& [key, value] : notes.items()) {
      if (!notes.is_object() || !value.is_string()) fail(export_key, ": expected an object of texts");
      model.metadata[key] = value.get<std::string>();
    }
  }
  detail::take_notes(model);
  return model;
}

namespace {

/// Whether this process reads such a node: a program may write a layer of its own that only another one registers.
bool is_readable(const Graph::Node& node) {
  if (node.module == nullptr || node.module->op() == "Constant") return true;
  return detail::find_op(node.module->op()) != nullptr || detail::knows_op(node.module->op());
}

/// With the graph's text. Throws Error if that would not be read again.
Weights weights_of(const Graph& graph) {
  Weights weights = graph.state_dict();
  const std::string text = detail::graph_to_json(graph);
  if (std::ranges::all_of(graph.nodes(), is_readable))
    detail::at_node("the network cannot be written", [&] { (void)detail::graph_from_json(text, weights); });
  weights.metadata()[graph_key] = text;
  return weights;
}

}  // namespace

Weights to_weights(const Model& model) {
  Weights weights = weights_of(model.graph);
  auto& metadata = weights.metadata();
  if (model.preprocess) metadata[preprocess_key] = detail::preprocess_to_json(*model.preprocess);
  detail::require_labels(model);
  std::string labels;
  for (const std::string& label : model.labels) labels += label + '\n';
  if (!labels.empty()) metadata[labels_key] = labels.substr(0, labels.size() - 1);
  if (!model.description.empty()) metadata[description_key] = model.description;
  if (!model.metadata.empty())
    metadata[export_key] = Json(model.metadata).dump(-1, ' ', false, Json::error_handler_t::replace);
  return weights;
}

void save_model(const std::string& path, const Model& model) { to_weights(model).save(path); }

Graph Graph::load(const std::string& path) { return std::move(load_model(path).graph); }

void Graph::save(const std::string& path) const { weights_of(*this).save(path); }

}  // namespace lamina
