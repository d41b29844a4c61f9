#include "inputs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "complain.h"
#include "photos.h"

namespace lamina::app {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const std::string& message) { throw Error(message); }

/// The batch is the caller's; everything else of an input's shape is the network's.
void require_shape(const Shape& shape, const Graph& graph, const std::string& input, const std::string& path) {
  for (const int i : graph.inputs()) {
    const Graph::Node& node = graph.nodes()[static_cast<std::size_t>(i)];
    if (node.name != input) continue;
    const auto got = shape.extents(), expected = node.shape.extents();
    const bool fits = std::ranges::equal(
        got, expected, [](std::int64_t extent, std::int64_t wanted) { return extent == wanted || wanted == batch; });
    if (!fits) {
      fail(fmt::format("{}: expected {} for input \"{}\", got {}", path, node.shape.to_string(), input,
                       shape.to_string()));
    }
  }
}

}  // namespace

std::string default_model() { return shipped_file("alexnet-conv1.safetensors"); }

std::string shipped_file(const std::string& name) {
  const fs::path shipped = "weights/" + name;
  std::error_code ignored;
  const fs::path folder = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& candidate :
       {shipped, folder / "../../.." / shipped, folder / "../share/lamina" / shipped.filename()}) {
    if (fs::exists(candidate, ignored)) return candidate.lexically_normal().string();
  }
  return shipped.string();
}

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const int node : graph.inputs()) names.push_back(graph.nodes()[static_cast<std::size_t>(node)].name);
  return names;
}

std::vector<Tensor> read_inputs(const fs::path& path, const Model& model, const ImageOptions& options) {
  const std::vector<std::string> names = input_names(model.graph);
  if (is_photo(path)) {
    if (names.size() != 1)
      fail(fmt::format("{}: a photograph serves a model of one input, this one has {}", path.string(), names.size()));
    if (!model.preprocess)
      fail(
          fmt::format("{}: the model does not say how a photograph becomes its input (no lamina.preprocess; "
                      "scripts/export_torch.py --preprocess puts it in)",
                      path.string()));
    return {load_image(path, *model.preprocess, options)};
  }
  const Weights file = Weights::open(path);
  std::vector<Tensor> inputs;
  for (const std::string& name : names) {
    const bool lone = names.size() == 1 && file.size() == 1;
    if (!file.contains(name) && !lone) {
      fail(fmt::format("{}: expected a tensor \"{}\" for the model's input; the file has {}", path.string(), name,
                       listed(file.names())));
    }
    inputs.push_back((file.contains(name) ? file.at(name) : file.at(file.names()[0])).to(DType::f32));
    require_shape(inputs.back().shape(), model.graph, name, path.string());
  }
  return inputs;
}

void require_safetensors_name(const std::string& path) {
  constexpr std::array<std::string_view, 18> others = {".npy",  ".npz",     ".pth",        ".pt",   ".ckpt", ".pkl",
                                                       ".bin",  ".onnx",    ".h5",         ".hdf5", ".pb",   ".tflite",
                                                       ".gguf", ".mlmodel", ".caffemodel", ".json", ".csv",  ".zip"};
  if (std::ranges::find(others, fs::path(path).extension().string()) != others.end()) {
    fail(fmt::format("expected a name that ends in .safetensors, which is what is written, got {}", path));
  }
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  const std::span<const std::string> shown = std::span(names).first(std::min(most, names.size()));
  std::string text = names.empty() ? "none" : fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return detail::printable(text);
}

std::int64_t batch_of(const std::vector<Tensor>& inputs) {
  std::int64_t common = 0;
  for (const Tensor& input : inputs) {
    if (input.shape().rank() == 0) fail("expected inputs with a batch in front, got a scalar");
    const std::int64_t n = input.shape()[0];
    if (common != 0 && n != common) fail(fmt::format("expected inputs of one batch, got {} and {}", common, n));
    common = n;
  }
  if (common < 1) fail(fmt::format("expected a batch of 1 or more, got {}", common));
  return common;
}

void print_warnings(const Model& model) {
  for (const std::string& warning : model.warnings) complain("warning: " + warning);
}

}  // namespace lamina::app
