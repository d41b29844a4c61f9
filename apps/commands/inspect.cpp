#include <fmt/core.h>
#include <fmt/ranges.h>
#include <lamina/lamina.h>

#include <cmath>
#include <limits>

#include "commands/commands.h"
#include "inputs.h"
#include "lamina/base/names.h"
#include "lamina/base/text_table.h"
#include "lamina/compile/passes.h"
#include "lamina/onnx/onnx.h"
#include "model_options.h"
#include "options.h"

namespace lamina::app {
namespace {

struct InspectOptions {
  std::string file;
  std::vector<std::string> input_shapes;
  std::int64_t batch = 1;
  bool plan = false, passes = false, photos = false;
  RunOptions run;
  OpenOptions open;
};

/// "min, max, mean" of the elements; non-finite ones are counted instead.
std::vector<std::string> statistics(const Weights& weights, const TensorInfo& info) {
  Tensor tensor;
  try {
    tensor = weights.at(info.name).to(DType::f64);
  } catch (const Error&) {
    return {"", "", "(listed only)"};
  }
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  double sum = 0;
  std::int64_t odd = 0;
  for (const double value : tensor.values<double>()) {
    if (!std::isfinite(value)) {
      ++odd;
      continue;
    }
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  const auto finite = static_cast<double>(tensor.numel() - odd);
  if (finite == 0) return {"", "", odd > 0 ? "all non-finite" : "empty"};
  std::string mean = fmt::format("{:.4g}", sum / finite);
  if (odd > 0) mean += fmt::format(" ({} non-finite)", odd);
  return {fmt::format("{:.4g}", low), fmt::format("{:.4g}", high), mean};
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

void print_tensors(const Weights& weights) {
  detail::TextTable table({"tensor", "dtype", "shape", "bytes", "min", "max", "mean"});
  std::uint64_t bytes = 0;
  for (const TensorInfo& info : weights.entries()) {
    const auto s = statistics(weights, info);
    table.add({info.name, info.dtype, shape_text(info.shape),
               detail::format_count(static_cast<std::int64_t>(info.bytes)), s[0], s[1], s[2]});
    bytes += info.bytes;
  }
  table.add_total({"total", "", "", detail::format_count(static_cast<std::int64_t>(bytes)), "", "", ""});
  fmt::print("{}", table.to_string());
}

void print_preprocess(const Preprocess& p) {
  fmt::print(
      "\npreprocess: {} to {}, centre crop {}, {}levels / {:g}, mean [{:g}, {:g}, {:g}], std [{:g}, {:g}, {:g}]\n",
      p.aspect == Aspect::ignored ? "both sides" : "short side", p.resize, p.crop,
      p.order == ChannelOrder::bgr ? "blue first, " : "", p.divisor, p.mean[0], p.mean[1], p.mean[2], p.std[0],
      p.std[1], p.std[2]);
}

CompileOptions compile_options(const Model& model, const InspectOptions& options) {
  CompileOptions compile = options.run.compile_options(options.batch);
  compile.input_shapes = parse_shapes(options.input_shapes, model.graph);
  if (options.photos) compile.photos = model.preprocess.value_or(torchvision_imagenet());
  return compile;
}

void print_plan(const Model& model, const InspectOptions& options) {
  fmt::print("{}", model.graph.plan_summary(compile_options(model, options)));
}

/// Of a file of weights alone there is nothing to compile.
void print_passes(const InspectOptions& options) {
  if (!detail::is_onnx_file(options.file) &&
      !open_weights(options.file, options.open).metadata().contains("lamina.graph"))
    return fmt::print("{}", detail::describe_passes());
  const Model model = open_model(options.file);
  fmt::print("{}", detail::describe_passes(model.graph, compile_options(model, options)));
}

void print_model(const Model& model, const InspectOptions& options) {
  print_warnings(model);
  CompileOptions shapes = {.batch = options.batch};
  shapes.input_shapes = parse_shapes(options.input_shapes, model.graph);
  fmt::print("\n{}\n", model.graph.summary(shapes));
  print_plan(model, options);
  if (model.preprocess) print_preprocess(*model.preprocess);
  if (!model.labels.empty())
    fmt::print("labels: {}, from {} to {}\n", model.labels.size(), detail::quote(model.labels.front()),
               detail::quote(model.labels.back()));
  if (!model.description.empty()) fmt::print("for: {}\n", detail::printable(model.description));
}

void inspect(const InspectOptions& options) {
  if (options.passes) return print_passes(options);
  if (detail::is_onnx_file(options.file)) {
    const Model model = open_model(options.file);
    if (options.plan) return print_plan(model, options);
    fmt::print("{}: an ONNX model of {} nodes\n", options.file, model.graph.nodes().size());
    return print_model(model, options);
  }
  const Weights weights = open_weights(options.file, options.open);
  if (options.plan) return print_plan(open_model(options.file), options);
  fmt::print("{}: {} {}\n\n", options.file, weights.size(), weights.size() == 1 ? "tensor" : "tensors");
  print_tensors(weights);
  for (const auto& [key, value] : weights.metadata()) {
    if (!key.starts_with("lamina.") || key == "lamina.source")
      fmt::print("{}: {}\n", detail::printable(key), detail::printable(value));
  }
  if (!weights.metadata().contains("lamina.graph")) return;

  print_model(model_from(weights), options);
}

}  // namespace

void add_inspect(CLI::App& app) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show the tensors, the graph and the memory of a weight or model file");
  command->add_option("file", options->file, "a .safetensors, .pth, .pt, .npy, .npz or .onnx file")->required();
  add_open_to(*command, options->open);
  add_shapes_to(*command, options->input_shapes);
  command->add_option("--batch", options->batch, "batch that shapes and memory are shown for")
      ->check(whole_number(1, std::int64_t{1} << 20))
      ->capture_default_str();
  command->add_flag("--plan", options->plan,
                    "only how a model will run: kernels, what is fused, formats, FLOPs, bytes");
  command->add_flag("--passes", options->passes,
                    "only the passes that make a plan of a model, in order: what each does, and how many steps there "
                    "are after it");
  command->add_flag("--photos", options->photos, "a plan that takes 8-bit pictures, as classify runs it");
  options->run.add_to(*command);
  command->footer("Example:\n  lamina inspect weights/alexnet-conv1.safetensors --batch 256");
  command->callback([options] { inspect(*options); });
}

}  // namespace lamina::app
