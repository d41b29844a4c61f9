#include "segmenter.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <future>
#include <numeric>

#include "inputs.h"
#include "known_weights.h"
#include "lamina/base/names.h"
#include "lamina/images/resize.h"
#include "photos/photos.h"
#include "words.h"

namespace lamina::app {
namespace {

constexpr std::int64_t step = 8;          // open extents are multiples of it: networks halve them again and again
constexpr std::int64_t max_aspect = 8;    // a panorama's long side is at most as many usual short ones
constexpr std::int64_t max_batch = 64;    // of a model whose batch is fixed
constexpr std::int64_t max_side = 10000;  // as of Preprocess::crop

constexpr std::array voc_classes = {"background", "aeroplane", "bicycle",   "bird",   "boat",         "bottle",
                                    "bus",        "car",       "cat",       "chair",  "cow",          "dining table",
                                    "dog",        "horse",     "motorbike", "person", "potted plant", "sheep",
                                    "sofa",       "train",     "tv monitor"};
static_assert(voc_classes.size() == 21);

/// The model's one input [N, 3, H, W], with the extents that --input-shape says.
Shape input_shape(const SegmenterOptions& options, const Graph& graph) {
  const std::string& source = options.model.source();
  Shape shape = one_input(graph, {}, source);
  const Graph::Node& node = input_node(graph);
  const auto is = [&](int i, std::int64_t extent) { return shape[i] == extent || shape[i] == open; };
  const auto is_side = [&](int i) { return shape[i] == open || (shape[i] >= 1 && shape[i] <= max_side); };
  const auto is_batch = [&](int i) { return shape[i] == batch || (is_side(i) && shape[i] <= max_batch); };
  const auto fits = [&] { return shape.rank() == 4 && is_batch(0) && is(1, 3) && is_side(2) && is_side(3); };
  if (!fits() || node.dtype != DType::f32) {
    throw Error(fmt::format("{}: expected a model with one input f32 [N, 3, H, W] for photographs, {} is {} {}", source,
                            node.name, name(node.dtype), shape.to_string()));
  }
  const InputShapes given = options.model.shapes(graph);
  if (given.empty()) return shape;
  const Shape declared = std::exchange(shape, one_input(graph, given, source));
  bool agree = fits();
  for (int i = 1; agree && i < 4; ++i) agree = declared[i] == open || declared[i] == shape[i];
  if (!agree) {
    throw Error(fmt::format("--input-shape: expected a shape of photographs for the model's {}, sides up to {}, got {}",
                            declared.to_string(), max_side, shape.to_string()));
  }
  return shape;
}

}  // namespace

/// A photograph as the network sees it.
struct Segmenter::View {
  Image input;
  Seen x, y;
};

Segmenter::Segmenter(const SegmenterOptions& options, Model model)
    : options_(options),
      model_(std::move(model)),
      shape_(input_shape(options, model_.graph)),
      compile_(options.run.compile_options(1)),
      devices_(options.run.devices()),
      threads_(options.run.threads > 0 ? options.run.threads : ThreadPool::default_threads()) {
  threads_ = std::max(1, threads_ / static_cast<int>(at_once()));
  input_ = model_.graph.input_names()[0];
  print_warnings(model_);
  const bool fixed = shape_[2] != open && shape_[3] != open;
  const PreprocessOptions& how = options.model.preprocess;
  if (how.size > 0 && fixed && how.fit.empty()) {
    throw Error(
        fmt::format("--size: the model's input {} is of one size, {}", detail::quote(input_), shape_.to_string()));
  }
  if (options.output.empty()) require_purpose(model_, options.model.source(), "segment");
  if (!options.labels.empty()) model_.labels = read_labels(options.labels);
  if (model_.graph.outputs().empty()) throw Error(options.model.source() + ": the model has no output");
  if (options.output.empty() && model_.labels.empty() && ends_in_features(model_.graph)) {
    throw Error(options.model.source() +
                ": its output is maps of features, no scores [N, classes, h, w]: lamina features "
                "shows them; --output-name names another node");
  }
  if (!options.output.empty()) require_nodes(model_.graph, "--output-name", {options.output});
  const auto& nodes = model_.graph.nodes();
  compile_.outputs = {options.output.empty() ? nodes[static_cast<std::size_t>(model_.graph.outputs()[0])].name
                                             : options.output};
  const bool as_model = how.name.empty() && how.size == 0 && options.model.inputs.shapes.empty();
  if (!how.fit.empty()) {
    square_ = options.model.preprocess_of(model_);
  } else if (as_model) {
    square_ = model_.preprocess;
  }
  compile_.photos = how.levels_over(model_.preprocess.value_or(torchvision_imagenet()));
  if (fixed) (void)pool_for(shape_[2], shape_[3]);  // what is wrong with it is then said once
}

std::shared_ptr<PlanPool> Segmenter::pool_for(std::int64_t height, std::int64_t width) {
  const std::scoped_lock lock(mutex_);
  const std::int64_t n = std::max<std::int64_t>(shape_[0], 1);
  const Shape wanted = {n, height, width, 3};
  if (pool_ && pool_->plan().input_shapes()[0] == wanted) return pool_;
  pool_.reset();  // two would take the memory of both
  compile_.input_shapes[input_] = {n, 3, height, width};
  pool_ = std::make_shared<PlanPool>(model_.graph, compile_, PoolOptions{.devices = devices_, .plans_per_device = 1});
  const Shape& scores = pool_->plan().output_shapes()[0];
  const DType dtype = pool_->plan().output_dtypes()[0];
  if (scores.rank() != 4 || scores[0] != n || scores[1] < 2 || scores[1] > ClassMap::max_classes || scores[2] < 1 ||
      scores[3] < 1 || (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)) {
    throw Error(
        fmt::format("{}: expected scores [N, classes, h, w] of 2 or more classes, {} is {} {}; {}--output-name "
                    "names another node",
                    options_.model.source(), compile_.outputs[0], name(dtype), scores.to_string(),
                    scores_in(scores) > 0 ? "lamina classify is for classes of whole photographs; " : ""));
  }
  name_classes(scores[1]);
  return pool_;
}

void Segmenter::name_classes(std::int64_t classes) {
  const auto count = static_cast<std::size_t>(classes);
  if (model_.labels.empty() && count == voc_classes.size())
    model_.labels.assign(voc_classes.begin(), voc_classes.end());
  if (!model_.labels.empty() && model_.labels.size() != count) {
    throw Error(fmt::format("{}: expected {} labels, one for each class, got {}",
                            options_.labels.empty() ? options_.model.source() : "--labels: " + options_.labels, count,
                            model_.labels.size()));
  }
}

bool Segmenter::has_background() const {
  if (model_.labels.empty()) return false;
  const std::string name = lower(model_.labels[0]);
  return name == "background" || name == "__background__";
}

Segmenter::View Segmenter::view_of(const Image& photo) const {
  const auto is = [&](int i, std::int64_t side) { return shape_[i] == side || shape_[i] == open; };
  if (square_ && is(2, square_->crop) && is(3, square_->width())) {
    const Window seen = window_of(photo.width, photo.height, *square_);
    return {resize_and_crop(photo, *square_), {seen.left, seen.width}, {seen.top, seen.height}};
  }
  // All of it, in its own proportions where the model lets it.
  const double shorter = std::min(photo.width, photo.height), longer = std::max(photo.width, photo.height);
  const int given = options_.model.preprocess.size;
  const double size = given > 0 ? given : SegmenterOptions::usual_size;
  const double scale = std::min(size / shorter, size * max_aspect / longer);
  const auto side = [&](int i, int pixels) {
    const std::int64_t rounded = std::llround(pixels * scale / step) * step;
    return shape_[i] == open ? std::clamp(rounded, step, max_side) : shape_[i];
  };
  const std::int64_t width = side(3, photo.width), height = side(2, photo.height);
  return {detail::resize_bilinear(photo, width, height, {0, 0, static_cast<int>(width), static_cast<int>(height)}),
          {0, static_cast<double>(photo.width)},
          {0, static_cast<double>(photo.height)}};
}

Segmenter::Answer Segmenter::segment(const Image& photo, int most) {
  const View view = view_of(photo);
  const std::shared_ptr<PlanPool> pool = pool_for(view.input.height, view.input.width);
  // A model of a fixed batch has the photograph in all of it.
  Tensor input(pool->plan().input_shapes()[0], DType::u8);
  for (std::int64_t i = 0; i < input.shape()[0]; ++i) {
    std::ranges::copy(view.input.rgb, input.slice(i, i + 1).values<std::uint8_t>().begin());
  }
  std::promise<PoolAnswer> promise;
  pool->submit({input}, [&](PoolAnswer answer) { promise.set_value(std::move(answer)); });
  const PoolAnswer run = promise.get_future().get();
  if (!run.error.empty()) throw Error(run.error);
  say_not_finite(pool->plan(), run.outputs);
  const Tensor scores = run.outputs[0].slice(0, 1).to(DType::f32);
  ThreadPool threads(threads_);
  const auto [width, height] = sides_within(photo, most);
  const auto scaled = [](Seen seen, int side, int pixels) {
    const double share = static_cast<double>(side) / pixels;
    return Seen{seen.begin * share, seen.extent * share};
  };
  Answer answer{class_map(scores, scaled(view.x, width, photo.width), scaled(view.y, height, photo.height), width,
                          height, threads),
                {},
                {input.shape()[0], 3, view.input.height, view.input.width},
                run.outputs[0].shape(),
                run.device};
  const std::vector<std::int64_t> counts = answer.map.counts(scores.shape()[1]);
  const std::int64_t seen = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const int number = static_cast<int>(i);
    answer.segments.push_back(
        {number, class_name(model_.labels, number), static_cast<double>(counts[i]) / static_cast<double>(seen)});
  }
  std::ranges::stable_sort(answer.segments, std::ranges::greater(), &Segment::share);
  return answer;
}

}  // namespace lamina::app
