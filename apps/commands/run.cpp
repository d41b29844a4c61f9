#include <fmt/core.h>
#include <lamina/lamina.h>

#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/base/names.h"
#include "lamina/files/npy.h"
#include "lamina/files/safetensors.h"
#include "model_options.h"
#include "options.h"
#include "outputs.h"
#include "photos/photos.h"

namespace lamina::app {
namespace {

struct RunCommandOptions {
  ModelOptions model;
  std::string input, out;
  std::vector<std::string> outputs;
  JsonOutput json;
  PhotoOptions photo;
  RunOptions run;
};

constexpr std::int64_t most_values = 10'000;  // of an output that are worth having as text

nlohmann::ordered_json as_json(const std::string& name, const Tensor& tensor) {
  nlohmann::ordered_json json = {{"name", name},
                                 {"dtype", lamina::name(tensor.dtype())},
                                 {"shape", std::vector(tensor.shape().begin(), tensor.shape().end())}};
  if (tensor.numel() > most_values) return json;
  const Tensor numbers = tensor.to(Device::cpu()).to(DType::f64);
  const std::span<const double> values = numbers.values<double>();
  json["values"] = std::vector(values.begin(), values.end());
  return json;
}

void run(const RunCommandOptions& options) {
  if (options.out.empty() && !options.json.asked()) throw CLI::RequiredError("--out FILE or --json");
  Model model = options.model.load();
  print_warnings(model);
  if (options.input.empty() && !model.graph.inputs().empty()) {
    throw Error("expected --input FILE; the model's inputs: " + listed(model.graph.input_names()));
  }
  if (is_photo(options.input)) {
    model.preprocess = options.model.preprocess_of(model);
  } else if (options.model.preprocess.given()) {
    throw Error(fmt::format("--preprocess, --size and the like say how a photograph becomes the input: {} is none",
                            detail::printable(options.input)));
  }
  CompileOptions compile = options.run.compile_options(1);
  std::vector<Tensor> inputs;
  if (!options.input.empty()) {
    inputs = read_inputs(options.input, model, compile.constants, options.photo.image());
  }
  options.model.inputs.settle(compile, model.graph);
  require_nodes(model.graph, "--outputs", options.outputs);
  compile.outputs = options.outputs;
  Plan plan = compile_for(model.graph, std::move(compile), inputs);
  const bool array = options.out.ends_with(".npy");
  if (array && plan.output_names().size() != 1) {
    throw Error(
        fmt::format("--out: an .npy holds one array, and there are {}: {}; --outputs names one of them, a "
                    ".safetensors file holds all",
                    plan.output_names().size(), listed({plan.output_names().begin(), plan.output_names().end()})));
  }
  const std::span<const Tensor> results = plan.run(inputs);
  say_not_finite(plan, results);
  Weights out;
  auto json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string& name = plan.output_names()[i];
    out.set(name, results[i]);
    if (options.json.asked()) json.push_back(as_json(name, results[i]));
    if (!options.json.to_stdout()) fmt::print("{}: {}\n", detail::printable(name), results[i].description());
  }
  if (array) {
    save_npy(options.out, results[0]);
  } else if (!options.out.empty()) {
    out.save(options.out);
  }
  options.json.write(json);
  if (!options.out.empty() && !options.json.to_stdout()) fmt::print("wrote {}\n", options.out);
}

}  // namespace

void add_run(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "run", "Run a model on tensors or a photograph and write its outputs", run);
  options->model.add_to(*command);
  options->model.inputs.add_capacity_to(*command);
  options->model.add_preprocess_to(*command);
  command->add_option("--input", options->input, "inputs: .safetensors or .npz by input name, .npy, or a photograph");
  writes(command->add_option("--out,--output", options->out,
                             "where to write the outputs (.safetensors), or the only one (.npy)"))
      ->check(ends_in(".safetensors", ".npy"));
  options->json.add_to(*command, "the outputs: names, shapes, and the values of those of at most 10,000");
  command
      ->add_option("--outputs", options->outputs,
                   "nodes whose values are written in place of the model's outputs: embeddings, maps")
      ->type_name("NAME")
      ->delimiter(',');
  options->photo.add_reading_to(*command);
  options->run.add_to(*command);
  command->footer(
      "Example:\n"
      "  lamina run --model alexnet-conv1 --input photo.jpg --out maps.safetensors");
}

}  // namespace lamina::app
