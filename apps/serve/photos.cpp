// What the service shows of layers, and what it tells the page of models.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "lamina/images/resize.h"
#include "photos/photos.h"
#include "pictures/maps.h"
#include "serve/with_photo.h"

namespace lamina::app {
namespace {

/// A copy of planes [N, 3, H, W], of the network's input or its filters, with red before blue.
Tensor red_first(const Tensor& planes, const Model& model) {
  Tensor result = planes.clone();
  if (!model.preprocess || model.preprocess->order != ChannelOrder::bgr) return result;
  const auto plane = static_cast<std::size_t>(result.shape()[2] * result.shape()[3]);
  const std::span<float> values = result.values<float>();
  for (std::size_t at = 0; at < values.size(); at += 3 * plane) {
    std::ranges::swap_ranges(values.subspan(at, plane), values.subspan(at + 2 * plane, plane));
  }
  return result;
}

/// Height and width of what the model sees of a photograph.
std::array<int, 2> sides_of(const Model& model) {
  return model.preprocess ? std::array{model.preprocess->crop, model.preprocess->width()} : std::array{0, 0};
}

Json strongest_of(const Tensor& maps, int count) {
  Json list = Json::array();
  for (const Strength& s : strongest(maps, count))
    list.push_back({{"map", s.map}, {"mean", s.mean}, {"largest", s.largest}});
  return list;
}

Json json_of(const ReceptiveField& field) {
  return {{"size", {field.size.height, field.size.width}},
          {"stride", {field.stride.height, field.stride.width}},
          {"start", {field.top, field.left}}};
}

/// What a sum multiplies by and adds, with its normalisation in them.
struct Filters {
  Tensor weights, added;  ///< f32 [OC, IC / groups, KH, KW] and [OC]
};

Filters filters_of(const MadeOf& sum) {
  const std::int64_t count = sum.weights.shape()[0];
  Filters filters = {sum.weights.to(DType::f32),
                     sum.added.defined() ? sum.added.to(DType::f32) : Tensor::zeros({count}, DType::f32)};
  if (!sum.norm[0].defined()) return filters;
  filters.weights = filters.weights.clone(), filters.added = filters.added.clone();
  const std::span<float> weights = filters.weights.values<float>(), added = filters.added.values<float>();
  const std::size_t each = weights.size() / added.size();
  for (std::size_t k = 0; k < added.size(); ++k) {
    const auto value = [&](std::size_t i) { return static_cast<double>(sum.norm[i].values<float>()[k]); };
    const double scale = value(0) / std::sqrt(value(3) + sum.epsilon);
    for (float& weight : weights.subspan(k * each, each)) weight = static_cast<float>(weight * scale);
    added[k] = static_cast<float>((added[k] - value(2)) * scale + value(1));
  }
  return filters;
}

}  // namespace

/// For browsers that do not know its format: as a PNG of the size that the page draws.
Reply Service::picture(const Call& call) {
  return with_photo(call, [](const Image& photo) {
    const auto [width, height] = sides_within(photo, most_side);
    const Image small = detail::resize_bilinear(photo, width, height, {0, 0, width, height});
    return Reply{.body = detail::encode_png(small), .type = "image/png"};
  });
}

Service::Photo Service::photo_of(const Call& call, const Hosted& model) {
  const Preprocess& settings = model.preprocess();
  Stopwatch watch;
  return with_photo(call, [&](const Image& photo) {
    Photo result;
    result.milliseconds["decode"] = watch.lap();
    result.pixels = preprocess(photo, settings);
    result.input = as_input(result.pixels, model.model().graph);
    result.milliseconds["preprocess"] = watch.lap();
    const Window seen = window_of(photo.width, photo.height, settings);
    result.description = {
        {"width", photo.width}, {"height", photo.height}, {"crop", {seen.left, seen.top, seen.width, seen.height}}};
    return result;
  });
}

Reply Service::features(const Call& call) {
  require_ready();
  Hosted& model = hosted(call.parameter("model", hosted_[0]->name()));
  const Hosted::Layer& layer = model.layer(call.parameter("layer"));
  call.reserve(2 * static_cast<std::uint64_t>(layer.shape.numel()) * sizeof(float));  // the maps, and the reply
  Photo photo = photo_of(call, model);
  const std::shared_ptr<PlanPool> pool = model.pool_of(layer);
  const PoolAnswer answer = run(model, *pool, {photo.pixels});
  const Tensor maps = answer.outputs[0].to(DType::f32);
  photo.milliseconds["wait"] = milliseconds(answer.waited);
  photo.milliseconds["run"] = milliseconds(answer.ran);
  Json description = {{"model", model.name()},
                      {"layer", layer.name},
                      {"shape", {maps.shape()[1], maps.shape()[2], maps.shape()[3]}},
                      {"photo", photo.description},
                      {"milliseconds", photo.milliseconds},
                      {"device", to_string(answer.device)}};
  if (wants_binary(call)) return binary_reply(maps.raw(), maps.bytes(), description);
  description["strongest"] = strongest_of(maps, 10);
  return {.body = dumped(description)};
}

/// What the network sees: f32 [3, height, width], red first, and how these numbers were made of levels.
Reply Service::input(const Call& call) {
  require_ready();
  const Hosted& model = hosted(call.parameter("model", hosted_[0]->name()));
  const Preprocess& settings = model.preprocess();
  const auto rows = static_cast<std::uint64_t>(settings.crop), columns = static_cast<std::uint64_t>(settings.width());
  call.reserve(2 * 3 * rows * columns * sizeof(float));  // the numbers, and the reply
  const Photo photo = photo_of(call, model);
  const Tensor seen = red_first(photo.pixels, model.model());
  return binary_reply(seen.raw(), seen.bytes(),
                      {{"model", model.name()},
                       {"shape", {3, rows, columns}},
                       {"mean", settings.mean},
                       {"std", settings.std},
                       {"divisor", settings.divisor},
                       {"photo", photo.description}});
}

/// The filters of a layer that sees the photograph, f32 [filters, 3, height, width], red first, and what each adds; or
/// one of any convolution, f32 [1, channels, height, width].
Reply Service::filters(const Call& call) {
  require_ready();
  Hosted& model = hosted(call.parameter("model", hosted_[0]->name()));
  const Hosted::Layer& layer = model.layer(call.parameter("layer"));
  const bool one = call.query.contains("filter");
  if (!layer.made || layer.made->how != "sum" || !(layer.filters || one)) {
    throw Refusal{404, fmt::format("{}: {} has no filters that see the photograph", model.name(), layer.name)};
  }
  const std::int64_t count = layer.made->weights.shape()[0];
  const std::int64_t begin = number_of<std::int64_t>(call, "filter", 0, 0, count - 1), end = one ? begin + 1 : count;
  const Filters all = filters_of(*layer.made);
  const Tensor some = all.weights.slice(begin, end), weight = layer.filters ? red_first(some, model.model()) : some;
  const Shape& shape = weight.shape();
  const std::span<const float> added = all.added.slice(begin, end).values<float>();
  return binary_reply(
      weight.raw(), weight.bytes(),
      {{"shape", {shape[0], shape[1], shape[2], shape[3]}}, {"bias", std::vector<float>(added.begin(), added.end())}});
}

Reply Service::models(const Call& /*call*/) {
  require_ready();
  Json list = Json::array();
  for (const auto& model : hosted_) {
    Json layers = Json::array();
    for (const Hosted::Layer& layer : model->layers()) {
      layers.push_back({{"name", layer.name},
                        {"op", layer.op},
                        {"shape", {layer.shape[1], layer.shape[2], layer.shape[3]}},
                        {"filters", layer.filters}});
      if (layer.field) layers.back()["field"] = json_of(*layer.field);
      if (!layer.made) continue;
      layers.back()["made"] = json_of(layer.made->window);
      layers.back()["made"].update({{"from", layer.made->from}, {"how", layer.made->how}, {"then", layer.made->then}});
    }
    list.push_back({{"name", model->name()},
                    {"photographs", model->model().preprocess.has_value()},
                    {"sides", sides_of(model->model())},
                    {"answers", model->answers()},
                    {"description", model->model().description},
                    {"classes", model->has_classes()},
                    {"task", model->task()},
                    {"layer", model->layers().empty() ? "" : model->layer("").name},
                    {"device", to_string(model->pool().plan().options().device)},
                    {"layers", layers}});
  }
  return {.body = dumped(list)};
}

}  // namespace lamina::app
