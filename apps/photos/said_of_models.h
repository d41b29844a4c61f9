#pragma once

#include <lamina/lamina.h>
#include <CLI/CLI.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inputs.h"
#include "lamina/graph/resolve.h"
#include "photos/preprocess_options.h"

namespace lamina::app {

/// The graph with every open extent, but for batches, at that; nothing where it does not compute with it.
std::optional<detail::Resolved> resolved_at(const Graph& graph, std::int64_t extent, const InputShapes& shapes = {});

/// Shapes for inputs whose extents the model leaves open, the sizes that it begins with: what its photographs become,
/// what --size says, what its exporter noted, or what is usual. Throws Error where it computes with none of them.
InputShapes first_shapes(const Model& model, int size);

/// What a command line says of a model that takes photographs.
struct SaidOfModel {
  PreprocessOptions preprocess;
  std::string labels;  ///< a file of class names
  bool by_name = false;

  /// Adds --preprocess and its parts, and --labels.
  void add_to(CLI::App& command);
  /// Puts it into the model: in the place of what its file says, or only what that does not say. Throws Error, naming
  /// the file.
  void put_into(Model& model, const std::string& file, bool in_place) const;
};

/// What a command line says of several models: the same options, each of all models, or of one as MODEL=VALUE.
class SaidOfModels {
 public:
  void add_to(CLI::App& command);
  /// What is said of that model, by its name and otherwise of all. Throws CLI::ParseError.
  SaidOfModel of(const std::string& model) const;
  /// Throws CLI::ParseError for names of other models, and what `of` throws for one of these.
  void require(const std::vector<std::string>& models) const;

 private:
  std::map<std::string, std::vector<std::string>> words_;  // by option
};

}  // namespace lamina::app
