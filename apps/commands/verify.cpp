#include <fmt/core.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>

#include "commands/commands.h"
#include "commands/comparison.h"
#include "complain.h"
#include "inputs.h"
#include "json_output.h"
#include "model_options.h"
#include "options.h"
#include "photos/photos.h"

namespace lamina::app {
namespace {

struct VerifyOptions {
  ModelOptions model;
  std::string golden, against, input;
  std::optional<double> rtol, atol;  // the precision's, unless they are given
  JsonOutput json;
  RunOptions run;
  const CLI::Option* precision = nullptr;  // which may be given
};

/// What whole networks need in each precision: docs/inside/precision.md has the measurements.
Tolerance usual_tolerance(Precision precision) {
  switch (precision) {
    case Precision::fp32: return {1e-4, 3e-5};
    case Precision::tf32:
    case Precision::fp16: return {1e-3, 2e-2};
    case Precision::bf16: return {1e-2, 2e-1};
  }
  return {};
}

/// "[0, 3, 1, 2]": where element `index` is.
std::string position(std::int64_t index, const Shape& shape) {
  std::string text;
  for (int i = static_cast<int>(shape.rank()) - 1; i >= 0; --i) {
    text = std::to_string(index % shape[i]) + (text.empty() ? "" : ", ") + text;
    index /= shape[i];
  }
  return '[' + text + ']';
}

class Verifier {
 public:
  /// `json` gets a line for each comparison.
  Verifier(const Weights& golden, const Tolerance& tolerance, bool prints, nlohmann::ordered_json& json)
      : golden_(golden), tolerance_(tolerance), prints_(prints), json_(json) {}

  /// Compares one node, prints its line, and remembers the first that fails.
  void check(const std::string& stage, const std::string& name, const Tensor& result) {
    const Tensor expected = golden_.at(name).to(DType::f64);
    ++compared_;
    json_.push_back({{"stage", stage}, {"name", name}, {"atol", tolerance_.atol}, {"rtol", tolerance_.rtol}});
    if (expected.shape() != result.shape()) {
      return note(stage, name, false,
                  fmt::format("expected shape {}, got {}", expected.shape().to_string(), result.shape().to_string()));
    }
    const Tensor actual = result.to(Device::cpu()).to(DType::f32);
    const Comparison c = compare(actual, expected, tolerance_);
    json_.back().update({{"rms", c.rms}, {"max_error", c.max_error}, {"differ", c.bad}, {"of", actual.numel()}});
    std::string text =
        fmt::format("rms {:.3g}, max error {:.2g} ({:.2g} of rms)", c.rms, c.max_error, c.error_of_rms());
    if (c.bad > 0) {
      const auto at = static_cast<std::size_t>(c.first_bad);
      text +=
          fmt::format("; {} of {} elements differ, first at {}: {:.9g}, expected {:.9g}", c.bad, actual.numel(),
                      position(c.first_bad, actual.shape()), actual.values<float>()[at], expected.values<double>()[at]);
    }
    note(stage, name, c.bad == 0, text);
  }

  /// Whether all passed, which it says.
  bool finish() const {
    const bool passed = first_failure_.empty();
    say(passed ? fmt::format("pass: {} comparison{} within atol {:g} of rms + rtol {:g}\n", compared_,
                             compared_ == 1 ? "" : "s", tolerance_.atol, tolerance_.rtol)
               : fmt::format("FAIL: the first to diverge is {}\n", first_failure_));
    return passed;
  }

 private:
  void say(const std::string& text) const {
    if (prints_) fmt::print("{}", text);
  }
  void note(const std::string& stage, const std::string& name, bool passed, const std::string& text) {
    json_.back().update({{"pass", passed}, {"says", text}});
    say(fmt::format("{:8}  {:24}  {}  {}\n", stage, name, passed ? "pass" : "FAIL", text));
    if (!passed && first_failure_.empty()) first_failure_ = name + " (" + stage + ')';
  }

  const Weights& golden_;
  Tolerance tolerance_;
  bool prints_;
  nlohmann::ordered_json& json_;
  int compared_ = 0;
  std::string first_failure_;
};

bool is_computed(const Graph::Node& node) { return node.module != nullptr && !node.is_optional(); }

/// The nodes whose values a golden file may name. Throws Error if it names none of them.
std::vector<std::string> expected_names(const Weights& golden, const Graph& graph, const std::string& path) {
  std::vector<std::string> nodes;
  for (const Graph::Node& node : graph.nodes()) {
    if (is_computed(node)) nodes.push_back(node.name);
  }
  if (std::ranges::none_of(nodes, [&](const std::string& name) { return golden.contains(name); })) {
    throw Error(fmt::format("{}: names no node of the graph, so nothing was compared; it holds {}; the nodes are {}",
                            path, listed(golden.names()), listed(nodes)));
  }
  return nodes;
}

Tolerance tolerance_of(const VerifyOptions& options, Precision precision) {
  const Tolerance usual = usual_tolerance(precision);
  return {options.rtol.value_or(usual.rtol), options.atol.value_or(usual.atol)};
}

/// Where no file says what they are: values of a normal distribution, the same every time.
std::vector<Tensor> drawn_inputs(const Graph& graph, const InputShapes& shapes) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (const Graph::Node* node : input_nodes(graph)) {
    const auto given = shapes.find(node->name);
    const Shape shape = (given == shapes.end() ? *node->shape : given->second).with_batch(1);
    if (!shape.is_known() || node->dtype != DType::f32) {
      throw Error(fmt::format("input \"{}\" is {} {}: give its values by --input{}", node->name, name(node->dtype),
                              shape.to_string(), shape.is_known() ? "" : ", or its extents by --input-shape"));
    }
    inputs.emplace_back(shape);
    for (float& value : inputs.back().values<float>()) value = normal(random);
  }
  return inputs;
}

/// What the model answers in --precision, or in each that the device has, beside what it answers in another.
void verify_against(const VerifyOptions& options) {
  Model model = options.model.load();
  print_warnings(model);
  if (is_photo(options.input)) model.preprocess = options.model.preprocess_of(model);
  CompileOptions compile = options.run.compile_options(1);
  options.model.inputs.settle(compile, model.graph);
  const std::vector<Tensor> given = options.input.empty() ? drawn_inputs(model.graph, compile.input_shapes)
                                                          : read_inputs(options.input, model, compile.constants);
  const auto answers = [&](Precision precision) {
    compile.precision = precision;
    std::vector<Tensor> inputs = given;
    Plan plan = compile_for(model.graph, compile, inputs);
    say_not_finite(plan, plan.run(inputs));
    Weights result;
    for (const std::string& name : plan.output_names()) result.set(name, plan.output(name).to(Device::cpu()).clone());
    return result;
  };
  const Precision reference = precision_on(compile.device, "--against", options.against), asked = compile.precision;
  const bool one = !options.precision->empty();
  if (one && asked == reference)
    throw Error(fmt::format("--precision: expected another than --against, which is {} too", options.against));
  const Weights expected = answers(reference);
  bool passed = true;
  auto json = nlohmann::ordered_json::array();
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
    if (precision == reference || (one && precision != asked) || (compile.device.is_cpu() && !row_of(precision).on_cpu))
      continue;
    const Weights found = answers(precision);
    Verifier verifier(expected, tolerance_of(options, precision), !options.json.to_stdout(), json);
    for (const std::string& output : found.names()) {
      verifier.check(std::string(name(precision)), output, found.at(output));
    }
    passed = verifier.finish() && passed;
  }
  options.json.write({{"pass", passed}, {"comparisons", json}});
  if (!passed) throw Failed();
}

void verify(const VerifyOptions& options) {
  if (options.golden.empty()) return verify_against(options);
  const Model model = options.model.load();
  print_warnings(model);
  const Weights golden = Weights::open(options.golden);
  const std::vector<std::string> nodes = expected_names(golden, model.graph, options.golden);
  CompileOptions compile = options.run.compile_options(1);
  const std::vector<Tensor> given = read_inputs(options.golden, model, compile.constants, {}, nodes);
  options.model.inputs.settle(compile, model.graph);
  auto json = nlohmann::ordered_json::array();
  Verifier verifier(golden, tolerance_of(options, compile.precision), !options.json.to_stdout(), json);

  compile.keep_all = true;
  std::vector<Tensor> inputs = given;
  Plan unfused = compile_for(model.graph, compile, inputs);
  unfused.run(inputs);
  for (const Graph::Node& node : model.graph.nodes()) {
    if (is_computed(node) && golden.contains(node.name)) {
      verifier.check("unfused", node.name, unfused.activation(node.name));
    }
  }

  compile.keep_all = false;
  inputs = given;
  Plan plan = compile_for(model.graph, compile, inputs);
  say_not_finite(plan, plan.run(inputs));
  for (const std::string& name : plan.output_names()) {
    if (golden.contains(name)) verifier.check("compiled", name, plan.output(name));
  }
  const bool passed = verifier.finish();
  options.json.write({{"pass", passed}, {"comparisons", json}});
  if (!passed) throw Failed();
}

}  // namespace

void add_verify(CLI::App& app) {
  const auto [command, options] = add_command(
      app, "verify", "Compare a model's results with expected ones, node by node, or in each precision", verify);
  options->model.add_to(*command);
  options->model.inputs.add_capacity_to(*command);
  options->model.add_preprocess_to(*command);
  CLI::Option_group* expected = command->add_option_group("what is expected");
  expected->add_option("--golden", options->golden, "safetensors: inputs by name, expected values by node name");
  CLI::Option* against =
      expected
          ->add_option("--against", options->against,
                       "the model's own outputs in this precision, beside those in --precision, or in every other that "
                       "the device has")
          ->check(precision_name());
  expected->require_option(1);
  command
      ->add_option("--input", options->input,
                   "with --against: .safetensors or .npz by input name, .npy, or a photograph; else drawn at random")
      ->needs(against);
  command->add_option("--rtol", options->rtol, "relative tolerance; by default what the precision needs")
      ->check(real_number());
  command
      ->add_option("--atol", options->atol,
                   "absolute tolerance, as a fraction of the root mean square of the expected tensor; likewise")
      ->check(real_number());
  options->json.add_to(*command, "the comparisons");
  options->run.add_to(*command);
  options->precision = command->get_option("--precision");
  command->footer(
      "Runs the graph with nothing fused and compares every node that the golden file names, then the compiled plan "
      "and compares its outputs. An element passes when |a - b| <= atol * rms(b) + rtol * |b|. Exit code 1 if any "
      "fails.\n"
      "With --against it compares outputs alone, and says how far each moved: whether a precision will do.\n"
      "Tolerances, if none are given: fp32 rtol 1e-4, atol 3e-5; tf32 and fp16 1e-3, 2e-2; bf16 1e-2, 2e-1.\n"
      "Example:\n"
      "  lamina verify --model model.safetensors --golden golden.safetensors\n"
      "  lamina verify --model digits --against fp32 --input photo.jpg");
}

}  // namespace lamina::app
