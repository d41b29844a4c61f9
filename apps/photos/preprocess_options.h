#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <string>

#include "inputs.h"

namespace lamina::app {

/// How photographs become a model's input, where the command line says otherwise than the model does: by a name, in
/// parts, or a name with other parts.
struct PreprocessOptions {
  std::string name, fit, scale, mean, std, fill;
  int size = 0, resize = 0;
  bool bgr = false;

  /// Adds --preprocess, --size, --resize, --fit, --fill, --scale, --mean, --std and --bgr. `about_size` says what
  /// --size is of.
  void add_to(CLI::App& command, const std::string& about_size);
  /// Whether anything is said.
  bool given() const;

  /// `base` with the levels that --preprocess, --scale, --mean, --std and --bgr say.
  Preprocess levels_over(Preprocess base) const;
  /// How photographs become the model's one input [N, 3, S, S]: as was said, where nothing was as the model does, S
  /// pixels large if that, --input-shape or --size says so. `source` names the model in errors. Throws Error where
  /// nobody says how, they contradict each other, or the model takes no square picture.
  Preprocess of(const Model& model, const InputShapes& shapes, const std::string& source) const;
};

}  // namespace lamina::app
