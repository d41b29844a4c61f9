#include "quantize/quantize.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <vector>

#include "gil.h"
#include "lamina/base/error.h"
#include "lamina/quantize/quantizer.h"
#include "lent.h"
#include "model.h"
#include "options.h"

namespace lamina::python {
namespace {

Calibration calibration_of(const std::string& name) {
  if (name == "minmax") return Calibration::minmax;
  if (name == "percentile") return Calibration::percentile;
  detail::fail("quantize: calibration: expected minmax or percentile, got \"", name, '"');
}

/// (the model, [(name, op, error, quantized, why)], error, agreement, compared, held back, equalized)
nb::tuple quantize_graph(const Graph& graph, std::optional<Preprocess> preprocess, std::vector<std::string> labels,
                         const nb::list& samples, const std::string& calibration, double max_error, bool equalize,
                         bool correct_bias, nb::handle progress, const nb::kwargs& fields) {
  QuantizeOptions options = {.calibration = calibration_of(calibration),
                             .max_error = max_error,
                             .equalize = equalize,
                             .correct_bias = correct_bias,
                             .compile = options_from(fields, nullptr)};
  if (!progress.is_none()) {
    options.progress = [&](std::size_t done, std::size_t most) {
      const WithGil gil;
      if (gil.held()) progress(done, most);
    };
  }
  std::vector<Lent> lent;
  std::vector<Tensor> tensors;
  for (const nb::handle sample : samples) {
    tensors.push_back(lent.emplace_back(sample, "quantize: a sample", Lent::Access::read).tensor());
  }
  const Model model = model_of(graph, preprocess, std::move(labels));
  Quantized result = interruptible(options.compile.stop, [&] { return quantize(model, tensors, options); });
  nb::list layers;
  for (const QuantizedLayer& layer : result.layers)
    layers.append(nb::make_tuple(layer.name, layer.op, layer.error, layer.quantized, layer.why));
  return nb::make_tuple(nb::cast(std::move(result.model)), layers, result.error, result.agreement, result.compared,
                        result.held_back, result.equalized);
}

}  // namespace

void bind_quantize(nb::module_& m) {
  m.def(
      "require_quantizable",
      [](const Graph& graph, std::vector<std::string> labels, const std::filesystem::path& out) {
        require_quantizable(model_of(graph, {}, std::move(labels)), out);
      },
      nb::arg("graph"), nb::arg("labels"), nb::arg("out"),
      nb::sig(
          "def require_quantizable(graph: Graph, labels: collections.abc.Sequence[str], out: str | os.PathLike[str]) "
          "-> None"));
  m.def("quantize", &quantize_graph, nb::arg("graph"), nb::arg("preprocess").none(), nb::arg("labels"),
        nb::arg("samples"), nb::arg("calibration"), nb::arg("max_error"), nb::arg("equalize"), nb::arg("correct_bias"),
        nb::arg("progress").none(), nb::arg("options"),
        nb::sig("def quantize(graph: Graph, preprocess: Preprocess | None, labels: collections.abc.Sequence[str], "
                "samples: list[typing.Any], calibration: str, max_error: float, equalize: bool, correct_bias: bool, "
                "progress: collections.abc.Callable[[int, int], object] | None, **options: typing.Any) -> "
                "tuple[ModelFile, list[tuple[str, str, float, bool, str]], float, float, int, int, int]"));
}

}  // namespace lamina::python
