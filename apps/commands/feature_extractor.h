#pragma once

#include <lamina/lamina.h>

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json_output.h"
#include "model_options.h"
#include "options.h"
#include "photos/photo_reader.h"
#include "photos/photos.h"
#include "photos/picture_paths.h"
#include "shown_layer.h"

namespace lamina::app {

struct FeaturesOptions {
  PhotoOptions photos;
  ModelOptions model;
  std::string layer, tensor_out, sheet;
  std::string explain;  // "X,Y": a place in the photograph
  int filter = -1;      // to explain it by
  std::vector<std::string> out;
  JsonOutput json;
  bool jpeg = false, open = false;
  RunOptions run;
};

/// "X,Y" as --explain takes it. Throws Error.
std::pair<int, int> place_of(std::string_view text);

/// What --out names: pictures, by a .png, a .jpg or a directory, and the feature maps, by a .safetensors.
struct FeatureOutputs {
  PictureOptions pictures;
  std::string tensors;
  bool draws = true;  // unless it names the maps alone

  /// Throws Error if it names two of a kind.
  explicit FeatureOutputs(const FeaturesOptions& options);
};

/// What became of one photograph.
struct FeatureOutcome {
  std::string text;
  nlohmann::ordered_json json;
  std::string picture;  // its bytes; empty where none is asked for
  Image card;           // for the sheet, if one is asked for
  Tensor maps;          // to be written, if that is asked for
};

/// Runs the layer on photographs, any number of which may be under way.
class FeatureExtractor {
 public:
  FeatureExtractor(const FeaturesOptions& options, const FeatureOutputs& outputs);

  /// Throws Error.
  FeatureOutcome process(const std::filesystem::path& photo);
  const std::string& layer_name() const { return layer_.name; }

 private:
  struct Seen;

  void draw_all(const Seen& seen, FeatureOutcome& outcome) const;
  void draw_window(const Seen& seen, FeatureOutcome& outcome) const;
  Plan compile() const;
  Tensor run(const Tensor& input, double& milliseconds);

  const FeaturesOptions& options_;
  const FeatureOutputs& outputs_;
  Model model_;
  Preprocess preprocess_;
  ShownLayer layer_;
  PhotoReader reader_;
  std::mutex running_;
  Plan plan_;
  bool warm_ = false;
};

}  // namespace lamina::app
