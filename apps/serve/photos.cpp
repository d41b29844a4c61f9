// What the service does with photographs, and what it tells the page of models.

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lamina/base/content.h"
#include "lamina/images/codecs/codec.h"
#include "lamina/images/resize.h"
#include "model_options.h"
#include "photos/detect_report.h"
#include "photos/stopwatch.h"
#include "pictures/maps.h"
#include "serve/service.h"

namespace lamina::app {
namespace {

using Json = nlohmann::ordered_json;

double milliseconds(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

/// As 7-bit text, which may also be the value of a header.
std::string dumped(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

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

}  // namespace

/// A photograph as a model's input.
struct Service::Photo {
  Tensor pixels;  // f32 [1, 3, H, W]
  Tensor input;   // the same in the form that the model takes
  Json description, milliseconds;
};

/// What `use` makes of the decoded photograph, whose memory counts until it returns.
template <class Use>
auto Service::with_photo(const Call& call, const Use& use) {
  if (call.method != "POST") throw Refusal{405, fmt::format("{}: expected POST with a photograph", call.path)};
  const auto bytes = std::as_bytes(std::span(call.body));
  if (bytes.empty()) throw Refusal{400, "expected a photograph as the body, or as a file of a multipart form"};
  if (!is_image(bytes)) {
    throw Refusal{415, fmt::format("expected a photograph: {}{}", image_formats(), detail::found_content(bytes))};
  }
  try {
    const ImageOptions options = {
        .orientation = Orientation::upright, .transparency = Transparency::on_white, .memory = memory_.whole()};
    const std::uint64_t needed = decoding_memory(bytes, "photograph", options);
    const MemoryBudget::Share share(memory_, std::min(needed, memory_.whole()));  // too much is refused below
    return use(decode_image(bytes, "photograph", options));
  } catch (const Error& error) {
    throw Refusal{422, error.what()};
  }
}

/// For browsers that do not know its format: as a PNG of the size that the page draws.
Reply Service::picture(const Call& call) {
  constexpr double most = 1400;  // pixels of the longer side
  return with_photo(call, [](const Image& photo) {
    const double scale = std::min(1.0, most / std::max(photo.width, photo.height));
    const auto side = [&](int pixels) { return std::max(1, static_cast<int>(std::lround(pixels * scale))); };
    const int width = side(photo.width), height = side(photo.height);
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

Reply Service::classify(const Call& call) {
  require_ready();
  const auto first = std::ranges::find_if(hosted_, [](const auto& model) { return model->has_classes(); });
  Hosted& model = hosted(call.parameter("model", first != hosted_.end() ? (*first)->name() : ""));
  if (!model.has_classes()) throw Refusal{400, fmt::format("{} does not end in scores of classes", model.name())};
  Photo photo = photo_of(call, model);
  const PoolAnswer answer = run(model, model.pool(), {photo.input});
  const Scores scores = scores_of(model.model().graph);
  const bool probabilities = are_probabilities(scores, scores_in(answer.outputs[0].shape()));
  int top = 5;
  if (const std::string text = call.parameter("top"); !text.empty()) {
    if (text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) {
      throw Refusal{400, fmt::format("top: expected a whole number, got {}", text)};
    }
    top = std::stoi(text);
  }
  Json classes = Json::array();
  for (const auto& [index, score] : top_k(class_scores(answer.outputs[0], scores), top)) {
    const auto at = static_cast<std::size_t>(index);
    const auto& labels = model.model().labels;
    classes.push_back({{"index", index},
                       {"name", at < labels.size() ? labels[at] : fmt::format("class {}", index)},
                       {probabilities ? "probability" : "score", score}});
  }
  photo.milliseconds["wait"] = milliseconds(answer.waited);
  photo.milliseconds["run"] = milliseconds(answer.ran);
  Json json = {{"model", model.name()},
               {"classes", classes},
               {"photo", photo.description},
               {"milliseconds", photo.milliseconds},
               {"device", to_string(answer.device)},
               {"batch", answer.batch}};
  const bool sure = !classes.empty() && (!probabilities || classes[0]["probability"].get<float>() >= sure_probability);
  if (!sure && !model.model().description.empty()) {
    json["doubt"] = fmt::format("{} {}; it is not sure of this photograph, which may show something else", model.name(),
                                model.model().description);
  }
  return {.body = dumped(json)};
}

#ifdef LAMINA_DETECT
Reply Service::detect(const Call& call) {
  require_ready();
  Hosted& model = hosted(call.parameter("model", hosted_[0]->name()));
  DetectOptions options{.stop = call.gone};
  for (const auto& [name, value] : {std::pair("confidence", &options.confidence), {"iou", &options.iou}}) {
    const std::string text = call.parameter(name);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
    const bool number = error == std::errc() && end == text.data() + text.size() && *value >= 0 && *value <= 1;
    if (!text.empty() && !number) refuse(fmt::format("{}: expected a number from 0 to 1, got {}", name, text));
  }
  const Detector& detector = model.detector();
  Stopwatch watch;
  return with_photo(call, [&](const Image& photo) {
    const double decode = watch.lap();
    try {
      Detections found = detector.detect(photo, options);
      FoundThings things{{}, photo.width, photo.height, std::move(found.found), {}};
      for (const Detection& thing : things.things) things.names.push_back(detector.name(thing.label));
      Json json = to_json(things);
      json.erase("photo");
      json.update({{"model", model.name()},
                   {"milliseconds", {{"decode", decode}, {"run", watch.lap()}}},
                   {"device", to_string(found.device)}});
      return Reply{.body = dumped(json)};
    } catch (const PoolFull& full) {
      throw Refusal{503, full.what()};
    }
  });
}
#endif

Reply Service::features(const Call& call) {
  require_ready();
  Hosted& model = hosted(call.parameter("model", hosted_[0]->name()));
  const Hosted::Layer& layer = model.layer(call.parameter("layer"));
  call.reserve(2 * static_cast<std::uint64_t>(layer.shape.numel()) * sizeof(float));  // the maps, and the reply
  Photo photo = photo_of(call, model);
  const std::shared_ptr<PlanPool> pool = model.pool_of(layer);
  const PoolAnswer answer = run(model, *pool, {photo.input});
  const Tensor maps = answer.outputs[0].to(DType::f32);
  photo.milliseconds["wait"] = milliseconds(answer.waited);
  photo.milliseconds["run"] = milliseconds(answer.ran);
  Json description = {{"model", model.name()},
                      {"layer", layer.name},
                      {"shape", {maps.shape()[1], maps.shape()[2], maps.shape()[3]}},
                      {"photo", photo.description},
                      {"milliseconds", photo.milliseconds},
                      {"device", to_string(answer.device)}};
  if (call.header("accept").find("application/octet-stream") == std::string::npos) {
    description["strongest"] = strongest_of(maps, 10);
    return {.body = dumped(description)};
  }
  Reply reply = {.body = std::string(static_cast<const char*>(maps.raw()), maps.bytes()),
                 .type = "application/octet-stream"};
  reply.headers["Lamina-Description"] = dumped(description);
  return reply;
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
  Reply reply = {.body = std::string(static_cast<const char*>(seen.raw()), seen.bytes()),
                 .type = "application/octet-stream"};
  reply.headers["Lamina-Description"] = dumped({{"model", model.name()},
                                                {"shape", {3, rows, columns}},
                                                {"mean", settings.mean},
                                                {"std", settings.std},
                                                {"divisor", settings.divisor},
                                                {"photo", photo.description}});
  return reply;
}

/// The filters of a layer that sees the photograph, as f32 [filters, 3, height, width], red first, and what each adds.
Reply Service::filters(const Call& call) {
  require_ready();
  Hosted& model = hosted(call.parameter("model", hosted_[0]->name()));
  const Hosted::Layer& layer = model.layer(call.parameter("layer"));
  if (!layer.filters.defined()) {
    throw Refusal{404, fmt::format("{}: {} has no filters that see the photograph", model.name(), layer.name)};
  }
  const Tensor weight = red_first(layer.filters, model.model());
  const Shape& shape = weight.shape();
  std::vector<float> bias(static_cast<std::size_t>(shape[0]));
  if (layer.bias.defined()) std::ranges::copy(layer.bias.values<float>(), bias.begin());
  Reply reply = {.body = std::string(static_cast<const char*>(weight.raw()), weight.bytes()),
                 .type = "application/octet-stream"};
  reply.headers["Lamina-Description"] = dumped({{"shape", {shape[0], shape[1], shape[2], shape[3]}}, {"bias", bias}});
  return reply;
}

Reply Service::models() {
  require_ready();
  Json list = Json::array();
  for (const auto& model : hosted_) {
    Json layers = Json::array();
    for (const Hosted::Layer& layer : model->layers()) {
      layers.push_back({{"name", layer.name},
                        {"op", layer.op},
                        {"shape", {layer.shape[1], layer.shape[2], layer.shape[3]}},
                        {"filters", layer.filters.defined()}});
      if (!layer.field) continue;
      const auto& [size, stride, top, left] = *layer.field;
      layers.back()["field"] = {
          {"size", {size.height, size.width}}, {"stride", {stride.height, stride.width}}, {"start", {top, left}}};
    }
    list.push_back({{"name", model->name()},
                    {"photographs", model->model().preprocess.has_value()},
                    {"sides", sides_of(model->model())},
                    {"classes", model->has_classes()},
                    {"task", model->task()},
                    {"layer", model->layers().empty() ? "" : model->layer("").name},
                    {"device", to_string(model->pool().plan().options().device)},
                    {"layers", layers}});
  }
  return {.body = dumped(list)};
}

}  // namespace lamina::app
