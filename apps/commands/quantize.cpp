#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/each_photo.h"
#include "commands/interrupt.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/base/text_table.h"
#include "lamina/files/safetensors.h"
#include "lamina/onnx/onnx.h"
#include "lamina/quantize/quantizer.h"
#include "model_options.h"
#include "models/shipped.h"
#include "options.h"
#include "outputs.h"
#include "progress.h"

namespace lamina::app {
namespace fs = std::filesystem;
namespace {

struct QuantizeCommand {
  ModelOptions model;
  PhotoOptions photos;
  std::string out, calibration = "minmax";
  QuantizeOptions how;
  bool plain = false, force = false;
  JsonOutput json;
  RunOptions run;
};

/// Photographs as inputs of `batch` images; those that cannot be read are named and passed over, which `good` then
/// says.
std::vector<Tensor> read_samples(const Photos& photos, const Graph& graph, const Preprocess& preprocess,
                                 const ImageOptions& options, std::int64_t batch, bool& good) {
  PhotoReader reader(options);
  std::vector<Tensor> samples;
  std::int64_t row = batch;
  const auto work = [&](const fs::path& photo) {
    return reader.read(photo, [&](const Image& read) { return lamina::preprocess(read, preprocess); });
  };
  auto failures = nlohmann::ordered_json::array();
  good = each_photo(photos, 1, failures, work, [&](const fs::path&, const Tensor& image) {
    if (row == batch) {
      samples.emplace_back(Shape{batch, 3, preprocess.crop, preprocess.width()});
      row = 0;
    }
    // What is left of the last batch shows its first photograph again.
    for (std::int64_t at = row++; at < batch; ++at) samples.back().slice(at, at + 1).copy_from(image);
  });
  if (Interruptible::asked()) throw Failed();
  if (samples.empty()) throw Error("no photograph could be read: there is nothing to calibrate with");
  for (Tensor& sample : samples) sample = as_input(sample, graph);
  return samples;
}

std::string table_of(const Quantized& quantized) {
  detail::TextTable table({"layer", "op", "error if it alone is in eight bits", ""});
  for (const QuantizedLayer& layer : quantized.layers) {
    const bool measured = layer.quantized || layer.why == "its error";
    table.add({layer.name, layer.op, measured ? fmt::format("{:.5f}", layer.error) : "",
               layer.quantized ? "" : "left in floats: " + layer.why});
  }
  return table.to_string();
}

/// What was measured, in counts; and what so few photographs do not tell.
std::string summary_of(const Quantized& quantized, std::size_t samples, std::size_t batch) {
  constexpr std::size_t few = 25;
  const std::size_t photos = quantized.held_back * batch;
  std::string text =
      fmt::format("{} of {} layers in eight bits; on {} held back the outputs are off by {:.5f}",
                  std::ranges::count_if(quantized.layers, &QuantizedLayer::quantized), quantized.layers.size(),
                  samples == 1  ? "the only photograph, not"
                  : photos == 1 ? "the one photograph"
                                : fmt::format("{} photographs", photos),
                  quantized.error);
  if (quantized.compared > 0)
    text += fmt::format(", {:.0f} of {} keep their best class",
                        quantized.agreement * static_cast<double>(quantized.compared), quantized.compared);
  if (photos < few) text += "; so few tell little of others: give some hundred photographs";
  return text;
}

nlohmann::ordered_json json_of(const Quantized& quantized) {
  auto layers = nlohmann::ordered_json::array();
  for (const QuantizedLayer& layer : quantized.layers) {
    layers.push_back({{"name", layer.name}, {"op", layer.op}, {"error", layer.error}, {"quantized", layer.quantized}});
    if (!layer.why.empty()) layers.back()["why"] = layer.why;
  }
  return {{"error", quantized.error},         {"agreement", quantized.agreement}, {"compared", quantized.compared},
          {"held_back", quantized.held_back}, {"equalized", quantized.equalized}, {"layers", layers}};
}

void quantize_model(const QuantizeCommand& command) {
  const Photos photos = find_photos(command.photos);
  const Model model = command.model.load();
  print_warnings(model);
  // What cannot be is said before the first photograph is read.
  naming(command.model.source(), [&] { require_quantizable(model, command.out); });
  const Preprocess preprocess = command.model.preprocess_of(model);
  const Graph::Node& input = input_node(model.graph);
  const std::int64_t batch = input.shape->has_batch() ? 1 : (*input.shape)[0];
  QuantizeOptions how = command.how;
  how.equalize = how.correct_bias = !command.plain;
  how.calibration = command.calibration == "minmax" ? Calibration::minmax : Calibration::percentile;
  how.compile = command.run.compile_options(1);
  how.compile.input_shapes = command.model.shapes(model.graph);
  bool good = true;
  const std::vector<Tensor> samples =
      read_samples(photos, model.graph, preprocess, command.photos.image(), batch, good);
  if (std::ranges::find(*input.shape, open) != input.shape->end())
    how.compile.input_shapes[input.name] = samples[0].shape();
  std::optional<Progress> progress;
  how.progress = [&](std::size_t, std::size_t most) {
    if (!progress) progress.emplace(most, "measurements");
    progress->advance();
  };
  Quantized quantized = naming(command.model.source(), [&] { return quantize(model, samples, how); });
  progress.reset();
  if (!quantized.model.preprocess) quantized.model.preprocess = preprocess;
  if (!command.json.to_stdout()) fmt::print("{}", table_of(quantized));
  command.json.write(json_of(quantized));
  if (!(quantized.error < 1) && !command.force) {
    throw Error(
        fmt::format("{}: in eight bits the outputs are off by {:.3g} times what they are: nothing was written; "
                    "--max-error leaves layers in floats, --force writes it nevertheless",
                    command.model.source(), quantized.error));
  }
  const bool onnx = fs::path(command.out).extension() == ".onnx";
  onnx ? save_onnx(command.out, quantized.model.graph) : save_model(command.out, quantized.model);
  if (!command.json.to_stdout())
    fmt::print("wrote {}: {}\n", command.out, summary_of(quantized, samples.size(), static_cast<std::size_t>(batch)));
  if (!good) throw Failed();
}

}  // namespace

void add_quantize(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "quantize", "Make a model that multiplies in eight bits", quantize_model);
  command
      ->add_option(
          "model", options->model.model,
          "the model: a .safetensors file that describes itself, or .onnx; or digits or classifier, as --model "
          "of other commands")
      ->required()
      ->transform(shipped(model_file));
  options->photos.add_to(*command);
  writes(command->add_option(
             "--out", options->out,
             "the .safetensors file to write, or the .onnx file, without what the model says of photographs"))
      ->required()
      ->check(ends_in(".safetensors", ".onnx"));
  command
      ->add_option("--max-error", options->how.max_error,
                   "what the outputs may be off by, as a share of their size; layers stay in floats until it holds")
      ->check(real_number())
      ->default_str("");
  command->add_option("--calibration", options->calibration, "what the 256 levels of a value reach over")
      ->check(one_of({"minmax", "percentile"}));
  command->add_flag("--plain", options->plain, "neither bring channels to ranges alike nor correct biases");
  command->add_flag("--force", options->force,
                    "write the model also if its outputs are off by as much as they are large");
  options->model.inputs.add_to(*command);
  options->model.add_preprocess_to(*command);
  options->json.add_to(*command, "what became of each layer");
  options->run.add_to(*command);
  command->footer(
      "Photographs are what the model will see, some hundred of them: three of four tell which numbers occur in it, "
      "every fourth is held back to measure what was lost. The table says what each layer costs by itself. A "
      "photograph "
      "that cannot be read is reported and skipped; the exit code is then 1.\n"
      "Example:\n"
      "  lamina quantize digits photos/ --out digits8.safetensors --max-error 0.05");
}

}  // namespace lamina::app
