#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "bench/timer.h"
#include "commands/commands.h"
#include "inputs.h"
#include "json_output.h"
#include "lamina/base/text_table.h"
#include "lamina/tensor/parse_format.h"
#include "model_options.h"
#include "options.h"
#include "pictures/text.h"

namespace lamina::app {
namespace {

struct ModelBenchOptions {
  ModelOptions model;
  std::int64_t batch = 1;
  bool photos = false;
  std::string inputs = "device", input_format = "f32", output_format = "f32";
  int plans = 1;
  bool share = false;
  double seconds = 1;
  std::string turns;
  JsonOutput json;
  RunOptions run;
};

/// The most memory that this process has had resident so far, in bytes; 0 where the system does not say.
std::size_t peak_resident() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

/// What the process had resident before the model was loaded, and at most since.
struct Resident {
  std::size_t before = peak_resident();
  std::size_t peak = 0;
};

/// Holds the lock of a file as long as it lives: processes that time on one device take turns, and load and compile
/// beside each other. An empty path holds nothing. Throws Error if the file cannot be opened or locked.
class Turn {
 public:
  explicit Turn(const std::string& path) {
    if (path.empty()) return;
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int failed = file_ < 0 ? -1 : ::flock(file_, LOCK_EX);
    while (failed != 0 && file_ >= 0 && errno == EINTR) failed = ::flock(file_, LOCK_EX);
    if (failed == 0) return;
    const std::string why = std::strerror(errno);
    if (file_ >= 0) ::close(file_);
    throw Error("cannot lock " + path + " of --turns: " + why);
  }
  ~Turn() {
    if (file_ >= 0) ::close(file_);  // which gives the lock back
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  int file_ = -1;
};

/// A ready-made network with random weights of the usual size, positive where they may be variances: times do not
/// depend on what they are.
Model random_model(const std::string& arch) {
  Model model;
  model.graph = network(arch);
  model.preprocess = network_preprocess(arch);
  std::mt19937 random(1);
  for (const Graph::Node& node : model.graph.nodes()) {
    if (node.module == nullptr) continue;
    for (const Module::Parameter& parameter : node.module->parameters()) {
      const Shape& shape = parameter.shape;
      const auto fan_in = static_cast<float>(shape.rank() > 1 ? shape.numel() / shape[0] : 1);
      const float bound = std::sqrt(3 / fan_in);
      std::uniform_real_distribution<float> values(shape.rank() > 1 ? -bound : 0.5f, shape.rank() > 1 ? bound : 1.5f);
      Tensor tensor(shape);
      for (float& value : tensor.values<float>()) value = values(random);
      node.module->set_parameter(parameter.name, std::move(tensor));
    }
  }
  return model;
}

/// `where`: device, pinned or host.
std::vector<Tensor> random_inputs(const Plan& plan, std::string_view where) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < plan.input_shapes().size(); ++i) {
    const Shape& shape = plan.input_shapes()[i];
    const DType dtype = plan.input_dtypes()[i];
    Tensor input = where == "pinned" ? Tensor::pinned(shape, dtype) : Tensor(shape, dtype);
    if (dtype == DType::u8) {
      for (std::uint8_t& level : input.values<std::uint8_t>()) level = static_cast<std::uint8_t>(random());
    } else if (dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16) {
      Tensor values(shape);
      for (float& value : values.values<float>()) value = normal(random);
      input.copy_from(values.to(dtype));
    } else {
      input = Tensor::zeros(shape, dtype);  // indices and masks: any value might be out of range
    }
    inputs.push_back(where == "device" ? input.to(plan.options().device) : input);
  }
  return inputs;
}

/// Images per second of a pool that is kept busy from host memory: what one plan uploads overlaps with what another
/// computes.
double rate_of_pool(const Graph& graph, const CompileOptions& compile, const PoolOptions& pool_options,
                    const ModelBenchOptions& options) {
  using Clock = std::chrono::steady_clock;
  PlanPool pool(graph, compile, pool_options);
  const std::vector<Tensor> inputs = random_inputs(pool.plan(), options.inputs == "host" ? "host" : "pinned");
  std::deque<std::future<std::vector<Tensor>>> under_way;
  const auto take = [&] {
    (void)under_way.front().get();
    under_way.pop_front();
  };
  const auto run_for = [&](double seconds) {
    const auto start = Clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    std::int64_t runs = 0;
    for (; passed() < seconds; ++runs) {
      while (under_way.size() < 2 * pool.workers().size()) under_way.push_back(pool.submit(inputs));
      take();
    }
    return static_cast<double>(runs * options.batch) / passed();
  };
  (void)run_for(options.seconds / 2);  // warm-up
  const double rate = run_for(options.seconds);
  while (!under_way.empty()) take();
  return rate;
}

void write_json(const JsonOutput& json, const Plan& plan, const Timing& whole, std::span<const StepTime> steps,
                const Resident& resident) {
  nlohmann::ordered_json root = {{"batch", plan.options().batch},
                                 {"precision", name(plan.options().precision)},
                                 {"threads", plan.options().threads},
                                 {"ms", whole.median},
                                 {"p10", whole.p10},
                                 {"p90", whole.p90},
                                 {"plan_bytes", plan.memory().total()},
                                 {"resident_before", resident.before},
                                 {"resident_peak", resident.peak}};
  for (const StepTime& step : steps) {
    root["steps"].push_back({{"name", step.name},
                             {"fused", step.fused},
                             {"kernel", step.kernel},
                             {"ms", step.milliseconds},
                             {"flops", step.flops},
                             {"bytes", step.bytes}});
  }
  json.write(root);
}

void bench(const ModelBenchOptions& options) {
  const ModelOptions& source = options.model;
  if (source.model.empty() && source.arch.empty()) {
    throw Error("expected --model FILE, or --arch NETWORK, with random weights or --weights FILE");
  }
  Resident resident;
  const bool without_weights = source.model.empty() && source.weights.empty();
  Model model = without_weights ? random_model(source.arch) : source.load();
  print_warnings(model);
  CompileOptions compile = options.run.compile_options(options.batch);
  options.model.inputs.settle(compile, model.graph);
  if (options.photos) compile.photos = model.preprocess.value_or(torchvision_imagenet());
  compile.input_format = parse_format(options.input_format);
  compile.output_format = parse_format(options.output_format);
  const PoolOptions pool = {.devices = options.run.devices(), .plans_per_device = options.plans, .max_queue = 1 << 30};
  const bool several = pool.devices.size() > 1 || options.plans > 1;
  Plan plan = several ? model.graph.compile(compile) : std::move(model.graph).compile(compile);
  const std::vector<Tensor> inputs = random_inputs(plan, options.inputs);
  const Device device = plan.options().device;
  Timing whole;
  std::vector<StepTime> steps;
  {
    const Turn turn(options.turns);
    whole = time_calls(device, 1, options.seconds, [&](int, void* stream) { (void)plan.run(inputs, stream); });
    resident.peak = peak_resident();
    steps = plan.profile(inputs, std::clamp(whole.samples, 5, 100));
  }
  write_json(options.json, plan, whole, steps, resident);
  if (options.json.to_stdout()) return;

  double sum = 0;
  for (const StepTime& step : steps) sum += step.milliseconds;
  const auto per_second = [](double amount, double ms) {
    return amount > 0 ? detail::format_fixed(amount / (ms * 1e6), 0) : std::string();
  };
  detail::TextTable table({"step", "fused", "ms", "%", "GFLOP/s", "GB/s"});
  table.wrap({1});
  for (const StepTime& step : steps) {
    const double ms = step.milliseconds;
    table.add({step.name, step.fused, detail::format_fixed(ms, 4), detail::format_fixed(100 * ms / sum, 1),
               per_second(step.flops, ms), per_second(static_cast<double>(step.bytes), ms)},
              step.kernel);
  }
  table.add_total({"sum of the steps", "", detail::format_fixed(sum, 4), "100.0", "", ""});
  fmt::print("{}", table.to_string());
  fmt::print("a whole run of batch {}: {:.3f} ms (p10 {:.3f}, p90 {:.3f}), {:.1f} images/s\non {}, in {}\n",
             options.batch, whole.median, whole.p10, whole.p90, static_cast<double>(options.batch) / whole.median * 1e3,
             describe_device(device, plan.options().threads), name(plan.options().precision));
  fmt::print("the plan holds {}; the process had {} before it opened the model, and {} at most\n",
             detail::format_bytes(plan.memory().total()), detail::format_bytes(resident.before),
             detail::format_bytes(resident.peak));
  if (several) {
    if (options.share && device.is_cpu()) compile.pool = std::make_shared<ThreadPool>(plan.options().threads);
    const std::size_t count = pool.devices.size();
    fmt::print("{}{} plan{} at once{}: {:.1f} images/s{}\n", count > 1 ? fmt::format("{} devices, ", count) : "",
               options.plans, options.plans > 1 ? "s" : "", count > 1 ? " on each" : "",
               rate_of_pool(model.graph, compile, pool, options),
               device.is_cpu()            ? ""
               : options.inputs == "host" ? " from ordinary host memory"
                                          : " from pinned host memory");
  }
}

}  // namespace

void add_bench_model(CLI::App& group) {
  auto options = std::make_shared<ModelBenchOptions>();
  CLI::App* command = group.add_subcommand("model", "Time a whole model and each of its layers");
  options->model.add_to(*command);
  options->model.inputs.add_capacity_to(*command);
  command->add_option("--batch", options->batch, "images that run together")->check(whole_number(1, 1 << 20));
  command->add_flag("--photos", options->photos, "take photographs in eight bits, and normalise them in the plan");
  command
      ->add_option("--inputs", options->inputs,
                   "where inputs are: on the device, or in pinned or ordinary host memory, where scores then go too")
      ->check(one_of({"device", "pinned", "host"}));
  const CLI::Validator format =
      accepted_by([](std::string_view text) { (void)parse_format(text); }, "f32|f16|bf16[,nhwc]");
  command->add_option("--input-format", options->input_format, "how inputs are stored")->check(format);
  command->add_option("--output-format", options->output_format, "how outputs are stored")->check(format);
  command
      ->add_option("--plans", options->plans,
                   "also say how many images/s so many plans of each device do from host memory")
      ->check(whole_number(1, 64));
  command->add_flag("--share", options->share,
                    "with --plans: those of the CPU take turns on all threads, and do not divide them");
  command->add_option("--seconds", options->seconds, "how long to measure")->check(real_number(0.01, 60));
  command->add_option("--turns", options->turns, "take turns at timing with other processes that are given this file");
  options->json.add_to(*command, "the times");
  options->run.add_to(*command, true);
  command->footer(
      "Medians after a warm-up, on random inputs; --arch without --weights takes random weights. On a GPU a whole\n"
      "run is one launch of the captured graph, and from host inputs also their upload and the download of the\n"
      "scores; steps are timed one by one, each with its own launch, so their sum is larger. Of several devices, the\n"
      "first is timed so, and then how many images/s all do together.\n"
      "Examples:\n"
      "  lamina bench model --arch alexnet --batch 8\n"
      "  lamina bench model --arch alexnet --batch 256 --precision fp16 --photos --inputs pinned --plans 2\n"
      "  lamina bench model --arch resnet18 --batch 256 --precision fp16 --photos --device cuda:all --plans 2\n"
      "  lamina bench model --model digits");
  command->callback([options] { bench(*options); });
}

}  // namespace lamina::app
