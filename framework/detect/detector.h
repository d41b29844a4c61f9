#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lamina/base/export.h"
#include "lamina/graph/model.h"
#include "lamina/images/image.h"
#include "lamina/plan/plan.h"

namespace lamina {

/// An upright rectangle of a photograph, in its pixels from the upper left corner.
struct Box {
  float left = 0, top = 0, right = 0, bottom = 0;
};

/// A rectangle that is turned about its middle, clockwise by `angle` radians.
struct TurnedBox {
  float x = 0, y = 0, width = 0, height = 0, angle = 0;

  /// Its four corners, x and y of each, around it.
  LAMINA_API std::vector<float> corners() const;
};

/// A point of a skeleton.
struct Keypoint {
  float x = 0, y = 0, score = 1;  ///< 1 where the network gives none
};

/// The pixels of a photograph that belong to a thing, as COCO's uncompressed RLE: column by column, how many are not,
/// how many are, how many are not, and so on.
struct Mask {
  int width = 0, height = 0;
  std::vector<std::uint32_t> runs;

  LAMINA_API std::vector<std::uint8_t> pixels() const;  ///< 0 or 1, [height, width]
};

/// A thing that was found.
struct Detection {
  int label = 0;  ///< its class
  float score = 0;
  Box box;  ///< around it; of a turned box, around its corners
  std::optional<TurnedBox> turned;
  std::vector<Keypoint> points;
  std::optional<Mask> mask;
};

/// What of the network's answer is taken.
struct DetectOptions {
  double confidence = 0.25;       ///< the score that a thing has to exceed, 0 to 1
  double iou = 0.45;              ///< how far boxes of a class may overlap, 0 to 1
  std::vector<int> classes = {};  ///< those wanted; empty: all
  bool across_classes = false;    ///< boxes of different classes may not overlap further either
  int most = 300;                 ///< things of a photograph
  bool masks = true;              ///< whether masks are made, where the network has them
  std::stop_token stop = {};      ///< once a stop is requested, `detect` throws Stopped instead of going on
};

/// What was found in a photograph, best score first.
struct Detections {
  std::vector<Detection> found;
  std::int64_t candidates = 0;  ///< boxes above the confidence
  std::int64_t left_out = 0;    ///< of them, those below the best 30,000, which were not looked at
  Device device;                ///< that ran the network
  double network_ms = 0;        ///< milliseconds that it took, photograph up and answer down
};

/// How a Detector is made.
struct DetectorOptions {
  CompileOptions compile = {};       ///< device, precision, threads
  std::vector<Device> devices = {};  ///< empty: that of `compile`
  int size = 0;                      ///< pixels of both sides where the model leaves them open; 0: its `imgsz`, or 640
};

/// Finds things in photographs with a network of the YOLO families or RT-DETR, as its own Python does: letterbox,
/// network, non-maximum suppression and the way back to the photograph's pixels; or with torchvision's detectors, which
/// have their own suppression. Which of them it is is told by the shapes of its outputs and the metadata of its export.
/// Any number of threads may use one, and its copies, which are the same.
class LAMINA_API Detector {
 public:
  /// Throws Error where the model is no detector, saying what it is.
  explicit Detector(const Model& model, const DetectorOptions& options = {});

  /// Throws Error for options out of their range, where the network answers with what is no number, or with masks that
  /// are noise, and when it is to stop.
  Detections detect(const ImageView& photo, const DetectOptions& options = {}) const;

  /// What a class is called: "class 7" where nobody says.
  std::string name(int label) const;
  const std::vector<std::string>& names() const;  ///< as far as they are known
  std::string task() const;                       ///< detect, segment, pose or obb
  Shape input_shape() const;                      ///< [N, 3, H, W]

 private:
  struct Impl;

  std::shared_ptr<Impl> impl_;
};

}  // namespace lamina
