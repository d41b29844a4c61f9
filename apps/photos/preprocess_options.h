#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <array>
#include <string>

#include "inputs.h"

namespace lamina::app {

/// Shapes of the inputs whose height and width the model leaves open: what its photographs become, or sides as `said`,
/// or what its exporter noted, or `otherwise`; 0 says nothing. The batch stays open.
InputShapes photo_shapes(const Model& model, int said = 0, int otherwise = 0);

/// Height and width of the model's one input for photographs; 0 where they are left open. Throws Error where
/// --input-shape or `size`, what --size says if it is not 0, are not of that input. `source` names the model in errors.
std::array<int, 2> sides_of(const Graph& graph, const InputShapes& shapes, int size, const std::string& source);

/// Adds --size. `about` says what it is of.
void add_size_to(CLI::App& command, int& size, const std::string& about);

/// "224", or "48 x 320", height first.
std::string sides_text(int height, int width);

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
  /// How photographs become the model's one input, in whichever form it takes pictures: as was said, where nothing was
  /// as the model does, of the size that it, --input-shape or --size says. `source` names the model in errors. Throws
  /// Error where nobody says how, they contradict each other, or the model takes no picture.
  Preprocess of(const Model& model, const InputShapes& shapes, const std::string& source) const;
};

}  // namespace lamina::app
