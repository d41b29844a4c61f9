#include "bench_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <random>

#include "bench_timer.h"
#include "inputs.h"
#include "lamina/graph/text_table.h"
#include "model_options.h"
#include "options.h"
#include "text.h"

namespace lamina::app {
namespace {

struct Options {
  ModelOptions model;
  std::int64_t batch = 1;
  double seconds = 1;
  RunOptions run;
};

std::vector<Tensor> random_inputs(const Plan& plan) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (const Shape& shape : plan.input_shapes()) {
    Tensor input(shape);
    for (float& value : input.values<float>()) value = normal(random);
    inputs.push_back(input.to(plan.options().device));
  }
  return inputs;
}

/// FLOPs of every node.
std::map<std::string, double> flops_of(const Graph& graph, std::int64_t batch) {
  const std::vector<Shape> shapes = graph.shapes(batch);
  std::map<std::string, double> result;
  for (const Graph::Node& node : graph.nodes()) {
    if (node.module == nullptr) continue;
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(shapes[static_cast<std::size_t>(input)]);
    result[node.name] = node.module->flops(inputs);
  }
  return result;
}

void bench(const Options& options) {
  const Model model = options.model.load();
  print_warnings(model);
  Plan plan = model.graph.compile(options.run.compile_options(options.batch));
  const std::vector<Tensor> inputs = random_inputs(plan);
  const Device device = plan.options().device;
  const Timing whole =
      time_calls(device, 1, options.seconds, [&](int, void* stream) { (void)plan.run(inputs, stream); });
  const std::vector<StepTime> steps = plan.profile(inputs, std::max(5, whole.samples));

  double sum = 0;
  for (const StepTime& step : steps) sum += step.milliseconds;
  auto flops = flops_of(model.graph, options.batch);
  detail::TextTable table({"step", "fused", "kernel", "ms", "%", "GFLOP/s"});
  for (const StepTime& step : steps) {
    const double rate = flops[step.name] / (step.milliseconds * 1e6);
    table.add({step.name, step.fused, step.kernel, detail::format_fixed(step.milliseconds, 3),
               detail::format_fixed(100 * step.milliseconds / sum, 1), rate > 0 ? detail::format_fixed(rate, 0) : ""});
  }
  table.add_total({"sum of the steps", "", "", detail::format_fixed(sum, 3), "100.0", ""});
  fmt::print("{}", table.to_string());
  fmt::print("a whole run of batch {}: {:.3f} ms (p10 {:.3f}, p90 {:.3f}), {:.1f} images/s, {} on {}\n", options.batch,
             whole.median, whole.p10, whole.p90, static_cast<double>(options.batch) / whole.median * 1e3,
             name(plan.options().precision), describe_device(device, plan.options().threads));
}

}  // namespace

void add_bench_model(CLI::App& group) {
  auto options = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("model", "Time a whole network and each of its layers");
  options->model.add_to(*command);
  command->add_option("--batch", options->batch, "images that run together")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "how long to measure")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  options->run.add_to(*command);
  command->footer(
      "Medians after a warm-up, on random inputs that are on the device already. Steps are timed one by one, so their\n"
      "sum differs from a whole run.\n"
      "Example:\n"
      "  lamina bench model --model weights/alexnet-conv1.safetensors --batch 8");
  command->callback([options] { bench(*options); });
}

}  // namespace lamina::app
