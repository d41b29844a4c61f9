#include "options.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "complain.h"
#include "inputs.h"
#include "lamina/cuda/runtime/device.h"
#include "lamina/graph/resolve.h"
#include "lamina/kernel/device_description.h"
#include "lamina/kernel/kernel.h"
#include "lamina/tensor/device_memory.h"
#include "model_options.h"
#include "words.h"

namespace lamina::app {
namespace {

bool is_device_syntax(std::string_view text) {
  if (text == "auto" || text == "cpu" || text == "cuda") return true;
  if (!text.starts_with("cuda:") || text.size() == 5 || text.size() > 8) return false;
  return text.find_first_not_of("0123456789", 5) == std::string_view::npos;
}

bool is_devices_syntax(std::string_view text) {
  return text == "cuda:all" || std::ranges::all_of(parts_of(text, ','), is_device_syntax);
}

/// "; did you mean 10?" for 1O: a number in which letters stand that look like digits.
std::string meant_digits(const std::string& given) {
  std::string text = given;
  constexpr std::string_view letters = "oOlIiSB", digits = "0011158";
  for (char& c : text) {
    if (const std::size_t at = letters.find(c); at != letters.npos) c = digits[at];
  }
  const bool number = text != given && text.find_first_not_of("0123456789") == text.npos;
  return number ? "; did you mean " + text + '?' : "";
}

/// Which of the words is meant by what has another name elsewhere, or is written with other letters; empty: none.
std::string known_elsewhere(const std::string& text, const std::vector<std::string>& words) {
  constexpr std::pair<std::string_view, std::string_view> others[] = {
      {"half", "fp16"},     {"float16", "fp16"}, {"f16", "fp16"},   {"half", "f16"},     {"float16", "f16"},
      {"bfloat16", "bf16"}, {"float", "fp32"},   {"float", "f32"},  {"float32", "fp32"}, {"f32", "fp32"},
      {"float32", "f32"},   {"single", "fp32"},  {"single", "f32"}, {"gpu", "cuda"}};
  const auto is_word = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
  const std::string small = lower(text);
  if (is_word(small)) return small;
  for (const auto& [other, word] : others) {
    if (small == other && is_word(word)) return std::string(word);
  }
  return "";
}

}  // namespace

CLI::Validator device_syntax(bool several) {
  return CLI::Validator(
      [several](std::string& text) {
        if (several ? !is_devices_syntax(text) : !is_device_syntax(text)) {
          const std::size_t colon = std::min(text.find(':'), text.size());
          const std::string meant =
              known_elsewhere(text.substr(0, colon), {"auto", "cpu", "cuda"}) + text.substr(colon);
          return fmt::format("expected auto, cpu, cuda or cuda:INDEX{}, got \"{}\"{}",
                             several ? ", several with commas between, or cuda:all" : "", text,
                             is_device_syntax(meant) ? "; did you mean " + meant + '?' : "");
        }
        std::vector<std::string_view> parts = parts_of(text, ',');
        std::ranges::sort(parts);
        const bool twice = std::ranges::adjacent_find(parts) != parts.end();
        return twice ? "a device is named twice in " + detail::quote(text) : "";
      },
      several ? "auto|cpu|cuda[:INDEX,...]|cuda:all" : "auto|cpu|cuda[:INDEX]");
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        const auto number = number_in<std::int64_t>(text);
        if (number && *number >= least && *number <= most) return std::string();
        return fmt::format("expected a whole number from {} to {}, got \"{}\"{}", least, most, text,
                           meant_digits(text));
      },
      "");
}

CLI::Validator real_number(double least, double most) {
  return CLI::Validator(
      [least, most](std::string& text) {
        double number = -1;
        if (CLI::detail::lexical_cast(text, number) && number >= least && number <= most) return std::string();
        const auto percent = number_in<double>(text.substr(0, text.find('%')));
        const bool of_hundred = most == 1 && percent && *percent >= 2 && *percent <= 100;
        return fmt::format("expected a number from {} to {}, got \"{}\"{}", least, most, text,
                           of_hundred ? fmt::format("; did you mean {}?", *percent / 100) : "");
      },
      "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  std::string description = fmt::format("{}", fmt::join(words, "|"));
  return CLI::Validator(
      [words = std::move(words)](std::string& text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        std::string hint = known_elsewhere(text, words);
        if (hint.empty() && words.size() > 2 && !text.empty()) hint = detail::nearest_names(text, words, 1).front();
        return fmt::format("expected one of {}; got \"{}\"{}", fmt::join(words, ", "), text,
                           hint.empty() ? "" : "; did you mean " + hint + '?');
      },
      std::move(description));
}

CLI::Validator precision_name() { return one_of({"fp32", "tf32", "fp16", "bf16"}); }

CLI::Validator algorithm_name(std::vector<std::string> words) {
  for (const DeviceType device : {DeviceType::cuda, DeviceType::cpu}) {
    for (const std::string_view name : conv_algorithms(device)) {
      if (std::find(words.begin(), words.end(), name) == words.end()) words.emplace_back(name);
    }
  }
  CLI::Validator known = one_of(words);
  known.operation([words, check = known](std::string& text) {
    const std::string_view successor = successor_of(text);
    if (std::find(words.begin(), words.end(), text) == words.end() && !successor.empty()) {
      fmt::print(stderr, "lamina: algorithm {} is part of {} now\n", text, successor);
      text = successor;
    }
    return check(text);
  });
  return known;
}

CLI::Validator accepted_by(std::function<void(std::string_view)> parse, const std::string& description) {
  return CLI::Validator(
      [parse = std::move(parse)](std::string& text) {
        try {
          parse(text);
          return std::string();
        } catch (const Error& error) {
          // CLI11 puts the option in front, which is what the library's own "precision: " says.
          const std::string message = error.what();
          const auto colon = message.find(": ");
          return colon == std::string::npos ? message : message.substr(colon + 2);
        }
      },
      description);
}

namespace {

/// "8.0" as 80. Throws Error.
int parse_architecture(std::string_view text) {
  const auto digit = [&](std::size_t i) { return text[i] >= '0' && text[i] <= '9'; };
  if (text == "0") return 0;
  if (text.size() < 3 || text.size() > 4 || text[text.size() - 2] != '.' || !digit(0) || !digit(text.size() - 3) ||
      !digit(text.size() - 1)) {
    throw Error(fmt::format("architecture: expected a compute capability such as 8.0, got \"{}\"", text));
  }
  int value = 0;
  for (const char c : text) value = c == '.' ? value : value * 10 + (c - '0');
  return value;
}

}  // namespace

void RunOptions::add_to(CLI::App& command, bool several) {
  command.add_option("--device", device, several ? "where to run; batches go to whichever is free" : "where to run")
      ->check(device_syntax(several));
  command.add_option("--precision", precision, "arithmetic; tf32 and fp16 need a GPU")->check(precision_name());
  command.add_option("--algorithm", algorithm, "how convolutions are computed; docs/inside/kernels.md explains them")
      ->transform(algorithm_name({"auto"}));
  command
      .add_option("--architecture", architecture,
                  "plan for a GPU of this compute capability, such as 8.0, on one that has more; 0: what it has")
      ->type_name("MAJOR.MINOR")
      ->check(accepted_by([](std::string_view text) { (void)parse_architecture(text); }, "such as 8.0"))
      ->default_str("");
  command.add_option("--linear-weights", linear_weights, "how a CPU keeps the weights of fully connected layers")
      ->check(one_of({"f32", "bf16", "f16"}));
  if (batch_invariant) {
    command.add_flag_callback(
        "--fastest", [this] { batch_invariant = false; },
        "on a GPU: let an image's last bits depend on those that run with it");
  } else {
    command.add_flag("--batch-invariant", batch_invariant,
                     "on a GPU: the same bits for an image whichever others run with it");
  }
  command.add_option("--threads", threads, "CPU threads; 0: one for each core")->check(whole_number(0, 1024));
}

Precision precision_on(Device device, std::string_view option, const std::string& text) {
  const Precision precision = parse_precision(text);
  if (!device.is_cpu() || row_of(precision).on_cpu) return precision;
  throw Error(fmt::format("{}: the CPU computes in fp32 and bf16; {} needs a CUDA device", option, text));
}

CompileOptions RunOptions::compile_options(std::int64_t n) const {
  // A build with CUDA leads one to expect the GPU: say why it is not used.
  if (device == "auto" && best_device().is_cpu() && cuda::backend_info().built) {
    complain("running on the CPU: " + detail::cuda_unavailable_reason());
  }
  const Device first = devices().front();
  (void)precision_on(first, "--precision", precision);
  const int wanted = parse_architecture(architecture);
  return {.device = first,
          .batch = n,
          .precision = parse_precision(precision),
          .linear_weights = linear_weights == "bf16"  ? DType::bf16
                            : linear_weights == "f16" ? DType::f16
                                                      : DType::f32,
          .threads = threads,
          .algorithm = algorithm == "auto" ? std::string() : algorithm,
          .batch_invariant = batch_invariant,
          .description = wanted > 0 ? std::optional(detail::limited_to(wanted, describe(first))) : std::nullopt};
}

void InputOptions::add_to(CLI::App& command) {
  command
      .add_option(
          "--input-shape", shapes,
          "shape of an input that the model leaves open, x=1x3x224x224, N for the batch; the name may be left out "
          "where there is one input; once for each")
      ->type_name("NAME=SHAPE")
      ->allow_extra_args(false);
  command
      .add_option("--constant", constants,
                  "value of an input that shapes, axes or weights depend on, sizes=240,320, or a tensor file of it; "
                  "once for each")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
}

void InputOptions::add_capacity_to(CLI::App& command) {
  command
      .add_option("--capacity", capacities,
                  "upper bound for a count that only the run knows: boxes=100 reserves room for 100, more is an error; "
                  "once for each")
      ->type_name("NAME=K")
      ->allow_extra_args(false);
}

void InputOptions::settle(CompileOptions& compile, const Graph& graph) const {
  compile.input_shapes = shapes_of(graph);
  for (const std::string& text : capacities) {
    const std::size_t equals = text.rfind('=');
    const auto most =
        equals == std::string::npos ? std::nullopt : number_in<std::int64_t>(std::string_view(text).substr(equals + 1));
    if (!most) throw Error("--capacity: expected NAME=K, got " + detail::quote(text));
    compile.capacity[text.substr(0, equals)] = *most;
  }
}

void InputOptions::apply(Graph& graph) const {
  Constants values;
  for (const std::string& text : constants) {
    const std::string name = text.substr(0, text.find('='));
    const std::vector<std::string> names = detail::node_names(graph, true);
    if (name.size() == text.size()) throw Error("--constant: expected NAME=VALUE, got " + detail::quote(text));
    if (std::ranges::find(names, name) == names.end()) {
      throw Error(fmt::format("--constant: the model has no input \"{}\"{}", name, detail::nearest_text(name, names)));
    }
    values[name] = constant_of(*graph.find(name), text.substr(name.size() + 1));
  }
  if (!values.empty()) graph = with_inputs(graph, {}, values);
  InputShapes ranks = shapes_of(graph);
  std::erase_if(ranks, [&](const auto& given) {
    const Graph::Node* node = graph.find(given.first);
    return node == nullptr || node->shape != Shape{any_rank};
  });
  if (!ranks.empty()) graph = with_inputs(graph, ranks, {});
}

InputShapes InputOptions::shapes_of(const Graph& graph) const {
  InputShapes result;
  for (const std::string& text : shapes) {
    const std::size_t equals = text.rfind('=');
    const std::vector<std::string> names = graph.input_names();
    if (equals == std::string::npos && names.size() != 1) {
      throw Error(fmt::format("--input-shape: expected NAME=SHAPE, as the model has {} inputs: {}", names.size(),
                              listed(names)));
    }
    std::vector<std::int64_t> extents;
    const std::string_view shape = std::string_view(text).substr(equals == std::string::npos ? 0 : equals + 1);
    for (const std::string_view part : shape.empty() ? std::vector<std::string_view>() : parts_of(shape, 'x')) {
      const auto extent = number_in<std::int64_t>(part);
      if (part != "N" && !(extent && *extent >= 0)) {
        throw Error(fmt::format("--input-shape: expected extents such as 1x3x224x224, got {}", shape));
      }
      extents.push_back(part == "N" ? batch : *extent);
    }
    result[equals == std::string::npos ? names[0] : text.substr(0, equals)] =
        Shape(std::span<const std::int64_t>(extents));
  }
  return result;
}

}  // namespace lamina::app
