#include "model.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "gil.h"
#include "known_weights.h"
#include "lamina/base/error.h"
#include "lamina/files/safetensors.h"
#include "lamina/graph/model.h"
#include "lamina/graph/networks.h"
#include "lamina/graph/photographs.h"
#include "lamina/graph/scores.h"
#include "lamina/onnx/onnx.h"
#include "lent.h"
#include "node.h"
#include "options.h"
#include "photos/notes_beside.h"
#include "result.h"

namespace lamina::python {
namespace {

using detail::fail;

Model load_file(nb::handle file) {
  const ModelSource source(file);
  const WithoutGil release;
  Model model = source.load();
  if (!source.path().empty()) app::take_notes_beside(model, source.path());
  return model;
}

Model load_arch(const std::string& name, nb::handle source, std::string key, std::string strip_prefix) {
  const OpenOptions options = {.key = std::move(key), .strip_prefix = std::move(strip_prefix)};
  const Weights weights = app::unwrapped(weights_from(source, options));
  const WithoutGil release;
  Model model;
  model.graph = app::fitting_network(name, weights);
  try {
    model.warnings = model.graph.load(weights);
    model.warnings.insert(model.warnings.begin(), weights.notes().begin(), weights.notes().end());
  } catch (const Error& error) {
    const std::string owner = app::whose(weights);
    if (owner.empty()) throw;
    fail("the weights do not fit ", name, ": ", owner);
  }
  model.preprocess = network_preprocess(name);
  return model;
}

/// The same network; its modules are shared.
Graph again(const Graph& graph) {
  Graph result;
  const auto value = [](int node) { return Value{node}; };
  for (const Graph::Node& node : graph.nodes()) {
    std::vector<Value> inputs(node.inputs.size());
    std::ranges::transform(node.inputs, inputs.begin(), value);
    if (node.module == nullptr) {
      result.input(node.name, *node.shape, node.dtype);
    } else {
      result.add(node.name, node.module, inputs);
    }
  }
  for (const int output : graph.outputs()) result.output(value(output));
  return result;
}

void save_file(const std::filesystem::path& path, const Graph& graph, std::optional<Preprocess> preprocess,
               std::vector<std::string> labels, Metadata metadata) {
  detail::require_ending(path, {".safetensors", ".onnx"});
  const WithoutGil release;
  if (path.extension() == ".onnx") return save_onnx(path, graph);
  save_model(path, model_of(graph, preprocess, std::move(labels), std::move(metadata)));
}

/// The graph with an input f32 [N, 3, H, W] in place of one that takes photographs in another form. Throws Error for a
/// `preprocess`, which may be null, whose numbers that form does not take.
Graph for_photographs(const Graph& graph, const Preprocess* preprocess) {
  if (preprocess != nullptr) require_levels(graph, *preprocess);
  Graph copy = again(graph);
  take_photographs(copy);
  return copy;
}

nb::object input_of(nb::handle pictures, const Graph& graph) {
  const Lent lent(pictures, "pictures", Lent::Access::read);
  return to_python(Result{as_input(lent.tensor(), graph).clone()});
}

/// The classes of each row of a network's output, the most probable first.
nb::list top_classes(const Graph& graph, nb::handle scores, int k) {
  const Lent lent(scores, "scores", Lent::Access::read);
  const Tensor rows = class_scores(lent.tensor(), scores_of(graph));
  nb::list result;
  for (std::int64_t i = 0; i < rows.shape()[0]; ++i) {
    nb::list row;
    for (const auto& [index, score] : top_k(rows.slice(i, i + 1), k)) row.append(nb::make_tuple(index, score));
    result.append(row);
  }
  return result;
}

}  // namespace

std::span<const std::byte> bytes_of(nb::handle bytes) {
  const auto held = nb::borrow<nb::bytes>(bytes);
  return {static_cast<const std::byte*>(held.data()), held.size()};
}

ModelSource::ModelSource(nb::handle given) {
  if (nb::isinstance<nb::bytes>(given)) {
    bytes_ = bytes_of(given);
  } else {
    path_ = as<std::filesystem::path>(given, "model", "a path or the bytes of a file");
  }
}

Model ModelSource::load() const {
  if (path_.empty()) return load_model(bytes_);
  return load_model(path_);
}

Model model_of(const Graph& graph, std::optional<Preprocess> preprocess, std::vector<std::string> labels,
               Metadata metadata) {
  Model model;
  model.graph = again(graph);
  model.preprocess = preprocess;
  model.labels = std::move(labels);
  model.metadata = std::move(metadata);
  return model;
}

Weights weights_from(nb::handle source, const OpenOptions& options) {
  if (nb::isinstance<nb::bytes>(source)) {
    const std::span file = bytes_of(source);
    const WithoutGil release;
    return Weights::open(file, options);
  }
  if (!nb::isinstance<nb::dict>(source)) {
    const auto path = as<std::filesystem::path>(source, "weights", "a path, the bytes of a file, or a dict of arrays");
    const WithoutGil release;
    return Weights::open(path, options);
  }
  if (!(options.key + options.strip_prefix).empty())
    detail::fail("key and strip_prefix are for files; weights are a dict");
  Weights weights;
  for (const auto& [key, value] : nb::borrow<nb::dict>(source)) {
    const auto name = as<std::string>(key, "weights", "names");
    weights.set(name, copy_of(value, name));
  }
  return weights;
}

void bind_model(nb::module_& m) {
  nb::class_<Model>(m, "ModelFile", "All that a model file holds.")
      .def_prop_ro(
          "graph", [](Model& self) -> Graph& { return self.graph; }, nb::rv_policy::reference_internal)
      .def_prop_ro("preprocess", [](const Model& self) -> std::optional<Preprocess> { return self.preprocess; })
      .def_ro("labels", &Model::labels)
      .def_ro("description", &Model::description)
      .def_ro("metadata", &Model::metadata)
      .def_prop_ro("warnings", [](const Model& self) {
        std::vector<std::string> warnings = self.warnings;
        for (std::string& warning : warnings) warning = in_pythons_words(std::move(warning));
        return warnings;
      });
  m.def("load_model", &load_file, nb::arg("file"),
        nb::sig("def load_model(file: str | os.PathLike[str] | bytes) -> ModelFile"));
  m.def(
      "require_labels",
      [](const Graph& graph, std::vector<std::string> labels, Metadata metadata) {
        detail::require_labels(model_of(graph, std::nullopt, std::move(labels), std::move(metadata)));
      },
      nb::arg("graph"), nb::arg("labels"), nb::arg("metadata"),
      nb::sig(
          "def require_labels(graph: Graph, labels: collections.abc.Sequence[str], metadata: dict[str, str]) -> None"));
  m.def("load_arch", &load_arch, nb::arg("name"), nb::arg("weights"), nb::arg("key"), nb::arg("strip_prefix"),
        nb::sig("def load_arch(name: str, weights: str | os.PathLike[str] | bytes | dict[str, typing.Any], key: str, "
                "strip_prefix: str) -> ModelFile"));
  m.def("save_model", &save_file, nb::arg("path"), nb::arg("graph"), nb::arg("preprocess").none(), nb::arg("labels"),
        nb::arg("metadata"),
        nb::sig("def save_model(path: str | os.PathLike[str], graph: Graph, preprocess: Preprocess | None, labels: "
                "collections.abc.Sequence[str], metadata: dict[str, str]) -> None"));
  m.def(
      "arch_names",
      [] {
        nb::list names;
        for (const std::string_view name : network_names()) names.append(std::string(name));
        return names;
      },
      nb::sig("def arch_names() -> list[str]"), "The ready-made networks that arch() knows.");
  m.def("for_photographs", &for_photographs, nb::arg("graph"), nb::arg("preprocess").none() = nb::none(),
        nb::sig("def for_photographs(graph: Graph, preprocess: Preprocess | None = None) -> Graph"));
  m.def("as_input", &input_of, nb::arg("pictures"), nb::arg("graph"),
        nb::sig("def as_input(pictures: numpy.typing.NDArray[numpy.float32], graph: Graph) -> "
                "numpy.typing.NDArray[typing.Any]"));
  m.def("top_classes", &top_classes, nb::arg("graph"), nb::arg("scores"), nb::arg("k"),
        nb::sig("def top_classes(graph: Graph, scores: typing.Any, k: int) -> list[list[tuple[int, float]]]"),
        "The k classes with the highest probability of each row of the graph's output [N, classes].");
}

}  // namespace lamina::python
