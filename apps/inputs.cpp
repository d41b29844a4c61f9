#include "inputs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

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

bool is_named_like_photo(const fs::path& path) {
  constexpr std::array<std::string_view, 7> extensions = {".png", ".jpg", ".jpeg", ".bmp", ".tga", ".pgm", ".ppm"};
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::find(extensions.begin(), extensions.end(), extension) != extensions.end();
}

bool is_photo(const fs::path& path) {
  std::array<char, 64> head{};
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), head.size());
  const auto bytes = std::as_bytes(std::span(head)).first(static_cast<std::size_t>(file.gcount()));
  return is_image(bytes);
}

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

std::vector<Tensor> read_inputs(const fs::path& path, const Model& model) {
  const std::vector<std::string> names = input_names(model.graph);
  if (is_photo(path)) {
    if (names.size() != 1)
      fail(fmt::format("{}: a photograph serves a model of one input, this one has {}", path.string(), names.size()));
    if (!model.preprocess)
      fail(
          fmt::format("{}: the model does not say how a photograph becomes its input (no lamina.preprocess; "
                      "scripts/export_torch.py --preprocess puts it in)",
                      path.string()));
    return {load_image(path, *model.preprocess)};
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
  const std::string extension = fs::path(path).extension().string();
  for (const std::string_view other : {".npy", ".npz", ".pth", ".pt"}) {
    if (extension == other) {
      fail(fmt::format("expected a name that ends in .safetensors, which is what is written, got {}", path));
    }
  }
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 8;
  const std::span<const std::string> shown = std::span(names).first(std::min(most, names.size()));
  std::string text = names.empty() ? "none" : fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
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
  for (const std::string& warning : model.warnings) fmt::print(stderr, "lamina: warning: {}\n", warning);
}

std::vector<fs::path> find_photos(const std::vector<std::string>& paths) {
  std::vector<fs::path> photos;
  for (const fs::path path : paths) {
    std::error_code problem;
    if (fs::status(path, problem).type() == fs::file_type::not_found) {
      fail(path.string() + ": there is no such file or directory");
    }
    if (!fs::is_directory(path, problem)) {
      photos.push_back(path);
      continue;
    }
    std::vector<fs::path> found;
    const fs::directory_iterator entries(path, problem);
    if (problem) fail(fmt::format("{}: cannot be read: {}", path.string(), problem.message()));
    for (const auto& entry : entries) {
      // An empty or foreign file of such a name is to be reported, not passed over.
      if (entry.is_regular_file() && (is_named_like_photo(entry.path()) || is_photo(entry.path())))
        found.push_back(entry.path());
    }
    if (found.empty()) fail(path.string() + ": no photographs in this directory (PNG, JPEG, BMP, TGA, PGM, PPM)");
    std::sort(found.begin(), found.end());
    photos.insert(photos.end(), found.begin(), found.end());
  }
  return photos;
}

}  // namespace lamina::app
