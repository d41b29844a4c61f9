#include "lamina/graph/model.h"

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/graph/graph_json.h"

namespace lamina {
namespace {

using Json = nlohmann::ordered_json;
using detail::fail;

constexpr const char* graph_key = "lamina.graph";
constexpr const char* preprocess_key = "lamina.preprocess";
constexpr const char* labels_key = "lamina.labels";
constexpr const char* description_key = "lamina.description";
constexpr const char* export_key = "lamina.export";

int positive(const Json& value, const std::string& key) {
  if (!value.is_number_integer() || value <= 0 || value > 1 << 20) {
    fail(preprocess_key, ": expected \"", key, "\" of 1 or more pixels, got ", detail::shortened(value.dump()));
  }
  return value.get<int>();
}

std::array<float, 3> channels(const Json& value, const std::string& key) {
  std::array<float, 3> result{};
  const bool numbers = value.is_array() && value.size() == 3 &&
                       std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_number(); });
  if (!numbers) fail(preprocess_key, ": expected \"", key, "\" of 3 numbers, got ", detail::shortened(value.dump()));
  for (std::size_t c = 0; c < 3; ++c) result[c] = value[c].get<float>();
  return result;
}

std::array<std::uint8_t, 3> levels(const Json& value, const std::string& key) {
  std::array<std::uint8_t, 3> result{};
  for (std::size_t c = 0; const float level : channels(value, key)) {
    if (!(level >= 0 && level <= 255)) fail(preprocess_key, ": expected \"", key, "\" from 0 to 255, got ", level);
    result[c++] = static_cast<std::uint8_t>(level);
  }
  return result;
}

// Of enumerations, in their order.
constexpr std::array<std::string_view, 2> orders = {"rgb", "bgr"};
constexpr std::array<std::string_view, 3> aspects = {"kept", "ignored", "letterbox"};
constexpr std::array<std::string_view, 2> roundings = {"down", "nearest"};
constexpr std::array<std::string_view, 2> placements = {"centre", "corner"};

/// Sets the enumerator that `value` names.
template <class Enum, std::size_t n>
void set_named(Enum& result, const Json& value, const std::string& key, const std::array<std::string_view, n>& names) {
  std::string expected;
  for (std::size_t i = 0; i < n; ++i) {
    if (value.is_string() && value.get_ref<const std::string&>() == names[i])
      return void(result = static_cast<Enum>(i));
    expected += detail::concat(i == 0 ? "" : " or ", '"', names[i], '"');
  }
  fail(preprocess_key, ": expected \"", key, "\" of ", expected, ", got ", detail::shortened(value.dump()));
}

Preprocess preprocess_from_json(std::string_view text) {
  const Json json = detail::parse_json<Json>(text, preprocess_key);
  if (!json.is_object()) fail(preprocess_key, ": expected an object, got ", detail::shortened(json.dump()));
  Preprocess result = torchvision_imagenet();
  for (const auto& [key, value] : json.items()) {
    if (key == "resize") {
      result.resize = positive(value, key);
    } else if (key == "crop") {
      result.crop = positive(value, key);
    } else if (key == "mean") {
      result.mean = channels(value, key);
    } else if (key == "std") {
      result.std = channels(value, key);
    } else if (key == "divisor") {
      if (!value.is_number() || value == 0) {
        fail(preprocess_key, ": expected a \"divisor\" other than 0, got ", detail::shortened(value.dump()));
      }
      result.divisor = value.get<float>();
    } else if (key == "order") {
      set_named(result.order, value, key, orders);
    } else if (key == "aspect") {
      set_named(result.aspect, value, key, aspects);
    } else if (key == "fill") {
      result.fill = levels(value, key);
    } else if (key == "rounding") {
      set_named(result.rounding, value, key, roundings);
    } else if (key == "placement") {
      set_named(result.placement, value, key, placements);
    } else {
      fail(preprocess_key, ": unknown key ", detail::quote(key));
    }
  }
  return result;
}

/// The decimal number that people write for this float: 0.485, not 0.48500001430511475.
double shortest(float value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  double result = 0;
  std::from_chars(text.data(), end, result);
  return result;
}

}  // namespace

std::string detail::preprocess_to_json(const Preprocess& preprocess) {
  const auto list = [](const std::array<float, 3>& values) {
    return Json{shortest(values[0]), shortest(values[1]), shortest(values[2])};
  };
  Json json{{"resize", preprocess.resize},
            {"crop", preprocess.crop},
            {"mean", list(preprocess.mean)},
            {"std", list(preprocess.std)}};
  // What is as in torchvision is left out: readers that know of nothing else then read the file.
  const Preprocess usual;
  if (preprocess.divisor != usual.divisor) json["divisor"] = shortest(preprocess.divisor);
  const auto note = [&](const char* key, auto value, auto usually, const auto& names) {
    if (value != usually) json[key] = names[static_cast<std::size_t>(value)];
  };
  note("order", preprocess.order, usual.order, orders);
  note("aspect", preprocess.aspect, usual.aspect, aspects);
  if (preprocess.fill != usual.fill) json["fill"] = preprocess.fill;
  note("rounding", preprocess.rounding, usual.rounding, roundings);
  note("placement", preprocess.placement, usual.placement, placements);
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

Model model_from(const Weights& weights) {
  const auto& metadata = weights.metadata();
  const auto graph = metadata.find(graph_key);
  if (graph == metadata.end()) {
    fail("there is no graph in it (no \"", graph_key, "\" in its metadata): it holds weights only");
  }
  Model model;
  model.graph = detail::graph_from_json(graph->second, weights);
  for (const std::string& name : model.graph.load(weights)) {
    model.warnings.push_back("the graph does not use tensor " + detail::quote(name));
  }
  if (const auto found = metadata.find(preprocess_key); found != metadata.end()) {
    model.preprocess = preprocess_from_json(found->second);
  }
  if (const auto found = metadata.find(labels_key); found != metadata.end()) model.labels = lines(found->second);
  if (const auto found = metadata.find(description_key); found != metadata.end()) model.description = found->second;
  if (const auto found = metadata.find(export_key); found != metadata.end()) {
    const Json notes = detail::parse_json<Json>(found->second, export_key);
    for (const auto& [key, value] : notes.items()) {
      if (!notes.is_object() || !value.is_string()) fail(export_key, ": expected an object of texts");
      model.metadata[key] = value.get<std::string>();
    }
  }
  return model;
}

Weights to_weights(const Model& model) {
  Weights weights = model.graph.state_dict();
  auto& metadata = weights.metadata();
  metadata[graph_key] = detail::graph_to_json(model.graph);
  if (model.preprocess) metadata[preprocess_key] = detail::preprocess_to_json(*model.preprocess);
  std::string labels;
  for (const std::string& label : model.labels) labels += (labels.empty() ? "" : "\n") + label;
  if (!labels.empty()) metadata[labels_key] = labels;
  if (!model.description.empty()) metadata[description_key] = model.description;
  if (!model.metadata.empty()) {
    metadata[export_key] = Json(model.metadata).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return weights;
}

void save_model(const std::string& path, const Model& model) { to_weights(model).save(path); }

Graph Graph::load(const std::string& path) { return std::move(load_model(path).graph); }

void Graph::save(const std::string& path) const {
  Weights weights = state_dict();
  weights.metadata()[graph_key] = detail::graph_to_json(*this);
  weights.save(path);
}

}  // namespace lamina
