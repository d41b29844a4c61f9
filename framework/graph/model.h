#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/images/preprocess.h"

namespace lamina {

/// How a photograph becomes a model's input, if this is known. If it is not known, using it throws an Error that says
/// how to give it.
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

/// Everything in a self-describing model file; docs/formats.md describes it.
struct Model {
  Graph graph;                      ///< weights included
  ModelPreprocess preprocess;       ///< how a photograph becomes the input; an .onnx file's exporter may note it
  std::vector<std::string> labels;  ///< names of the classes, by number; may be empty
  std::string description;          ///< what the model is for, such as "reads handwritten digits"; may be empty
  /// Other notes of the exporter, by key; a detector has "task", "names", "imgsz".
  std::map<std::string, std::string, std::less<>> metadata;
  std::vector<std::string> warnings = {};  ///< from loading: tensors that the graph does not use
};

/// Opens a Lamina model file or an .onnx file. Throws Error, naming the file, if the file is malformed, has no graph,
/// or needs something that Lamina does not have.
LAMINA_API Model load_model(const std::string& path);
/// The same from the bytes of such a file, which are copied. Errors call them `name`. There is no folder then, so an
/// .onnx file whose weights are in other files is refused, and descriptions beside a file cannot be found.
LAMINA_API Model load_model(std::span<const std::byte> file, const std::string& name = "model in memory");

/// Makes a model from weights that have a graph in their metadata.
LAMINA_API Model model_from(const Weights& weights);

/// The inverse: weights that have everything else of the model in their metadata. Throws Error if a parameter was never
/// set.
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
