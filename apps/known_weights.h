#pragma once

#include <lamina/lamina.h>

#include <string>
#include <string_view>

namespace lamina::app {

/// The ready-made network `arch` with as many classes as the weights have, 1000 where they do not say.
Graph fitting_network(std::string_view arch, const Weights& weights);

/// The same weights without what wrappers put before every name: "module.", "_orig_mod.", "model.".
Weights unwrapped(const Weights& weights);

/// Whose weights these are, for an error message: "they are those of resnet18", "they look like those of ResNet50,
/// ...". Empty where it cannot be told.
std::string whose(const Weights& weights);

/// A file that is not there, and one of PyTorch's that training leaves, is no model file. Throws Error that says how
/// one is made, where the command knows that: `made_by`, by the name of such a file.
void require_no_checkpoint(const std::string& path, const std::string& made_by);

/// Whether the first output is what a ReLU or a pooling gives: maps of features, and no scores.
bool ends_in_features(const Graph& graph);

/// What a model of photographs is for, where it does not tell what is in them as a whole.
struct Purpose {
  std::string command = {};              ///< detect or segment; empty: neither
  std::string task = {};                 ///< of a detector: detect, segment, pose or obb
  std::optional<Preprocess> drawn = {};  ///< how a detector draws photographs
};

/// By the shapes of inputs and outputs, and what the model's exporter noted.
Purpose purpose_of(const Model& model);

/// Throws Error, which names the right command, where the model is for none of `commands`; `more` is said at its end.
void require_purpose(const Model& model, const std::string& source, std::string_view commands,
                     const std::string& more = "");

}  // namespace lamina::app
