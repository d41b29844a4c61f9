#include "photos/said_of_models.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "inputs.h"
#include "known_weights.h"
#include "model_options.h"

namespace lamina::app {
namespace {

/// MODEL of MODEL=VALUE; empty where the word is of all models.
std::string model_in(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals == word.npos ? "" : word.substr(0, equals);
}

/// What is said of inputs, and every other open extent of theirs, but for batches, at that.
InputShapes with_open_at(const Graph& graph, InputShapes shapes, std::int64_t extent) {
  for (const Graph::Node* node : input_nodes(graph)) {
    Shape& shape = shapes.try_emplace(node->name, *node->shape).first->second;
    for (std::size_t i = 0; i < shape.rank(); ++i) {
      if (shape[static_cast<int>(i)] == open) shape.set(static_cast<int>(i), extent);
    }
  }
  return shapes;
}

}  // namespace

std::optional<detail::Resolved> resolved_at(const Graph& graph, std::int64_t extent, const InputShapes& shapes) {
  try {
    return detail::resolve(graph, {.input_shapes = with_open_at(graph, shapes, extent)});
  } catch (const Error&) {
    return {};
  }
}

InputShapes first_shapes(const Model& model, int size) {
  InputShapes shapes = photo_shapes(model, size, purpose_of(model).command == "detect" ? 640 : 224);
  bool known = true;
  for (const Graph::Node* node : input_nodes(model.graph)) {
    const Shape& shape = shapes.contains(node->name) ? shapes.at(node->name) : *node->shape;
    if (shape.rank() == 1 && shape[0] == any_rank) return shapes;  // compiling tells
    known = known && shape.with_batch(1).is_known();
  }
  if (known) return shapes;
  for (const std::int64_t extent : {64, 16, 8, 1}) {
    if (resolved_at(model.graph, extent, shapes)) return with_open_at(model.graph, shapes, extent);
  }
  throw Error(
      "its inputs leave extents open, and it computes with none of the usual ones; lamina convert --input-shape "
      "puts shapes into a model file");
}

void SaidOfModel::add_to(CLI::App& command) {
  preprocess.add_to(command, size_help);
  add_labels_to(command, labels);
}

void SaidOfModel::put_into(Model& model, const std::string& file, bool in_place) const {
  PreprocessOptions levels = preprocess;
  levels.size = 0;  // alone it says nothing of how a photograph becomes an input
  const bool one = model.graph.inputs().size() == 1;
  if (in_place && one && preprocess.size > 0) (void)sides_of(model.graph, {}, preprocess.size, file);
  // A detector says it by what it is.
  if (in_place ? preprocess.given() && (model.preprocess || levels.given())
               : !model.preprocess && levels.given() && purpose_of(model).command != "detect") {
    model.preprocess = preprocess.of(model, {}, file);
  }
  if (labels.empty() || !(in_place || model.labels.empty())) return;
  std::vector<std::string> names = read_labels(labels);
  try {
    (void)class_count(model, preprocess.size);
  } catch (const Error&) {  // a detector's, or of pixels
    model.labels = std::move(names);
    return;
  }
  set_labels(model, std::move(names), labels, preprocess.size);
}

void SaidOfModels::add_to(CLI::App& command) {
  CLI::App form;
  SaidOfModel said;
  said.add_to(form);
  for (const CLI::Option* option : form.get_options()) {
    const std::string name = option->get_name();
    if (name == "--help") continue;
    const auto take = [this, name](const std::vector<std::string>& words) { words_[name] = words; };
    if (option->get_expected_max() == 0) {
      command.add_flag_callback(
          name, [take] { take({"true"}); }, option->get_description());
    } else {
      command.add_option_function<std::vector<std::string>>(name, take, option->get_description())
          ->type_name("[MODEL=]" + option->get_type_name())
          ->allow_extra_args(false);
    }
  }
}

SaidOfModel SaidOfModels::of(const std::string& model) const {
  SaidOfModel said;
  CLI::App form;
  said.add_to(form);
  std::vector<std::string> arguments;  // the last one first, as parse() wants them
  for (const auto& option : words_) {
    const std::vector<std::string>& words = option.second;
    auto word = std::find_if(words.rbegin(), words.rend(), [&](const auto& each) { return model_in(each) == model; });
    const bool own = word != words.rend();
    if (!own)
      word = std::find_if(words.rbegin(), words.rend(), [](const auto& each) { return model_in(each).empty(); });
    if (word == words.rend()) continue;
    said.by_name = said.by_name || own;
    arguments.insert(arguments.begin(), option.first + '=' + word->substr(own ? model.size() + 1 : 0));
  }
  form.parse(std::move(arguments));
  return said;
}

void SaidOfModels::require(const std::vector<std::string>& models) const {
  for (const auto& [option, words] : words_) {
    for (const std::string& word : words) {
      const std::string name = model_in(word);
      if (name.empty() || std::ranges::count(models, name) > 0) continue;
      throw CLI::ValidationError(
          option, fmt::format("there is no model \"{}\" among those served: {}", name, fmt::join(models, ", ")));
    }
  }
  for (const std::string& model : models) (void)of(model);
}

}  // namespace lamina::app
