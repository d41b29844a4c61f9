#include "lamina/detect/parts.h"

#include "lamina/base/error.h"
#include "lamina/base/json.h"
#include "lamina/base/names.h"
#include "lamina/graph/notes.h"

namespace lamina::detail {
namespace {

constexpr std::array<std::string_view, 4> tasks = {"detect", "segment", "pose", "obb"};

constexpr std::array<Layout, 6> layouts = {{
    // YOLOv5u, v8, v9, 11, 12, and 10 and 26 with their one-to-many heads: [N, 4 + classes + extras, boxes]
    {.name = "raw", .columns = true, .nms = true},
    // YOLOv5's own repository: [N, boxes, 5 + classes]
    {.name = "objectness", .objectness = true, .nms = true},
    // YOLOv10 and 26: [N, 300, 6 + extras]
    {.name = "end2end", .corners = true, .best = true},
    // RT-DETR: [N, 300, 6], before 2026 [N, 300, 4 + classes]
    {.name = "queries", .stretched = true, .best = true},
    {.name = "queries_by_class", .stretched = true},
    // torchvision's: [boxes, 4], [boxes] and [boxes]
    {.name = "apart", .corners = true, .apart = true},
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

void ExportNotes::require_without_nms() const {
  if (nms) fail("the export has its NMS inside: export it without nms=True, Lamina does it itself");
}

Head::Head(const ExportNotes& notes, const Resolved& network) {
  const Shape& input = network.network[network.inputs[0]].shape;
  std::vector<Shape> outputs;
  for (std::size_t i = 0; i < network.output_counts.size(); ++i) {
    outputs.push_back(network.network[network.outputs[i]].shape);
  }
  const auto refuse = [&](auto&&... why) {
    std::string text;
    for (const Shape& shape : outputs) text += (text.empty() ? "" : ", ") + shape.to_string();
    fail(
        "expected outputs of a detector, [N, 4 + classes, boxes], [N, boxes, 6], or [boxes, 4], [boxes] and [boxes], "
        "got ",
        text, why...);
  };
  if (!notes.task.empty() && std::ranges::find(tasks, notes.task) == tasks.end()) {
    fail("the model's task is ", quote(notes.task), ", not detect, segment, pose or obb",
         notes.task == "classify" ? ": lamina::class_scores is for it" : "");
  }
  notes.require_without_nms();
  // The first output of that rank, [.., 4] or whatever is last in it.
  const auto find = [&](bool floats, std::size_t rank, std::initializer_list<std::int64_t> last) {
    int found = 0;
    for (const Shape& shape : outputs) {
      const DType dtype = network.network[network.outputs[static_cast<std::size_t>(found)]].dtype;
      const bool fits = shape.rank() == rank && is_float(dtype) == floats;
      if (fits && std::ranges::equal(shape.extents().last(last.size()), last)) return found;
      ++found;
    }
    return -1;
  };
  apart = {find(true, 2, {4}), find(true, 1, {}), find(false, 1, {}), find(true, 3, {3}),
           find(true, 4, {1, input[-2], input[-1]})};
  if (std::ranges::min(std::span(apart).first(3)) >= 0 &&
      (notes.layout.empty() || notes.layout == layouts.back().name)) {
    const auto of = [&](int i) { return outputs[static_cast<std::size_t>(apart[static_cast<std::size_t>(i)])]; };
    layout = layouts.back(), boxes = of(0)[0];
    for (int i = 1; i < 5; ++i) {
      if (apart[static_cast<std::size_t>(i)] >= 0 && of(i)[0] != boxes) refuse(": not as many of each");
    }
    task = apart[4] >= 0 ? "segment" : apart[3] >= 0 ? "pose" : "detect";
    if (!notes.task.empty() && notes.task != task) refuse(" for the task ", notes.task);
    if (task == "pose") points = of(3)[1], point_values = of(3)[2], extras = points * point_values;
    if (task == "segment") mask_height = static_cast<int>(input[-2]), mask_width = static_cast<int>(input[-1]);
    values = 5 + extras;
    return;
  }
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
    if (row.apart) return false;
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
  class_count = values - layout.fixed() - extras;
  if (class_count < (layout.best ? 0 : 1)) refuse(" for the layout ", layout.name);
  // Of three grids of cells, one box for each and not three.
  const std::int64_t cells = input[2] * input[3] * 21 / 1024;
  if (layout.objectness && boxes == cells) refuse(": YOLOX's, which wants other pixels in another place");
  if (!layout.best && named > 0 && named != class_count) {
    fail("the model names ", named, " classes, its output ", outputs[0].to_string(), " has scores of ", class_count);
  }
}

std::vector<std::string> usual_names(const Graph& graph, const Resolved& network, const Head& head) {
  constexpr std::string_view coco =
      "__background__,person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,N/A,"
      "stop sign,parking meter,bench,bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,N/A,backpack,umbrella,"
      "N/A,N/A,handbag,tie,suitcase,frisbee,skis,snowboard,sports ball,kite,baseball bat,baseball glove,skateboard,"
      "surfboard,tennis racket,bottle,N/A,wine glass,cup,fork,knife,spoon,bowl,banana,apple,sandwich,orange,broccoli,"
      "carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,N/A,dining table,N/A,N/A,toilet,N/A,tv,laptop,"
      "mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,refrigerator,N/A,book,clock,vase,scissors,"
      "teddy bear,hair drier,toothbrush";
  if (!head.layout.apart) return {};
  // From the scores back to the nearest function that makes some: it says of how many classes.
  std::vector<int> pending = {graph.outputs()[static_cast<std::size_t>(head.apart[1])]};
  std::vector<bool> seen(graph.nodes().size(), false);
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const auto at = static_cast<std::size_t>(pending[i]);
    const Graph::Node& node = graph.nodes()[at];
    const bool scores = node.module != nullptr && (node.module->op() == "Softmax" || node.module->op() == "Sigmoid");
    const Shape shape = network.node[at] < 0 ? Shape() : network.network[network.node[at]].shape;
    if (scores && shape.rank() > 1 && shape[-1] > 1) {
      std::vector<std::string> names;
      for (std::size_t begin = 0, end = 0; end != coco.npos; begin = end + 1) {
        end = coco.find(',', begin);
        names.emplace_back(coco.substr(begin, end - begin));
      }
      return shape[-1] == std::ssize(names) ? names : std::vector<std::string>();
    }
    for (const int input : node.inputs) {
      if (input < 0 || seen[static_cast<std::size_t>(input)]) continue;
      seen[static_cast<std::size_t>(input)] = true;
      pending.push_back(input);
    }
  }
  return {};
}

}  // namespace lamina::detail
