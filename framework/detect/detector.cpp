#include "lamina/detect/detector.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>

#include "lamina/base/error.h"
#include "lamina/detect/parts.h"
#include "lamina/graph/photographs.h"

namespace lamina {
namespace {

using detail::fail;

constexpr int usual_size = 640;
constexpr std::size_t capacity = 30000;  // candidates that are compared with each other

/// The shape of the one input [N, 3, H, W] or [3, H, W], with numbers for what is left open.
Shape shape_of_input(const Graph& graph, const detail::ExportNotes& notes, const DetectorOptions& options) {
  notes.require_without_nms();
  if (graph.inputs().size() != 1) {
    fail("expected a model with one input [N, 3, H, W] or [3, H, W], it has ", graph.inputs().size());
  }
  const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])];
  Shape shape = *node.shape;
  const auto given = options.compile.input_shapes.find(node.name);
  if (given != options.compile.input_shapes.end()) shape = given->second;
  const auto side = [&](int noted) { return options.size > 0 ? options.size : noted > 0 ? noted : usual_size; };
  const Shape usual = {1, 3, side(notes.imgsz[0]), side(notes.imgsz[1])}, declared = shape;
  const int rank = static_cast<int>(shape.rank());
  for (int i = 0; i < rank && rank <= 4; ++i) {
    if (shape[i] < 0) shape.set(i, usual[4 - rank + i]);
  }
  const auto form = picture_input(shape);
  if (!form || form->channels_last || form->channels != 3 || form->height > 10000 || form->width > 10000 ||
      node.dtype != DType::f32) {
    fail("expected a model with one input f32 [N, 3, H, W] or [3, H, W] for photographs, ", node.name, " is ",
         lamina::name(node.dtype), ' ', declared.to_string());
  }
  const bool settled = declared[rank - 2] >= 0 && declared[rank - 1] >= 0;
  if (options.size > 0 && settled && (form->height != options.size || form->width != options.size))
    fail("the model's input ", declared, " is of one size, and not of ", options.size, " pixels a side");
  return shape;
}

/// The graph with an input of that shape.
Graph with_input(const Graph& graph, const Shape& input) {
  Graph result;
  for (const Graph::Node& node : graph.nodes()) {
    std::vector<Value> inputs;
    for (const int i : node.inputs) inputs.push_back({i});
    node.module == nullptr ? result.input(node.name, input) : result.add(node.name, node.module, inputs);
  }
  return result;
}

bool computes(const Graph& graph, Shape input, int height, int width) try {
  input.set(2, height), input.set(3, width);
  (void)with_input(graph, input).shapes(input[0]);
  return true;
} catch (const Error&) {
  return false;
}

/// Networks that halve the sides again and again join maps that do not fit where these are no multiples of that. Of a
/// graph that does not compute: throws Error that says of what, if it does with the multiples around.
void require_multiple(const Graph& graph, const Shape& input) {
  const auto height = static_cast<int>(input[2]), width = static_cast<int>(input[3]);
  if (computes(graph, input, height, width)) return;
  for (const int step : {2, 4, 8, 16, 32, 64, 128}) {
    const auto below = [&](int side) { return std::max(side / step, 1) * step; };
    const auto above = [&](int side) { return (side + step - 1) / step * step; };
    if (!computes(graph, input, below(height), below(width)) || !computes(graph, input, above(height), above(width)))
      continue;
    const int wrong = height % step == 0 ? width : height;
    fail("size: expected a multiple of ", step, ", such as ", below(wrong), " or ", above(wrong), ", got ", wrong);
  }
}

void validate(const DetectOptions& options, std::size_t classes) {
  for (const auto& [name, value] : {std::pair("confidence", options.confidence), {"iou", options.iou}}) {
    if (!(value >= 0 && value <= 1)) fail("detect: expected ", name, " from 0 to 1, got ", value);
  }
  if (options.most < 1) fail("detect: expected room for 1 thing or more, got ", options.most);
  for (const int label : options.classes) {
    if (classes > 0 && static_cast<std::size_t>(label) >= classes)
      fail("classes: the model's are 0 to ", classes - 1, ", got ", label);
    if (label < 0) fail("classes: expected numbers of 0 and more, got ", label);
  }
}

}  // namespace

std::vector<float> TurnedBox::corners() const {
  const float cos = std::cos(angle), sin = std::sin(angle);
  const float ax = width / 2 * cos, ay = width / 2 * sin, bx = -height / 2 * sin, by = height / 2 * cos;
  return {x + ax + bx, y + ay + by, x + ax - bx, y + ay - by, x - ax - bx, y - ay - by, x - ax + bx, y - ay + by};
}

struct Detector::Impl {
  /// A plan and where its photographs are drawn, in memory that a GPU copies from. One call at a time has it.
  struct Place {
    Plan plan;
    Tensor photos;
    std::mutex mutex = {};
  };

  detail::ExportNotes notes;
  Shape input;
  ThreadPool threads;   // of what is before and behind the network: few, as they have to wake up for little work
  ThreadPool alone{1};  // for what is less than to wake them
  std::optional<detail::Head> head;
  std::vector<std::unique_ptr<Place>> places;
  std::atomic<std::size_t> next = 0;

  Impl(const Model& model, const DetectorOptions& options)
      : notes(model),
        threads(std::min(8, options.compile.threads > 0 ? options.compile.threads : ThreadPool::default_threads())) {
    CompileOptions compile = options.compile;
    compile.input_shapes.clear();  // settled
    compile.photos = model.preprocess.value_or(letterbox(usual_size));
    const Shape shape = shape_of_input(model.graph, notes, options);
    Graph graph;
    const detail::Resolved network = [&] {
      try {
        graph = with_input(model.graph, shape);
        for (const int node : model.graph.outputs()) graph.output({node});
        take_photographs(graph);
        input = *graph.nodes()[static_cast<std::size_t>(graph.inputs()[0])].shape;
        return detail::resolve(graph, {.batch = input[0]});
      } catch (const Error&) {
        if (shape.rank() == 4) require_multiple(model.graph, shape);
        throw;
      }
    }();
    const std::vector<int> outputs = graph.outputs();
    head.emplace(notes, network);
    if (notes.names.empty()) notes.names = usual_names(graph, network, *head);
    for (std::int64_t i = std::ssize(notes.names); i < head->class_count; ++i)
      notes.names.push_back("class " + std::to_string(i));
    head->choose_best(graph, outputs);
    const std::vector<std::string> names = graph.output_names();
    compile.outputs.assign(names.begin() + std::ssize(outputs), names.end());
    const Shape photos = {input[0], input[2], input[3], 3};
    for (const Device device : options.devices.empty() ? std::vector{compile.device} : options.devices) {
      compile.device = device;
      // Two on a GPU: one's photograph is drawn, or its masks are, while the other's network runs.
      for (int i = 0; i < (device.is_cuda() ? 2 : 1); ++i) {
        places.emplace_back(new Place{graph.compile(compile), device.is_cuda() ? Tensor::pinned(photos, DType::u8)
                                                                               : Tensor::zeros(photos, DType::u8)});
      }
    }
  }

  /// All that is to know of a box that stays.
  Detection detection(const detail::Answers& answers, const detail::Candidate& c, const detail::Letterbox& way) const {
    Detection thing{.label = c.label, .score = c.score, .box = {}, .turned = {}, .points = {}, .mask = {}};
    thing.box = {way.x.held(c.a), way.y.held(c.b), way.x.held(c.c), way.y.held(c.d)};
    if (head->task == "obb") {
      thing.turned = {way.x.back(c.a), way.y.back(c.b), c.c / way.x.gain, c.d / way.y.gain, c.angle};
      const std::vector<float> p = thing.turned->corners();
      thing.box = {std::min({p[0], p[2], p[4], p[6]}), std::min({p[1], p[3], p[5], p[7]}),
                   std::max({p[0], p[2], p[4], p[6]}), std::max({p[1], p[3], p[5], p[7]})};
    }
    for (std::int64_t at = 0; at < head->points * head->point_values; at += head->point_values) {
      const auto value = [&](std::int64_t i) { return head->extra(answers, c.index, at + i); };
      thing.points.push_back({way.x.held(value(0)), way.y.held(value(1)), head->point_values > 2 ? value(2) : 1});
    }
    return thing;
  }
};

Detector::Detector(const Model& model, const DetectorOptions& options)
    : impl_(std::make_shared<Impl>(model, options)) {}

Detections Detector::detect(const ImageView& photo, const DetectOptions& options) const {
  validate(options, names().size());
  detail::require_consistent(photo);
  const detail::Head& head = *impl_->head;
  const detail::Letterbox way(photo.width, photo.height, static_cast<int>(impl_->input[3]),
                              static_cast<int>(impl_->input[2]), head.layout.stretched, !head.layout.objectness);
  auto& [plan, photos, mutex] = *impl_->places[impl_->next++ % impl_->places.size()];
  const std::scoped_lock turn(mutex);
  way.draw(photo, photos.slice(0, 1).values<std::uint8_t>(), impl_->threads);  // the first of a batch
  const auto start = std::chrono::steady_clock::now();
  const detail::Answers answers(head, plan.run({&photos, 1}, nullptr, {.stop = options.stop}));
  Detections result;
  result.network_ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  result.device = plan.options().device;
  std::vector<detail::Candidate> candidates = candidates_of(head, answers, options, way);
  std::ranges::stable_sort(candidates, std::ranges::greater(), &detail::Candidate::score);
  result.candidates = std::ssize(candidates);
  candidates.resize(std::min(candidates.size(), head.layout.nms ? capacity : static_cast<std::size_t>(options.most)));
  if (head.layout.nms) {
    result.left_out = result.candidates - std::ssize(candidates);
    candidates = suppressed(candidates, options, head.task == "obb");
  }
  result.found.resize(candidates.size());
  const bool masks = head.task == "segment" && options.masks;
  std::atomic<std::int64_t> runs = detail::most_runs;
  ThreadPool& threads = masks ? impl_->threads : impl_->alone;
  threads.parallel_for(std::ssize(candidates), [&](std::int64_t at, int) {
    const auto i = static_cast<std::size_t>(at);
    result.found[i] = impl_->detection(answers, candidates[i], way);
    if (!masks) return;
    std::vector<float> shares;
    for (std::int64_t k = 0; k < head.extras; ++k) shares.push_back(head.extra(answers, candidates[i].index, k));
    if (head.layout.apart) shares.resize(static_cast<std::size_t>(candidates[i].index)), shares.push_back(1);
    result.found[i].mask = mask_of(head, answers, shares, result.found[i].box, way, options, runs);
  });
  // What has no pixel, one run of zeros, the original leaves out too.
  std::erase_if(result.found, [](const Detection& thing) { return thing.mask && thing.mask->runs.size() == 1; });
  return result;
}

std::string Detector::name(int label) const {
  const auto at = static_cast<std::size_t>(label);
  const bool known = at < impl_->notes.names.size() && !impl_->notes.names[at].empty();
  return known ? impl_->notes.names[at] : "class " + std::to_string(label);
}

const std::vector<std::string>& Detector::names() const { return impl_->notes.names; }

std::string Detector::task() const { return impl_->head->task; }

Shape Detector::input_shape() const { return impl_->input; }

}  // namespace lamina
