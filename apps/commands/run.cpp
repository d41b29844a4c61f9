#include <fmt/core.h>
#include <lamina/lamina.h>

#include "commands/commands.h"
#include "inputs.h"
#include "lamina/base/names.h"
#include "model_options.h"
#include "options.h"
#include "outputs.h"
#include "photos/photos.h"

namespace lamina::app {
namespace {

struct RunCommandOptions {
  ModelOptions model;
  std::string input, output;
  std::vector<std::string> outputs;
  PhotoOptions photo;
  RunOptions run;
};

void run(const RunCommandOptions& options) {
  require_safetensors_name(options.output);
  const Model model = options.model.load();
  print_warnings(model);
  if (options.input.empty() && !model.graph.inputs().empty()) {
    throw Error("expected --input FILE; the model's inputs: " + listed(input_names(model.graph)));
  }
  std::vector<Tensor> inputs;
  if (!model.graph.inputs().empty()) inputs = read_inputs(options.input, model, options.photo.image());
  CompileOptions compile = options.run.compile_options(1);
  compile.input_shapes = options.model.shapes(model.graph);
  compile.outputs = options.outputs;
  Plan plan = compile_for(model.graph, std::move(compile), inputs);
  const std::span<const Tensor> results = plan.run(inputs);
  Weights out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    out.set(plan.output_names()[i], results[i]);
    fmt::print("{}: {}\n", detail::printable(plan.output_names()[i]), results[i].description());
  }
  out.save(options.output);
  fmt::print("wrote {}\n", options.output);
}

}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* command = app.add_subcommand("run", "Run a model on tensors or a photograph and write its outputs");
  options->model.add_to(*command);
  command->add_option("--input", options->input, "inputs: .safetensors by input name, .npy, or a photograph");
  writes(command->add_option("--output", options->output, "where to write the outputs (.safetensors)"))->required();
  command
      ->add_option("--outputs", options->outputs,
                   "nodes whose values are written in place of the model's outputs: embeddings, maps")
      ->type_name("NAME")
      ->delimiter(',');
  options->photo.add_reading_to(*command);
  options->run.add_to(*command);
  command->footer(
      "Example:\n"
      "  lamina run --model weights/alexnet-conv1.safetensors --input docs/images/chelsea.png --output "
      "maps.safetensors");
  command->callback([options] { run(*options); });
}

}  // namespace lamina::app
