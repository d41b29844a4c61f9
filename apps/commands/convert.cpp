#include <fmt/core.h>
#include <lamina/lamina.h>

#include <cmath>

#include "commands/commands.h"
#include "complain.h"
#include "inputs.h"
#include "known_weights.h"
#include "lamina/files/safetensors.h"
#include "lamina/onnx/onnx.h"
#include "model_options.h"
#include "models/shipped.h"
#include "options.h"
#include "outputs.h"

namespace lamina::app {
namespace {

struct ConvertOptions {
  std::string in, out, arch, labels, dtype, task, layout;
  PreprocessOptions preprocess;
  OpenOptions open;
  InputOptions inputs;
};

/// Throws Error if a finite number became infinite.
void require_in_range(const std::string& name, const Tensor& before, const Tensor& after) {
  const Tensor a = before.to(DType::f64), b = after.to(DType::f64);
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.numel()); ++i) {
    const double value = a.values<double>()[i];
    if (std::isfinite(value) && !std::isfinite(b.values<double>()[i])) {
      throw Error(fmt::format("{}: {:g} is beyond the range of {}", name, value, lamina::name(after.dtype())));
    }
  }
}

Weights converted(const Weights& weights, DType dtype) {
  Weights result;
  for (const std::string& name : weights.names()) {
    const Tensor tensor = weights.at(name);
    const Tensor other = is_float(tensor.dtype()) ? tensor.to(dtype) : tensor;
    if (other.dtype() != tensor.dtype()) require_in_range(name, tensor, other);
    result.set(name, other);
  }
  result.metadata() = weights.metadata();
  return result;
}

void convert(const ConvertOptions& options) {
  const bool onnx = detail::is_onnx_file(options.in);
  if (onnx && !(options.open.key + options.open.strip_prefix).empty()) {
    throw Error("--key and --strip-prefix are for weights: an .onnx model names its own");
  }
  Weights weights = onnx ? to_weights(open_model(options.in)) : open_weights(options.in, options.open);
  const bool noted = !(options.task + options.layout).empty() || options.inputs.given();
  if (!options.arch.empty() || !options.labels.empty() || options.preprocess.given() || noted) {
    Model model = options.arch.empty() ? open_model(options.in) : model_of(options.arch, weights, options.in);
    print_warnings(model);
    options.inputs.apply(model.graph);
    if (!options.inputs.shapes.empty())
      model.graph = with_inputs(model.graph, options.inputs.shapes_of(model.graph), {});
    if (options.preprocess.given()) model.preprocess = options.preprocess.of(model, {}, options.in);
    if (options.preprocess.given() && model.preprocess->aspect == Aspect::kept &&
        purpose_of(model).command == "segment")
      complain("from now on the model sees the middle of a photograph; --fit stretch writes that it sees all of it");
    if (!options.task.empty()) model.metadata["task"] = options.task;
    if (!options.layout.empty()) model.metadata["layout"] = options.layout;
    // Of a detector the outputs do not say how many classes there are.
    if (!options.labels.empty() && model.metadata.contains("task")) {
      model.labels = read_labels(options.labels);
    } else if (!options.labels.empty()) {
      set_labels(model, read_labels(options.labels), options.labels);
    }
    weights = to_weights(model);
  }
  if (!options.dtype.empty() && onnx) {
    throw Error("--dtype: the tensors of an .onnx model have the types that its ops compute with, and keep them");
  }
  if (!options.dtype.empty()) weights = converted(weights, *find_dtype(options.dtype));
  weights.save(options.out);
  fmt::print("wrote {}: {} {}{}\n", options.out, weights.size(), weights.size() == 1 ? "tensor" : "tensors",
             weights.metadata().contains("lamina.graph") ? " and the graph that uses them" : "");
}

}  // namespace

void add_convert(CLI::App& app) {
  const auto [command, options] =
      add_command(app, "convert", "Write weights of any format as one .safetensors file", convert);
  command->add_option("in", options->in, "weights: .pth, .pt, .safetensors, .npy, .npz; or an .onnx model")
      ->required()
      ->transform(shipped(model_file));
  writes(command->add_option("out,--out", options->out, "the .safetensors file to write"))
      ->required()
      ->check(ends_in(".safetensors"));
  command->add_option("--arch", options->arch, "the ready-made network that they belong to: makes a model file")
      ->check(network_name());
  command
      ->add_option("--labels", options->labels,
                   "class names, one on each line, or imagenet, to put into the model file in place of its own")
      ->transform(shipped(labels_file));
  command->add_option("--task", options->task, "what a detector finds, where its exporter did not note it")
      ->check(one_of({"detect", "segment", "pose", "obb"}));
  command->add_option("--layout", options->layout, "how a detector's output is laid out, where its shape does not tell")
      ->check(one_of({"raw", "objectness", "end2end", "queries", "queries_by_class"}));
  add_open_to(*command, options->open);
  options->inputs.add_to(*command);
  options->preprocess.add_to(*command, size_help);
  command->add_option("--dtype", options->dtype, "store floats as")->check(one_of({"f32", "f16", "bf16"}));
  command->footer(
      "Without --arch the file holds the tensors alone, or the model that the input is.\n"
      "Examples:\n"
      "  lamina convert alexnet-owt-7be5be79.pth alexnet.safetensors --arch alexnet\n"
      "  lamina convert last.ckpt ema.safetensors --key ema --strip-prefix backbone.");
}

}  // namespace lamina::app
