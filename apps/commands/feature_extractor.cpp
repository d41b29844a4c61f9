#include "commands/feature_extractor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "inputs.h"
#include "known_weights.h"
#include "lamina/base/names.h"
#include "lamina/files/safetensors.h"
#include "photos/frames.h"
#include "photos/stopwatch.h"
#include "pictures/feature_picture.h"
#include "pictures/maps.h"
#include "pictures/window_picture.h"
#include "words.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

/// How photographs become the input of the model, which then takes them in colours and channels first.
Preprocess photographed(const FeaturesOptions& options, Model& model) {
  const Preprocess found = options.model.preprocess_of(model);
  take_photographs(model.graph);
  return found;
}

}  // namespace

std::pair<int, int> place_of(std::string_view text) {
  const std::vector<std::string_view> parts = parts_of(text, ',');
  const auto x = number_in<int>(parts[0]), y = number_in<int>(parts.back());
  if (parts.size() == 2 && x && y && *x >= 0 && *y >= 0) return {*x, *y};
  throw Error(fmt::format("expected a pixel of the photograph, such as 120,80, got \"{}\"", text));
}

/// A photograph, what the network saw of it, and what the layer made of that.
struct FeatureExtractor::Seen {
  std::string name;
  int width = 0, height = 0;  // of the photograph
  Image crop = {};
  Tensor input = {}, maps = {};
};

FeatureOutputs::FeatureOutputs(const FeaturesOptions& options) : tensors(options.tensor_out) {
  for (const std::string& name : options.out) {
    std::string& place = name.ends_with(".safetensors") ? tensors : pictures.out;
    if (!place.empty())
      throw Error(fmt::format("--out: {} and {} both name the {}", place, name,
                              &place == &tensors ? "feature maps" : "pictures"));
    place = name;
  }
  pictures.jpeg = options.jpeg;
  draws = options.out.empty() || !pictures.out.empty() || !options.sheet.empty() || options.open;
}

FeatureExtractor::FeatureExtractor(const FeaturesOptions& options, const FeatureOutputs& outputs)
    : options_(options),
      outputs_(outputs),
      model_(options.model.load()),
      preprocess_(photographed(options, model_)),
      layer_(shown_layer(model_.graph, options.layer, options.model.source())),
      reader_(options.photos.image()),
      plan_(compile()) {
  print_warnings(model_);
  const Shape& maps = plan_.output_shapes()[0];
  if (maps.rank() != 4 || maps[0] != 1 || maps.numel() == 0) {
    throw Error(fmt::format("{}: expected a layer of feature maps [1, C, H, W], {} gives {}", options.model.source(),
                            layer_.name, maps.to_string()));
  }
}

FeatureOutcome FeatureExtractor::process(const fs::path& photo) {
  FeatureOutcome outcome;
  Stopwatch watch;
  Seen seen{.name = photo.filename().string()};
  double decode = 0;
  seen.crop = reader_.read(photo, [&](const Image& image) {
    decode = watch.lap();
    seen.width = image.width, seen.height = image.height;
    return resize_and_crop(image, preprocess_);
  });
  seen.input = Tensor({1, 3, seen.crop.height, seen.crop.width});
  normalize_into(seen.crop, preprocess_, seen.input.values<float>());
  const double prepare = watch.lap();
  double layer = 0;
  const Tensor maps = seen.maps = run(seen.input, layer);
  outcome.text =
      fmt::format("{}: {}x{} -> {} {}; decode {:.1f} ms, preprocess {:.1f} ms, layer {:.2f} ms on {}\n",
                  detail::printable(name_of_photo(photo)), seen.width, seen.height, detail::printable(layer_.name),
                  maps.shape().to_string(), decode, prepare, layer, to_string(plan_.options().device));
  std::string list;
  auto json = nlohmann::ordered_json::array();
  for (const Strength& s : strongest(maps, 5)) {
    list += fmt::format("{}#{} ({:.2f}, {:.2f})", list.empty() ? "" : ", ", s.map, s.mean, s.largest);
    json.push_back({{"map", s.map}, {"mean", s.mean}, {"largest", s.largest}, {"share", s.share}});
  }
  outcome.json = {{"photo", name_of_photo(photo)},
                  {"size", {seen.height, seen.width}},
                  {"layer", layer_.name},
                  {"shape", {1, maps.shape()[1], maps.shape()[2], maps.shape()[3]}},
                  {"strongest", std::move(json)},
                  {"milliseconds", {{"decode", decode}, {"preprocess", prepare}, {"layer", layer}}}};
  if (!outputs_.tensors.empty()) outcome.maps = maps;
  if (!options_.explain.empty()) {
    draw_window(seen, outcome);
    return outcome;
  }
  outcome.text += fmt::format("  strongest filters (mean, largest): {}\n", list);
  if (const Strength best = strongest(maps, 1)[0]; maps.shape()[1] > 1) {
    outcome.text +=
        fmt::format("  #{} {} {:.0f} % of the places; mean: over all of them, largest: at the best\n", best.map,
                    ColourScale::of(maps).negative ? "is above 0 at" : "fits at", 100 * best.share);
  }
  if (outputs_.draws) draw_all(seen, outcome);
  return outcome;
}

void FeatureExtractor::draw_all(const Seen& seen, FeatureOutcome& outcome) const {
  const Tensor& maps = seen.maps;
  const std::int64_t count = maps.shape()[1];
  const std::string drawn = count > max_drawn_maps ? fmt::format(", the {} strongest drawn", max_drawn_maps) : "";
  if (!drawn.empty()) outcome.text += fmt::format("  {} maps{}\n", count, drawn);
  const FeaturePicture picture{.title = seen.name,
                               .subtitle = fmt::format("{}: {} feature maps of {}×{}{}", layer_.name, count,
                                                       maps.shape()[2], maps.shape()[3], drawn),
                               .input = seen.crop,
                               .filters = layer_.filters,
                               .order = preprocess_.order,
                               .maps = maps};
  outcome.picture = outputs_.pictures.encoded(draw(picture));
  if (!options_.sheet.empty()) outcome.card = draw_card(picture);
}

/// How one number comes about: at the place of --explain, by --filter or the filter that answers the most there.
void FeatureExtractor::draw_window(const Seen& seen, FeatureOutcome& outcome) const {
  const auto [x, y] = place_of(options_.explain);
  const Window shown = window_of(seen.width, seen.height, preprocess_);
  const double across = (x + 0.5 - shown.left) / shown.width, down = (y + 0.5 - shown.top) / shown.height;
  if (x >= seen.width || y >= seen.height || across < 0 || across >= 1 || down < 0 || down >= 1) {
    const auto range = [](double begin, double size, int most) {
      return fmt::format("from {:.0f} to {:.0f}", std::max(0.0, std::ceil(begin - 0.5)),
                         std::min(most - 1.0, std::ceil(begin + size - 0.5) - 1));
    };
    throw Error(fmt::format("--explain: expected a place of {} that the model sees, X {} and Y {}, got {},{}",
                            detail::printable(seen.name), range(shown.left, shown.width, seen.width),
                            range(shown.top, shown.height, seen.height), x, y));
  }
  const WindowSum sum =
      explain(layer_, seen.input, seen.maps, across * seen.crop.width, down * seen.crop.height, options_.filter);
  outcome.text += fmt::format(
      "  at {},{} filter {} gives {} (row {}, column {} of its map): the {} × {} pixels of the window times the filter "
      "add up to {:.7g}, the filter always {} {:.7g}{}\n",
      x, y, sum.filter, sum.value, sum.row, sum.column, sum.kernel.height, sum.kernel.width, sum.sum,
      sum.bias < 0 ? "takes off" : "adds", std::abs(sum.bias), layer_.normalised ? ", then it is normalised" : "");
  outcome.json["window"] = {{"x", x},
                            {"y", y},
                            {"filter", sum.filter},
                            {"row", sum.row},
                            {"column", sum.column},
                            {"value", sum.value},
                            {"sum", sum.sum},
                            {"bias", sum.bias}};
  if (!outputs_.draws) return;
  outcome.picture =
      outputs_.pictures.encoded(draw(WindowPicture{.title = seen.name,
                                                   .subtitle = fmt::format("{}, filter {}", layer_.name, sum.filter),
                                                   .input = seen.crop,
                                                   .layer = layer_,
                                                   .order = preprocess_.order,
                                                   .maps = seen.maps,
                                                   .window = sum}));
}

Plan FeatureExtractor::compile() const {
  const Graph graph = model_.graph.until(layer_.name);
  CompileOptions options = options_.run.compile_options(1);
  const Graph::Node& input = input_node(model_.graph);
  if (std::ranges::find(*input.shape, open) != input.shape->end()) {
    options.input_shapes[input.name] = {1, 3, preprocess_.crop, preprocess_.width()};
  }
  return graph.compile(options);
}

/// One photograph at a time; the others are decoded and drawn meanwhile.
Tensor FeatureExtractor::run(const Tensor& input, double& milliseconds) {
  const std::lock_guard lock(running_);
  if (!warm_) plan_.run(input);  // the first run touches fresh memory: it says nothing about the layer
  warm_ = true;
  Stopwatch watch;
  const Tensor maps = plan_.run(input);
  milliseconds = watch.lap();
  say_not_finite(plan_, {&maps, 1});
  return maps.dtype() == DType::f32 ? maps.clone() : maps.to(DType::f32);
}

}  // namespace lamina::app
