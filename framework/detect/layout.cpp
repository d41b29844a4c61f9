#include "lamina/detect/parts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <tuple>

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/base/names.h"

namespace lamina::detail {
namespace {

constexpr std::array<std::string_view, 4> tasks = {"detect", "segment", "pose", "obb"};  // in the order of Task

constexpr std::array<Layout, 5> layouts = {{
    // YOLOv5u, v8, v9, 11, 12, and 10 and 26 with their one-to-many heads: [N, 4 + classes + extras, boxes]
    {.name = "raw", .columns = true, .nms = true},
    // YOLOv5's own repository: [N, boxes, 5 + classes]
    {.name = "objectness", .objectness = true, .nms = true},
    // YOLOv10 and 26: [N, 300, 6 + extras]
    {.name = "end2end", .corners = true, .best = true},
    // RT-DETR: [N, 300, 6], before 2026 [N, 300, 4 + classes]
    {.name = "queries", .relative = true, .best = true, .stretched = true},
    {.name = "queries_by_class", .relative = true, .stretched = true},
}};

/// A Python literal such as {0: 'person', 1: "it's"}, as exporters write it, as JSON text: numbers that are keys become
/// texts. What is no such literal becomes text that is no JSON either.
std::string json_of_python(std::string_view literal) {
  constexpr std::string_view marks = "{}[](),: '\"";
  std::string json;
  for (std::size_t i = 0; i < literal.size();) {
    const char c = literal[i];
    if (c == '\'' || c == '"') {
      std::string text;
      for (++i; i < literal.size() && literal[i] != c; ++i) {
        if (literal[i] == '\\' && i + 1 < literal.size()) ++i;
        text += literal[i];
      }
      ++i;
      json += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    } else if (marks.find(c) != marks.npos) {
      json += c == '(' ? '[' : c == ')' ? ']' : c;
      ++i;
    } else {
      const std::size_t end = std::min(literal.find_first_of(marks, i), literal.size());
      const std::string word(literal.substr(i, end - i));
      const bool key = end < literal.size() && literal[end] == ':';
      json += word == "True" ? "true" : word == "False" ? "false" : word == "None" ? "null" : key ? quote(word) : word;
      i = end;
    }
  }
  return json;
}

/// What is noted under a key; nothing noted is a T{}. Throws Error where it is no T.
template <class T>
T noted(const Model& model, const std::string& key) {
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return {};
  try {
    return parse_json<nlohmann::json>(json_of_python(found->second), "metadata: " + key).get<T>();
  } catch (const nlohmann::json::exception&) {
    fail("metadata: ", key, " is not as exporters write it: ", quote(found->second));
  }
}

std::pair<int, int> two_extents(const Model& model, const std::string& key) {
  const auto both = noted<std::pair<int, int>>(model, key);
  if (std::min(both.first, both.second) >= 0 && std::max(both.first, both.second) <= 10000) return both;
  fail("metadata: expected ", key, " of two numbers up to 10000, got ", quote(model.metadata.at(key)));
}

/// By number, of {0: 'a', 2: 'c'} or ['a', 'b', 'c'].
std::vector<std::string> names_of(const Model& model) {
  if (noted<nlohmann::json>(model, "names").is_array()) return noted<std::vector<std::string>>(model, "names");
  auto left = noted<std::map<std::string, std::string>>(model, "names");
  std::vector<std::string> names;
  constexpr std::size_t most = 1 << 16;
  while (!left.empty() && names.size() < most) {
    const auto node = left.extract(std::to_string(names.size()));
    names.push_back(node.empty() ? "" : node.mapped());
  }
  if (!left.empty()) fail("metadata: expected names of classes by number, got ", quote(left.begin()->first));
  return names;
}

}  // namespace

std::string_view name(Task task) { return tasks[static_cast<std::size_t>(task)]; }

ExportNotes::ExportNotes(const Model& model) {
  const auto text = [&](const char* key) {
    const auto found = model.metadata.find(key);
    return found == model.metadata.end() ? std::string() : found->second;
  };
  task = text("task"), head = text("head"), layout = text("layout");
  if (head.empty() && text("description").find("rtdetr") != std::string::npos) head = "rtdetr";
  names = model.labels.empty() ? names_of(model) : model.labels;
  std::tie(height, width) = two_extents(model, "imgsz");
  std::tie(points, point_values) = two_extents(model, "kpt_shape");
  nms = noted<std::map<std::string, nlohmann::json>>(model, "args")["nms"] == true;
}

Head::Head(const ExportNotes& notes, std::span<const Shape> outputs) {
  const auto refuse = [&](auto&&... why) {
    std::string text;
    for (const Shape& shape : outputs) text += (text.empty() ? "" : ", ") + shape.to_string();
    fail("expected outputs of a detector, [N, 4 + classes, boxes] or [N, boxes, 6], got ", text, why...);
  };
  const auto found = std::ranges::find(tasks, notes.task);
  if (!notes.task.empty() && found == tasks.end()) {
    fail("the model's task is ", quote(notes.task), ", not detect, segment, pose or obb",
         notes.task == "classify" ? ": lamina classify runs it" : "");
  }
  if (notes.nms) fail("the export has its NMS inside: export it without nms=True, Lamina does it itself");
  const std::size_t rank = outputs.empty() ? 0 : outputs[0].rank();
  if (rank == 2) refuse(": scores of a classifier, which lamina classify runs");
  if (rank == 4) refuse(": maps, as of a network for lamina segment");
  if (rank != 3 || std::ranges::any_of(outputs, [](const Shape& shape) { return shape.numel() == 0; })) refuse();
  const bool prototypes = outputs.size() > 1 && outputs[1].rank() == 4;
  task = !notes.task.empty() ? static_cast<Task>(found - tasks.begin()) : prototypes ? Task::segment : Task::detect;
  if (prototypes != (task == Task::segment)) refuse(" for the task ", name(task));
  if (task == Task::segment) extras = outputs[1][1];
  if (task == Task::obb) extras = 1;
  if (task == Task::pose) {
    points = notes.points, point_values = notes.point_values;
    if (points == 0) points = 17, point_values = 3;  // COCO's
    if (point_values < 2 || point_values > 3) fail("expected 2 or 3 values of each point, got ", point_values);
    extras = points * point_values;
  }
  const std::int64_t rows = outputs[0][1], columns = outputs[0][2];
  const auto named = static_cast<std::int64_t>(notes.names.size());
  const auto fits = [&](const Layout& row) {
    if (!notes.layout.empty()) return row.name == notes.layout;
    const bool detr = notes.head == "RTDETRDecoder" || notes.head == "rtdetr";
    if (detr != row.relative) return false;
    const std::int64_t given = row.columns ? rows : columns, known = row.fixed() + extras;
    if (row.best) return given == known;
    if (row.objectness && (!notes.task.empty() || rows <= 1000)) return false;  // its exporter names no task
    if (named > 0 && given == known + named) return true;
    return given > known && (row.columns ? columns > rows : rows > columns);
  };
  const auto row = std::ranges::find_if(layouts, fits);
  if (row == layouts.end() && !notes.layout.empty()) {
    fail("metadata: expected a layout such as ", layouts[0].name, ", got ", quote(notes.layout));
  }
  if (row == layouts.end()) refuse(" for the task ", name(task));
  layout = *row;
  boxes = layout.columns ? columns : rows, values = layout.columns ? rows : columns;
  classes = layout.best ? 0 : values - layout.fixed() - extras;
  if (values < layout.fixed() + extras || (!layout.best && classes < 1)) refuse(" for the layout ", layout.name);
  if (!layout.best && named > 0 && named != classes) {
    fail("the model names ", named, " classes, its output ", outputs[0].to_string(), " has scores of ", classes);
  }
}

}  // namespace lamina::detail
