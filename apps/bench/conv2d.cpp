#include <fmt/core.h>
#include <fmt/ranges.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <memory>

#include "bench/ceilings.h"
#include "bench/race.h"
#include "bench/report.h"
#include "commands/commands.h"
#include "model_options.h"
#include "options.h"
#include "pictures/text.h"

namespace lamina::app {
namespace {

struct Conv2dBenchOptions : RaceOptions {
  std::vector<std::int64_t> batches{1, 8, 32};
  std::vector<std::string> precisions{"fp32"}, algorithms{"all"};
  std::string device = "auto";
  JsonOutput json;
};

std::vector<std::string_view> chosen(const std::vector<std::string>& names, Device device) {
  std::vector<std::string_view> result;
  for (const std::string& name : names) {
    if (name != "all") {
      result.push_back(name);
      continue;
    }
    const auto all = conv_algorithms(device.type);
    result.insert(result.end(), all.begin(), all.end());
  }
  return result;
}

void bench(const Conv2dBenchOptions& options) {
  const Device device = parse_device(options.device);
  for (const std::string& precision : options.precisions) (void)precision_on(device, "--precision", precision);
  const auto checked = naming("--kernel, --size and the like", [&] {
    auto begun = std::make_unique<Conv2dRace>(options, device);
    const Shape first = begun->input_shape(options.batches.front());
    (void)begun->conv().output_shape({&first, 1});  // a mistake is to be told before a table is begun
    return begun;
  });
  Conv2dRace& race = *checked;
  const std::string where = describe_device(device, race.threads());
  const bool table = !options.json.to_stdout();
  if (table) {
    const auto& o = race.conv().options();
    fmt::print("conv2d {} -> {}, kernel {}, stride {}, padding {}, dilation {}, groups {}{}{}, input {} {}\n", o.in,
               o.out, to_string(o.kernel), to_string(o.stride), to_string(o.padding), to_string(o.dilation), o.groups,
               o.bias ? ", bias" : "", options.relu ? ", ReLU" : "", race.input_shape(lamina::batch).to_string(),
               options.input ? detail::concat(*options.input) : std::string(name(options.layout)));
  }
  const Ceilings ceilings = measure_ceilings(device, race.threads());
  if (table) {
    fmt::print("{}; measured ceilings: copy {:.1f} GB/s", where, ceilings.copy_gb_per_s);
    if (ceilings.gemm_tflop_per_s > 0) fmt::print(", fp32 matrix product {:.3f} TFLOP/s", ceilings.gemm_tflop_per_s);
    fmt::print("\n\n");
  }
  std::vector<BenchResult> results;
  for (const std::int64_t n : options.batches) {
    race.prepare_batch(n);
    for (const std::string& precision : options.precisions) {
      for (const std::string_view algorithm : chosen(options.algorithms, device)) {
        results.push_back(race.measure(algorithm, parse_precision(precision)));
        results.back().named = std::ranges::find(options.algorithms, algorithm) != options.algorithms.end();
      }
    }
    if (device.is_cpu()) results.push_back(race.measure_product());
  }
  if (table) print(results, ceilings);
  write_json(options.json, where, results, ceilings);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* group = app.add_subcommand("bench", "Measure speed and accuracy");
  group->require_subcommand(1);
  add_bench_model(*group);
  auto options = std::make_shared<Conv2dBenchOptions>();
  CLI::App* command = group->add_subcommand(
      "conv2d", "Race the convolution algorithms on one geometry (default: AlexNet's first layer)");
  const auto positive = whole_number(1, 1 << 20);
  command->add_option("--in", options->in, "input channels")->check(positive);
  command->add_option("--out", options->out, "filters")->check(positive);
  const auto add_sides = [&](const char* name, std::vector<int>& sides, const char* help, const CLI::Validator& check) {
    command->add_option(name, sides, help)->expected(1, 2)->delimiter(',')->check(check);
  };
  add_sides("--size", options->size, "input height and width; one number for both, as below", positive);
  add_sides("--kernel", options->kernel, "kernel size", positive);
  add_sides("--stride", options->stride, "stride", positive);
  add_sides("--padding", options->padding, "zeros around the input", real_number());
  add_sides("--dilation", options->dilation, "distance of kernel taps", positive);
  command->add_option("--groups", options->groups, "independent convolutions")->check(positive);
  command->add_flag("--relu", options->relu, "fuse a ReLU");
  command->add_flag("--no-bias", options->no_bias, "without bias");
  command
      ->add_option_function<std::string>(
          "--layout",
          [options](const std::string& text) { options->layout = text == "nhwc" ? Layout::nhwc : Layout::nchw; },
          "how activations are stored; nhwc: in the precision's type, as inside a network")
      ->check(one_of({"nchw", "nhwc"}))
      ->default_str("nchw");
  command
      ->add_option_function<std::string>(
          "--input-format", [options](const std::string& text) { options->input = parse_format(text); },
          "how the input is stored, where not as --layout says (f32 in nchw)")
      ->check(accepted_by([](std::string_view text) { (void)parse_format(text); }, "f32|f16|bf16[,nhwc]"));
  command->add_option("--batch", options->batches, "batches, e.g. 1,8,32")->delimiter(',')->check(positive);
  command->add_option("--device", options->device, "where to run")->check(device_syntax());
  command->add_option("--precision", options->precisions, "arithmetic; on the CPU fp32, and bf16 channels last")
      ->delimiter(',')
      ->check(precision_name());
  command->add_option("--algorithm", options->algorithms, "docs/inside/kernels.md explains them")
      ->delimiter(',')
      ->transform(algorithm_name({"all", "auto"}));
  command->add_option("--threads", options->threads, "CPU threads; 0: one for each core")->check(whole_number(0, 1024));
  command->add_option("--seconds", options->seconds, "how long to measure each line")->check(real_number(0.01, 60));
  options->json.add_to(*command, "the results");
  command->footer(
      "Times are medians after a warm-up, p10..p90 in ms what the middle 80 % of them are between. On a GPU, buffers\n"
      "rotate through more memory than the L2 cache holds, and batches below 32 run inside a CUDA graph of 100 calls,\n"
      "channels-last ones always inside one. % copy and % GEMM: of what this machine was measured to reach just "
      "before.\n"
      "The error is measured on sampled outputs against double precision; \"bound\" is the largest error as a part\n"
      "of what the precision contract allows (docs/inside/precision.md).\n"
      "Example:\n"
      "  lamina bench conv2d --device cpu --threads 1 --batch 1\n"
      "  lamina bench conv2d --in 64 --out 192 --size 27 --kernel 5 --stride 1 --layout nhwc --precision fp16 "
      "--algorithm "
      "auto");
  command->callback([options] { bench(*options); });
}

}  // namespace lamina::app
