// read_lines MODEL FOLDER: a recogniser of text in eight bits, and how many lines of read_lines.py's it reads as
// before.

#include <lamina/lamina.h>
#include <lamina/quantize/quantizer.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

const lamina::Shape shape = {1, 3, 48, 320};

std::vector<lamina::Tensor> read(const std::string& path, int count) {
  std::ifstream file(path, std::ios::binary);
  std::vector<lamina::Tensor> result;
  for (int i = 0; i < count; ++i) {
    lamina::Tensor line(shape);
    file.read(static_cast<char*>(line.raw()), static_cast<std::streamsize>(line.bytes()));
    if (file) result.push_back(line);
  }
  return result;
}

/// The classes of the steps, without repetitions and the one that is none.
std::vector<std::vector<std::ptrdiff_t>> texts(const lamina::Graph& graph, const std::vector<lamina::Tensor>& lines,
                                               const lamina::CompileOptions& options) {
  lamina::Plan plan = graph.compile(options);
  std::vector<std::vector<std::ptrdiff_t>> result;
  for (const lamina::Tensor& line : lines) {
    const lamina::Tensor scores = plan.run(line);
    const auto classes = static_cast<std::size_t>(scores.shape()[-1]);
    std::ptrdiff_t last = 0;
    result.emplace_back();
    for (std::size_t i = 0; i < scores.values<float>().size(); i += classes) {
      const auto step = scores.values<float>().subspan(i, classes);
      const std::ptrdiff_t best = std::ranges::max_element(step) - step.begin();
      if (best != last && best != 0) result.back().push_back(best);
      last = best;
    }
  }
  return result;
}

}  // namespace

int main(int, char** argv) {
  const std::string folder = argv[2];
  const lamina::Model model = lamina::load_model(argv[1]);
  const std::string input = model.graph.nodes()[static_cast<std::size_t>(model.graph.inputs()[0])].name;
  const lamina::CompileOptions options = {.device = lamina::Device::cpu(), .input_shapes = {{input, shape}}};
  const auto samples = read(folder + "/calibration.f32", 32), lines = read(folder + "/lines.f32", 200);
  const lamina::Quantized result = lamina::quantize(model, samples, {.compile = options});
  const auto before = texts(model.graph, lines, options), after = texts(result.model.graph, lines, options);
  int same = 0;
  for (std::size_t i = 0; i < before.size(); ++i) same += before[i] == after[i] ? 1 : 0;
  const auto in_eight = std::ranges::count_if(result.layers, &lamina::QuantizedLayer::quantized);
  std::printf("%td of %zu layers in eight bits; outputs off by %.4f; %d of %zu lines are read alike\n", in_eight,
              result.layers.size(), result.error, same, before.size());
}
