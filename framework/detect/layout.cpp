#include "lamina/detect/layout.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/base/names.h"
#include "lamina/detect/python_literal.h"

namespace lamina::detail {
namespace {

constexpr std::array<std::string_view, 4> tasks = {"detect", "segment", "pose", "obb"};  // in the order of Task

constexpr std::array<Layout, 5> layouts = {{
    // YOLOv5u, v8, v9, 11, 12, and 10 and 26 that were exported with end2end=False: [N, 4 + classes + extras, boxes]
    {.name = "raw", .columns = true, .nms = true},
    // YOLOv5's own repository: [N, boxes, 5 + classes]
    {.name = "objectness", .objectness = true, .nms = true},
    // YOLOv10 and 26: [N, 300, 6 + extras]
    {.name = "end2end", .corners = true, .best = true},
    // RT-DETR: [N, 300, 6], before 2026 [N, 300, 4 + classes]
    {.name = "queries", .relative = true, .best = true, .stretched = true},
    {.name = "queries_by_class", .relative = true, .stretched = true},
}};

nlohmann::json literal(const Model& model, const std::string& key) {
  const auto found = model.metadata.find(key);
  if (found == model.metadata.end()) return nullptr;
  return parse_json<nlohmann::json>(json_of_python(found->second), "metadata: " + key);
}

/// Whole numbers from 1 to 10,000: extents. Throws Error.
std::vector<int> extents(const Model& model, const std::string& key) {
  nlohmann::json list = literal(model, key);
  if (list.is_null()) return {};
  if (list.is_number_integer()) list = {list, list};
  std::vector<int> result;
  for (const nlohmann::json& value : list) {
    if (!value.is_number_integer() || value < 1 || value > 10000) break;
    result.push_back(value.get<int>());
  }
  if (result.size() != 2 || list.size() != 2) {
    fail("metadata: expected ", key, " of two numbers from 1 to 10000, got ", quote(model.metadata.at(key)));
  }
  return result;
}

/// By number, of {0: 'a', 2: 'c'} or ['a', 'b', 'c'].
std::vector<std::string> names_of(const Model& model) {
  constexpr std::size_t most = 1 << 16;
  const nlohmann::json json = literal(model, "names");
  std::vector<std::string> names;
  for (const auto& [key, value] : json.items()) {
    std::size_t index = names.size();
    if (json.is_object()) {
      const bool number = !key.empty() && key.size() < 6 && key.find_first_not_of("0123456789") == key.npos;
      index = number ? std::stoul(key) : most;
    }
    if (!value.is_string() || index >= most) fail("metadata: expected names of classes by number, got ", key);
    if (index >= names.size()) names.resize(index + 1);
    names[index] = value.get<std::string>();
  }
  return names;
}

std::string shapes_text(std::span<const Shape> outputs) {
  std::string text;
  for (const Shape& shape : outputs) text += (text.empty() ? "" : ", ") + shape.to_string();
  return text;
}

/// What a model that is no detector looks like.
std::string what_it_is(std::span<const Shape> outputs) {
  if (outputs.size() != 1) return "";
  if (outputs[0].rank() == 2) return ": scores of a classifier, which lamina classify runs";
  if (outputs[0].rank() == 4) return ": maps, as of a network for lamina segment";
  return "";
}

}  // namespace

std::span<const std::string_view> task_names() { return tasks; }

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const Layout& layout : layouts) names.emplace_back(layout.name);
  return names;
}

ExportNotes::ExportNotes(const Model& model) {
  const auto text = [&](const char* key) {
    const auto found = model.metadata.find(key);
    return found == model.metadata.end() ? std::string() : found->second;
  };
  task = text("task"), head = text("head"), layout = text("layout");
  if (head.empty() && text("description").find("rtdetr") != std::string::npos) head = "rtdetr";
  names = model.labels.empty() ? names_of(model) : model.labels;
  if (const std::vector<int> size = extents(model, "imgsz"); !size.empty()) height = size[0], width = size[1];
  if (const std::vector<int> shape = extents(model, "kpt_shape"); !shape.empty()) {
    points = shape[0], point_values = shape[1];
  }
  const nlohmann::json arguments = literal(model, "args");
  if (arguments.is_object() && arguments.contains("nms")) nms = arguments["nms"] == true;
}

Head::Head(const ExportNotes& notes, std::span<const Shape> outputs) {
  const auto refuse = [&](auto&&... why) {
    fail("expected outputs of a detector, [N, 4 + classes, boxes] or [N, boxes, 6], got ", shapes_text(outputs),
         why...);
  };
  const auto found = std::ranges::find(tasks, notes.task);
  if (!notes.task.empty() && found == tasks.end()) {
    fail("the model's task is ", quote(notes.task), ", not detect, segment, pose or obb",
         notes.task == "classify" ? ": lamina classify runs it" : "");
  }
  if (notes.nms) {
    fail("the export has its NMS inside (nms=True): export it without, Lamina does it as --iou and --confidence say");
  }
  const bool prototypes = outputs.size() == 2 && outputs[1].rank() == 4;
  if (outputs.empty() || outputs[0].rank() != 3 || (outputs.size() > 1 && !prototypes)) refuse(what_it_is(outputs));
  task = !notes.task.empty() ? static_cast<Task>(found - tasks.begin()) : prototypes ? Task::segment : Task::detect;
  if (prototypes != (task == Task::segment)) refuse(" for the task ", tasks[static_cast<std::size_t>(task)]);
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
    fail("metadata: expected a layout of ", layout_names().front(), ", ..., got ", quote(notes.layout));
  }
  if (row == layouts.end()) refuse(" for the task ", tasks[static_cast<std::size_t>(task)]);
  layout = *row;
  boxes = layout.columns ? columns : rows, values = layout.columns ? rows : columns;
  classes = layout.best ? 0 : values - layout.fixed() - extras;
  if (values < layout.fixed() + extras || (!layout.best && classes < 1)) refuse(" for the layout ", layout.name);
  if (!layout.best && named > 0 && named != classes) {
    fail("the model names ", named, " classes, its output ", outputs[0].to_string(), " has scores of ", classes);
  }
}

}  // namespace lamina::detail
