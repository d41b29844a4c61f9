#include <memory>

#include "lamina/c/handles.h"
#ifdef LAMINA_DETECT
#include "lamina/detect/detector.h"
#endif

using lamina::c::guarded;
using lamina::c::require;
using lamina::detail::fail;

#ifdef LAMINA_DETECT
struct lamina_detector {
  lamina::Detector detector;
};

namespace {

/// What was found, in C++ and in C.
struct Found : lamina_detections {
  lamina::Detections answer;
  std::vector<std::string> names = {};
  std::vector<std::vector<lamina_keypoint>> points = {};
  std::vector<lamina_detection> things = {};
};

lamina_detection thing_of(const lamina::Detection& thing, const std::string& name,
                          const std::vector<lamina_keypoint>& points) {
  const auto& [left, top, right, bottom] = thing.box;
  lamina_detection result = {.name = name.c_str(),
                             .label = thing.label,
                             .score = thing.score,
                             .box = {left, top, right, bottom},
                             .corners = {left, top, right, top, right, bottom, left, bottom},
                             .points = points.empty() ? nullptr : points.data(),
                             .point_count = points.size(),
                             .mask = thing.mask ? thing.mask->runs.data() : nullptr,
                             .mask_count = thing.mask ? thing.mask->runs.size() : 0};
  if (thing.turned) std::ranges::copy(thing.turned->corners(), result.corners);
  return result;
}

lamina_detections* found_by(const lamina_detector& by, const lamina::ImageView& photo,
                            const lamina_detect_options* options) {
  const lamina::Detector& detector = by.detector;
  const auto own = lamina::c::known_fields(options, sizeof *options, "lamina_detect_options");
  if (own.reserved != 0) fail("options.reserved: expected 0, got ", own.reserved);
  if (own.class_count > 0) require(own.classes, "options.classes");
  const std::span classes(own.classes, own.class_count);
  const lamina::DetectOptions unless;  // set
  std::unique_ptr<Found> found(
      new Found{{},
                detector.detect(photo, {
                                           .confidence = own.confidence == 0 ? unless.confidence : own.confidence,
                                           .iou = own.iou == 0 ? unless.iou : own.iou,
                                           .classes = {classes.begin(), classes.end()},
                                           .across_classes = own.across_classes != 0,
                                           .most = own.most == 0 ? unless.most : own.most,
                                           .masks = own.no_masks == 0,
                                       })});
  const lamina::Detections& answer = found->answer;
  for (const lamina::Detection& thing : answer.found) {
    found->names.push_back(detector.name(thing.label));
    auto& points = found->points.emplace_back();
    for (const auto& [x, y, score] : thing.points) points.push_back({x, y, score});
  }
  for (std::size_t i = 0; i < answer.found.size(); ++i)
    found->things.push_back(thing_of(answer.found[i], found->names[i], found->points[i]));
  static_cast<lamina_detections&>(*found) = {.found = found->things.data(),
                                             .count = found->things.size(),
                                             .width = photo.width,
                                             .height = photo.height,
                                             .candidates = answer.candidates,
                                             .left_out = answer.left_out,
                                             .network_ms = answer.network_ms};
  return found.release();
}

}  // namespace

#else
// A build that leaves detectors out has the functions too, so that programs link with either. It makes no detector.
struct lamina_detector {};

namespace {

using Found = lamina_detections;

lamina_detections* found_by(const lamina_detector&, const lamina::ImageView&, const lamina_detect_options*) {
  return nullptr;
}

}  // namespace
#endif

namespace {

/// `read` gives the photograph.
template <class Read>
lamina_status find(const lamina_detector* detector, const lamina_detect_options* options,
                   lamina_detections** detections, Read read) {
  return guarded([&] {
    require(detector, "detector", detections, "detections");
    *detections = found_by(*detector, read(), options);
  });
}

}  // namespace

lamina_status lamina_detector_create(const lamina_model* model, const lamina_compile_options* options, int32_t side,
                                     lamina_detector** detector) {
  return guarded([&] {
    require(model, "model", detector, "detector");
    if (side < 0) fail("side: expected 0 or more pixels, got ", side);
    const lamina::CompileOptions compile = lamina::c::options_of(options);
#ifdef LAMINA_DETECT
    *detector = new lamina_detector{lamina::Detector(model->model, {.compile = compile, .size = side})};
#else
    fail(lamina::ErrorKind::unsupported, "this build has no detectors: configure it with -DLAMINA_DETECT=ON");
#endif
  });
}

void lamina_detector_free(lamina_detector* detector) { delete detector; }

lamina_status lamina_detector_read(const lamina_detector* detector, const char* path,
                                   const lamina_detect_options* options, lamina_detections** detections) {
  return find(detector, options, detections,
              [&] { return require(path, "path"), lamina::read_image(path, lamina::as_seen); });
}

lamina_status lamina_detector_decode(const lamina_detector* detector, const void* bytes, size_t size,
                                     const lamina_detect_options* options, lamina_detections** detections) {
  return find(detector, options, detections, [&] {
    require(bytes, "bytes");
    return lamina::decode_image({static_cast<const std::byte*>(bytes), size}, "photo", lamina::as_seen);
  });
}

lamina_status lamina_detector_detect(const lamina_detector* detector, const lamina_picture* picture,
                                     const lamina_detect_options* options, lamina_detections** detections) {
  return find(detector, options, detections, [&] { return lamina::c::view_of(picture); });
}

void lamina_detections_free(lamina_detections* detections) { delete static_cast<Found*>(detections); }
