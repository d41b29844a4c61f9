#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/images/preprocess.h"

namespace lamina {

/// How a photograph becomes a model's input, where that is known. To use what is not throws Error, which says how to
/// give it.
class LAMINA_API ModelPreprocess : public std::optional<Preprocess> {
 public:
  using std::optional<Preprocess>::optional;
  using std::optional<Preprocess>::operator=;

  const Preprocess& value() const;
  const Preprocess& operator*() const { return value(); }
  const Preprocess* operator->() const { return &value(); }
  Preprocess* operator->() { return const_cast<Preprocess*>(&value()); }

  friend bool operator==(const ModelPreprocess& a, const Preprocess& b) { return a && *a == b; }
  friend bool operator==(const ModelPreprocess& a, const ModelPreprocess& b) { return b ? a == *b : !a; }
};

/// All that a self-describing model file holds: docs/formats.md describes it.
struct Model {
  Graph graph;                      ///< weights included
  ModelPreprocess preprocess;       ///< how a photograph becomes the input; of an .onnx file what its exporter noted
  std::vector<std::string> labels;  ///< names of the classes, by number; may be empty
  std::string description;          ///< what the model is for, such as "reads handwritten digits"; may be empty
  /// What else its exporter noted, by key: of a detector "task", "names", "imgsz".
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<std::string> warnings = {};  ///< of loading: tensors that the graph does not use
};

/// Opens a model file of Lamina's, or an .onnx file. Throws Error, naming the file, if it is malformed, describes no
/// graph, or needs what Lamina has not.
LAMINA_API Model load_model(const std::string& path);

/// Reads a model out of weights that carry one in their metadata.
LAMINA_API Model model_from(const Weights& weights);

/// The inverse: the parameters, and all else in the metadata. Throws Error if a parameter was never set.
LAMINA_API Weights to_weights(const Model& model);

/// Writes a model file. An existing file is replaced only on success.
LAMINA_API void save_model(const std::string& path, const Model& model);

namespace detail {

/// Throws Error if there are labels, and not as many as a classifier's output [N, classes] has classes; nothing where
/// only open extents tell how many.
LAMINA_API void require_labels(const Model& model);

/// `lamina.preprocess` of docs/formats.md.
std::string preprocess_to_json(const Preprocess& preprocess);
LAMINA_API Preprocess preprocess_from_json(std::string_view text);

}  // namespace detail

}  // namespace lamina
