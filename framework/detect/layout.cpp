#include "lamina/detect/parts.h"

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/base/names.h"
#include "lamina/graph/notes.h"

namespace lamina::detail {
namespace {

constexpr std::array<std::string_view, 4> tasks = {"detect", "segment", "pose", "obb"};

constexpr std::array<Layout, 5> layouts = {{
    // YOLOv5u, v8, v9, 11, 12, and 10 and 26 with their one-to-many heads: [N, 4 + classes + extras, boxes]
    {.name = "raw", .columns = true, .nms = true},
    // YOLOv5's own repository: [N, boxes, 5 + classes]
    {.name = "objectness", .objectness = true, .nms = true},
    // YOLOv10 and 26: [N, 300, 6 + extras]
    {.name = "end2end", .corners = true, .best = true},
    // RT-DETR: [N, 300, 6], before 2026 [N, 300, 4 + classes]
    {.name = "queries", .stretched = true, .best = true},
    {.name = "queries_by_class", .stretched = true},
}};

/// What is noted under a key; nothing noted is a T{}. Throws Error where it is no T.
template <class T>
T noted(const Model& model, const std::string& key) try {
  const std::string text = note(model, key);
  return text.empty() ? T{} : parse_json<nlohmann::json>(json_of_python(text), "metadata: " + key).get<T>();
} catch (const nlohmann::json::exception&) {
  fail("metadata: ", key, " is not as exporters write it: ", quote(note(model, key)));
}

}  // namespace

ExportNotes::ExportNotes(const Model& model) {
  task = note(model, "task"), head = note(model, "head"), layout = note(model, "layout");
  if (head.empty() && note(model, "description").find("rtdetr") != std::string::npos) head = "rtdetr";
  names = model.labels;
  if (const std::string text = note(model, "names"); names.empty() && !text.empty())
    names = names_in(text, "metadata: names");
  imgsz = noted<std::array<int, 2>>(model, "imgsz");
  kpt_shape = noted<std::array<int, 2>>(model, "kpt_shape");
  nms = noted<std::map<std::string, nlohmann::json>>(model, "args")["nms"] == true;
}

Head::Head(const ExportNotes& notes, const Shape& input, std::span<const Shape> outputs) {
  const auto refuse = [&](auto&&... why) {
    std::string text;
    for (const Shape& shape : outputs) text += (text.empty() ? "" : ", ") + shape.to_string();
    fail("expected outputs of a detector, [N, 4 + classes, boxes] or [N, boxes, 6], got ", text, why...);
  };
  if (!notes.task.empty() && std::ranges::find(tasks, notes.task) == tasks.end()) {
    fail("the model's task is ", quote(notes.task), ", not detect, segment, pose or obb",
         notes.task == "classify" ? ": lamina::class_scores is for it" : "");
  }
  if (notes.nms) fail("the export has its NMS inside: export it without nms=True, Lamina does it itself");
  const std::size_t rank = outputs.empty() ? 0 : outputs[0].rank();
  if (rank == 2) refuse(": scores of a classifier, which lamina::class_scores is for");
  if (rank == 4) refuse(": maps, as of a network for lamina segment");
  if (rank != 3 || std::ranges::any_of(outputs, [](const Shape& shape) { return shape.numel() == 0; })) refuse();
  const bool prototypes = outputs.size() > 1 && outputs[1].rank() == 4;
  task = !notes.task.empty() ? notes.task : prototypes ? "segment" : "detect";
  if (prototypes != (task == "segment")) refuse(" for the task ", task);
  extras = task == "segment" ? outputs[1][1] : task == "obb" ? 1 : 0;
  if (prototypes) {
    mask_height = static_cast<int>(std::min(outputs[1][2], input[2]));
    mask_width = static_cast<int>(std::min(outputs[1][3], input[3]));
    if (mask_height != outputs[1][2] || mask_width != outputs[1][3] ||
        mask_height * input[3] != mask_width * input[2]) {
      refuse(": masks not of the proportions of the input ", input);
    }
  }
  if (task == "pose") {
    const auto [count, each] = notes.kpt_shape == std::array{0, 0} ? std::array{17, 3} : notes.kpt_shape;  // COCO's
    if (count < 1 || each < 2 || each > 3) fail("expected points of 2 or 3 values, got [", count, ", ", each, "]");
    points = count, point_values = each, extras = points * point_values;
  }
  const std::int64_t rows = outputs[0][1], columns = outputs[0][2];
  const auto named = static_cast<std::int64_t>(notes.names.size());
  const auto fits = [&](const Layout& row) {
    if (!notes.layout.empty()) return row.name == notes.layout;
    const bool detr = notes.head == "RTDETRDecoder" || notes.head == "rtdetr";
    if (detr != row.stretched) return false;
    const std::int64_t given = row.columns ? rows : columns, known = row.fixed() + extras;
    if (row.best) return given == known;
    if (row.objectness && (!notes.task.empty() || rows <= 1000)) return false;  // its exporter names no task
    if (named > 0 && given == known + named) return true;
    return given > known && (row.columns ? columns > rows : rows > columns);
  };
  const auto row = std::ranges::find_if(layouts, fits);
  if (row == layouts.end()) refuse(" for the task ", task, notes.layout.empty() ? "" : " as " + notes.layout);
  layout = *row;
  boxes = layout.columns ? columns : rows, values = layout.columns ? rows : columns;
  const std::int64_t classes = values - layout.fixed() - extras;
  if (classes < (layout.best ? 0 : 1)) refuse(" for the layout ", layout.name);
  // Of three grids of cells, one box for each and not three.
  const std::int64_t cells = input[2] * input[3] * 21 / 1024;
  if (layout.objectness && boxes == cells) refuse(": YOLOX's, which wants other pixels in another place");
  if (!layout.best && named > 0 && named != classes) {
    fail("the model names ", named, " classes, its output ", outputs[0].to_string(), " has scores of ", classes);
  }
}

}  // namespace lamina::detail
