#include "lamina/graph/notes.h"

#include <algorithm>
#include <sstream>

#include "lamina/base/json.h"
#include "lamina/graph/photographs.h"

namespace lamina::detail {
namespace {

using Note = nlohmann::json;

constexpr std::string_view odd = " is not as exporters write it: ";

/// Numbers that are noted under a key, in turn; whether there are.
bool take(const Model& model, const char* key, Rgb& numbers) {
  const std::string text = note(model, key);
  if (text.empty()) return false;
  try {
    const Note json = parse_json<Note>(json_of_python(text), key), list = json.is_array() ? json : Note::array({json});
    for (std::size_t i = 0; i < numbers.size() && !list.empty(); ++i) numbers[i] = list[i % list.size()].get<float>();
  } catch (const std::exception&) {
    fail(key, odd, quote(text));
  }
  return true;
}

void take_levels(Model& model) {
  Preprocess found{.resize = 0, .crop = 0};
  Rgb scale{}, size{};
  const bool said[] = {take(model, "mean", found.mean), take(model, "std", found.std), take(model, "scale", scale)};
  const bool ultralytics = note(model, "task") == "classify";  // whose classifiers have neither
  if (!ultralytics && std::ranges::find(said, true) == std::end(said)) return;
  if (scale[0] != 0) found.divisor = 1 / scale[0];
  if (scale[0] == 0 && are_of_levels(found.mean, found.std)) found.divisor = 1;
  if (take(model, "imgsz", size)) found.crop = noted_side(size[0]), found.crop_width = noted_side(size[1]);
  set_noted(model, found);
}

}  // namespace

std::string json_of_python(std::string_view literal) {
  constexpr std::string_view marks = "{}[](),: '\"";
  std::string json;
  for (std::size_t i = 0; i < literal.size(); ++i) {
    const char c = literal[i];
    if (c == '\'' || c == '"') {
      std::string text;
      for (++i; i < literal.size() && literal[i] != c; ++i) {
        if (literal[i] == '\\' && i + 1 < literal.size()) ++i;
        text += literal[i];
      }
      json += Note(text).dump(-1, ' ', false, Note::error_handler_t::replace);
    } else if (marks.find(c) != marks.npos) {
      json += c == '(' ? '[' : c == ')' ? ']' : c;
    } else {
      const std::size_t end = std::min(literal.find_first_of(marks, i), literal.size());
      const std::string word(literal.substr(i, end - i));
      const bool key = end < literal.size() && literal[end] == ':';
      json += word == "True" ? "true" : word == "False" ? "false" : word == "None" ? "null" : key ? quote(word) : word;
      i = end - 1;
    }
  }
  return json;
}

std::string note(const Model& model, std::string_view key) {
  const auto found = model.metadata.find(key);
  return found == model.metadata.end() ? "" : found->second;
}

std::vector<std::string> names_in(const std::string& literal, const std::string& where) try {
  std::vector<std::string> names;
  const std::size_t begin = std::min(literal.find_first_not_of(" \n"), literal.size());
  if (literal.find('\n') != literal.npos &&
      std::string_view("[{").find(literal.c_str()[begin]) == std::string_view::npos) {
    std::istringstream lines(literal);
    for (std::string line; std::getline(lines, line);) names.push_back(line.substr(0, line.find('\r')));
    return names;
  }
  const Note list = parse_json<Note>(json_of_python(literal), where);
  if (list.is_array()) return list.get<std::vector<std::string>>();
  auto left = list.get<std::map<std::string, std::string>>();
  while (!left.empty() && names.size() < 1 << 16) {
    const auto node = left.extract(std::to_string(names.size()));
    names.push_back(node.empty() ? "" : node.mapped());
  }
  if (!left.empty()) fail(where, ": expected names of classes by number, got ", quote(left.begin()->first));
  return names;
} catch (const Note::exception&) {
  fail(where, odd, quote(literal));
}

bool are_of_levels(const Rgb& mean, const Rgb& std) {
  return std::max(std::ranges::max(mean), std::ranges::max(std)) > 1;
}

int noted_side(double side) { return side >= 1 && side <= 10000 ? static_cast<int>(side) : 0; }

void passing_over_oddities(Model& model, const std::function<void()>& read) {
  const auto warn = [&](const std::exception& error) {
    model.warnings.push_back(concat("passed over: ", error.what()));
  };
  try {
    read();
  } catch (const Error& error) {
    warn(error);
  } catch (const Note::exception& error) {
    warn(error);
  }
}

void take_notes(Model& model) {
  for (const char* key : {"names", "labels", "classes"}) {
    if (model.labels.empty() && !note(model, key).empty())
      passing_over_oddities(model, [&] { model.labels = names_in(note(model, key), key); });
  }
  if (!model.preprocess && model.graph.inputs().size() == 1) passing_over_oddities(model, [&] { take_levels(model); });
}

void set_noted(Model& model, Preprocess noted) {
  const auto form = picture_input(*model.graph.nodes()[static_cast<std::size_t>(model.graph.inputs().at(0))].shape);
  if (!form) return;
  const auto side = [&](std::int64_t extent) { return static_cast<int>(extent > 0 ? extent : 224); };
  if (noted.crop == 0) noted.crop = side(form->height), noted.crop_width = side(form->width);
  if (noted.resize < 1) noted.resize = noted.crop;
  const auto fits = [](std::int64_t extent, int pixels) { return extent == open ? pixels > 0 : extent == pixels; };
  if (!fits(form->height, noted.crop) || !fits(form->width, noted.width())) return;
  if (noted.crop_width == noted.crop) noted.crop_width = 0;
  model.preprocess = noted;
}

}  // namespace lamina::detail
