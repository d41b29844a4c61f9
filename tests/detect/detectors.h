#pragma once

#include <string>

#include "lamina/detect/detector.h"
#include "lamina/files/weights.h"

/// Detectors whose answer is known: make_golden_detect.py.
namespace lamina::test {

inline const std::string golden = LAMINA_TEST_DATA "/golden/detect/";

inline const Weights& expected() {
  static const Weights weights = Weights::open(golden + "expected.safetensors");
  return weights;
}

inline Image picture(const std::string& name) {
  const Tensor pixels = expected().at(name);
  const auto values = pixels.values<std::uint8_t>();
  return {static_cast<int>(pixels.shape()[1]), static_cast<int>(pixels.shape()[0]), {values.begin(), values.end()}};
}

inline Detections detect(const std::string& model, const DetectOptions& options = {},
                         const std::string& photo = "photo") {
  return Detector(load_model(golden + model + ".onnx")).detect(picture(photo), options);
}

}  // namespace lamina::test
