// What models say of a photograph: its classes, the things in it, what each of its pixels belongs to.

#include <fmt/core.h>

#include <algorithm>

#include "model_options.h"
#include "models/shipped.h"
#include "pictures/segment_picture.h"
#include "segmenter.h"
#include "serve/with_photo.h"
#ifdef LAMINA_DETECT
#include "photos/detect_report.h"
#include "pictures/detect_picture.h"
#endif

namespace lamina::app {
namespace {

/// The colour of a class in pictures of `lamina detect` and `lamina segment`: "#0a7cff".
std::string color_text(int label) {
  const Color c = class_color(label);
  return fmt::format("#{:02x}{:02x}{:02x}", c[0], c[1], c[2]);
}

}  // namespace

Hosted& Service::answering(const Call& call, const char* how) {
  require_ready();
  // The first; one that was made for one thing alone where there is no other.
  const auto answers = [&](const auto& model) { return model->answers() == how; };
  auto first = std::ranges::find_if(
      hosted_, [&](const auto& model) { return answers(model) && model->model().description.empty(); });
  if (first == hosted_.end()) first = std::ranges::find_if(hosted_, answers);
  return hosted(call.parameter("model", (first != hosted_.end() ? *first : hosted_[0])->name()));
}

Reply Service::classify(const Call& call) {
  Hosted& model = answering(call, "classify");
  if (!model.has_classes()) {
    const std::string other = model.answers().empty() ? "" : "; POST /" + model.answers() + " asks it";
    throw Refusal{400, fmt::format("{} does not end in scores of classes{}", model.name(), other)};
  }
  Photo photo = photo_of(call, model);
  const PoolAnswer answer = run(model, model.pool(), {photo.input});
  const Scores scores = scores_of(model.model().graph);
  const bool probabilities = are_probabilities(scores, scores_in(answer.outputs[0].shape()));
  const int top = number_of(call, "top", 5, 1, 1 << 24);
  Json classes = Json::array();
  const Tensor row = class_scores(answer.outputs[0], scores);
  const Ranking ranking = ranked(row, scores, top);
  for (const auto& [index, score] : ranking.classes) {
    classes.push_back(class_json(index, class_name(model.model().labels, index)));
    classes.back()[probabilities ? "probability" : "score"] = score;
  }
  photo.milliseconds["wait"] = milliseconds(answer.waited);
  photo.milliseconds["run"] = milliseconds(answer.ran);
  Json json = {{"model", model.name()},
               {"classes", classes},
               {"photo", photo.description},
               {"milliseconds", photo.milliseconds},
               {"device", to_string(answer.device)},
               {"batch", answer.batch}};
  if (!ranking.sure) {
    json["doubt"] = doubt_of(model.model(), model.name(), ranking.judges, "this photograph");
    const bool lacking = std::ranges::all_of(hosted_, [](const auto& other) {  // each is for one thing alone
      return other->answers() != "classify" || !other->model().description.empty();
    });
    if (lacking) {
      json["advice"] = fmt::format("For photographs: {} brings a model of 1000 classes; then start this server again",
                                   classifier_bringer());
    }
  }
  return {.body = dumped(json)};
}

#ifdef LAMINA_DETECT
Reply Service::detect(const Call& call) {
  Hosted& model = answering(call, "detect");
  DetectOptions options{.stop = call.gone};
  options.confidence = number_of(call, "confidence", options.confidence, 0.0, 1.0);
  options.iou = number_of(call, "iou", options.iou, 0.0, 1.0);
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
      for (Json& thing : json["detections"]) thing["color"] = color_text(thing["class"]);
      for (const Detection& thing : things.things) {
        for (const auto& [from, to] : bones_of(thing.points)) json["bones"].push_back({from, to});
        if (json.contains("bones")) break;  // those of all
      }
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

/// The class of each pixel, of a large photograph those of a smaller one: shares and colours, and on demand the map, as
/// u16 [height, width], where 65535 is what the network was not shown.
Reply Service::segment(const Call& call) {
  Hosted& model = answering(call, "segment");
  Segmenter& segmenter = model.segmenter();
  Stopwatch watch;
  return with_photo(call, [&](const Image& photo) {
    const double decode = watch.lap();
    call.reserve(2 * sizeof(std::uint16_t) * most_side * most_side);  // the map, and the reply
    const Segmenter::Answer answer = segmenter.segment(photo, most_side);
    Json classes = Json::array();
    for (const Segment& s : answer.segments) {
      classes.push_back(class_json(s.index, s.name));
      classes.back().update({{"share", s.share}, {"color", color_text(s.index)}});
    }
    const Json description = {{"model", model.name()},
                              {"width", photo.width},
                              {"height", photo.height},
                              {"shape", {answer.map.height, answer.map.width}},
                              {"background", segmenter.has_background()},
                              {"classes", classes},
                              {"milliseconds", {{"decode", decode}, {"run", watch.lap()}}},
                              {"device", to_string(answer.device)}};
    if (!wants_binary(call)) return Reply{.body = dumped(description)};
    const std::vector<std::uint16_t>& map = answer.map.classes;
    return binary_reply(map.data(), map.size() * sizeof(map[0]), description);
  });
}

}  // namespace lamina::app
