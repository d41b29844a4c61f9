#include <fmt/core.h>
#include <fmt/ranges.h>
#include <lamina/lamina.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "bench_ceilings.h"
#include "bench_model.h"
#include "bench_report.h"
#include "bench_timer.h"
#include "commands.h"
#include "lamina/cpu/reference.h"
#include "lamina/cpu/thread_pool.h"
#include "lamina/cuda/stream.h"
#include "options.h"
#include "text.h"

namespace lamina::app {
namespace {

struct Options {
  int in = 3, out = 96, groups = 1;
  std::vector<int> size{224}, kernel{11}, stride{4}, padding{2}, dilation{1};
  std::vector<std::int64_t> batches{1, 8, 32};
  std::vector<std::string> precisions{"fp32"}, algorithms{"all"};
  std::string device = "auto", json;
  int threads = 0;
  bool relu = false, no_bias = false;
  double seconds = 0.5;
};

Size2d size2d(const std::vector<int>& values) {
  return values.size() == 2 ? Size2d(values[0], values[1]) : Size2d(values[0]);
}

Tensor random_tensor(const Shape& shape, float scale, std::mt19937& random) {
  Tensor tensor(shape);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (float& value : tensor.values<float>()) value = uniform(random);
  return tensor;
}

class Bench {
 public:
  Bench(const Options& options, Device device)
      : options_(options),
        device_(device),
        pool_(options.threads > 0 ? options.threads
              : device.is_cpu()   ? cpu::ThreadPool::default_threads()
                                  : 1),
        conv_(conv_options()) {
    const float scale =
        1.0f / std::sqrt(static_cast<float>(options.in / options.groups * conv_.options().kernel.height *
                                            conv_.options().kernel.width));
    for (auto& parameter : conv_.parameters()) *parameter.value = random_tensor(parameter.shape, scale, random_);
  }

  const Conv2d& conv() const { return conv_; }
  int threads() const { return pool_.threads(); }
  Shape input_shape(std::int64_t n) const {
    const Size2d size = size2d(options_.size);
    return {n, options_.in, size.height, size.width};
  }

  /// Sets up inputs and outputs for one batch: on a GPU enough of them to overflow the L2 cache.
  void prepare_batch(std::int64_t n) {
    geometry_ = conv_.geometry(input_shape(n));
    ring_.clear();
    host_input_ = random_tensor(input_shape(n), 1, random_);
    const auto bytes = static_cast<double>(geometry_.input_size() + geometry_.output_size()) * sizeof(float);
    constexpr double cache = 256e6;
    const int copies = device_.is_cpu() ? 1 : static_cast<int>(std::clamp(std::ceil(cache / bytes), 1.0, 100.0));
    const std::vector<Shape> shapes = {input_shape(n)};
    output_shape_ = conv_.output_shape(shapes);
    for (int i = 0; i < copies; ++i)
      ring_.push_back({host_input_.to(device_), Tensor(output_shape_, DType::f32, device_)});
  }

  BenchResult measure(ConvAlgorithm algorithm, Precision precision) {
    BenchResult result = describe(std::string(name(algorithm)), precision);
    const std::vector<Shape> shapes = {input_shape(geometry_.batch)};
    result.output = storage(precision);
    std::unique_ptr<Operator> op;
    try {
      op = conv_.prepare({.inputs = shapes,
                          .device = device_,
                          .precision = precision,
                          .algorithm = algorithm,
                          .output = result.output,
                          .threads = pool_.threads(),
                          .relu = options_.relu});
    } catch (const Error& error) {
      result.note = error.what();
      return result;
    }
    result.kernel = op->description();
    result.workspace = op->workspace_bytes();
    Tensor workspace(Shape{static_cast<std::int64_t>(op->workspace_bytes())}, DType::u8, device_);
    const auto call = [&](int i, void* stream) {
      const auto& [input, memory] = ring_[static_cast<std::size_t>(i) % ring_.size()];
      Tensor output = output_in(memory, result.output);
      op->run({&input, 1}, output, {.pool = &pool_, .stream = stream, .workspace = workspace.raw()});
    };
    call(0, nullptr);
    if (device_.is_cuda()) cuda::synchronize(device_.index, nullptr);
    check(result, precision);
    // Small batches are timed as a network runs them: inside a CUDA graph, many calls over rotating buffers.
    result.time = time_calls(device_, geometry_.batch < 32 ? 100 : 1, options_.seconds, call);
    rate(result);
    return result;
  }

  /// CPU only: what the matrix product inside im2col costs by itself.
  BenchResult measure_product() {
    BenchResult result = describe("product", Precision::fp32);
    result.kernel = "Eigen product of ready-made columns: a floor, not a convolution";
    Tensor columns = random_tensor({geometry_.reduction(), geometry_.out_pixels()}, 1, random_);
    result.time = time_calls(device_, 1, options_.seconds, [&](int, void*) {
      eigen_product_alone(geometry_, conv_.weight().values<float>().data(), columns.values<float>().data(),
                          ring_[0].second.values<float>().data(), pool_);
    });
    rate(result);
    return result;
  }

 private:
  Conv2dOptions conv_options() const {
    return {.in = options_.in,
            .out = options_.out,
            .kernel = size2d(options_.kernel),
            .stride = size2d(options_.stride),
            .padding = size2d(options_.padding),
            .dilation = size2d(options_.dilation),
            .groups = options_.groups,
            .bias = !options_.no_bias};
  }

  /// What a network would store: on a GPU the 16-bit precisions keep 16-bit activations.
  DType storage(Precision precision) const {
    if (precision == Precision::fp16) return DType::f16;
    return precision == Precision::bf16 ? DType::bf16 : DType::f32;
  }

  /// An output of that type at the beginning of memory that holds one of f32.
  Tensor output_in(const Tensor& memory, DType dtype) const {
    return Tensor::borrow(const_cast<void*>(memory.raw()), output_shape_, dtype, device_);
  }

  BenchResult describe(std::string algorithm, Precision precision) const {
    BenchResult result;
    result.algorithm = std::move(algorithm);
    result.precision = name(precision);
    result.batch = geometry_.batch;
    return result;
  }

  void rate(BenchResult& result) const {
    const auto bytes = static_cast<double>(geometry_.input_size() + geometry_.weight_size()) * sizeof(float) +
                       static_cast<double>(geometry_.output_size()) * static_cast<double>(size_of(result.output));
    result.tflops = geometry_.flops() / result.time.median * 1e-9;
    result.gb_per_s = bytes / result.time.median * 1e-6;
  }

  /// Compares outputs drawn at random with the double reference.
  void check(BenchResult& result, Precision precision) {
    constexpr int samples = 2000;
    const Tensor output = output_in(ring_[0].second, result.output).to(Device::cpu()).to(DType::f32);
    const auto y = output.values<float>();
    const auto x = host_input_.values<float>();
    const float* bias = conv_.bias().defined() ? conv_.bias().values<float>().data() : nullptr;
    double error2 = 0, truth2 = 0, worst = 0;
    const auto draw = [&](std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(random_); };
    for (int i = 0; i < samples; ++i) {
      const std::int64_t n = draw(geometry_.batch);
      const auto oc = static_cast<int>(draw(geometry_.out_channels));
      const auto oh = static_cast<int>(draw(geometry_.out_height));
      const auto ow = static_cast<int>(draw(geometry_.out_width));
      auto truth =
          cpu::conv2d_reference(geometry_, x.data(), conv_.weight().values<float>().data(), bias, n, oc, oh, ow);
      if (options_.relu) truth.value = std::max(truth.value, 0.0);
      const auto at = static_cast<std::size_t>(
          ((n * geometry_.out_channels + oc) * geometry_.out_height + oh) * geometry_.out_width + ow);
      const double error = std::abs(static_cast<double>(y[at]) - truth.value);
      error2 += error * error;
      truth2 += truth.value * truth.value;
      worst = std::max(worst, error / cpu::error_bound(precision, geometry_.reduction(), truth.scale));
    }
    result.relative_l2 = std::sqrt(error2 / truth2);
    result.worst_of_bound = worst;
  }

  const Options& options_;
  Device device_;
  cpu::ThreadPool pool_;
  std::mt19937 random_{1};
  Conv2d conv_;
  ConvGeometry geometry_;
  Shape output_shape_;
  Tensor host_input_;
  std::vector<std::pair<Tensor, Tensor>> ring_;
};

std::vector<ConvAlgorithm> chosen(const std::vector<std::string>& names, Device device) {
  std::vector<ConvAlgorithm> result;
  for (const std::string& name : names) {
    if (name != "all") {
      result.push_back(parse_conv_algorithm(name));
      continue;
    }
    const auto all = conv_algorithms(device.type);
    result.insert(result.end(), all.begin(), all.end());
  }
  return result;
}

void bench(const Options& options) {
  const Device device = parse_device(options.device);
  Bench bench(options, device);
  const std::string where = describe_device(device, bench.threads());
  const bool table = options.json != "-";
  if (table) {
    const auto& o = bench.conv().options();
    fmt::print("conv2d {} -> {}, kernel {}, stride {}, padding {}, dilation {}, groups {}{}{}, input {}\n", o.in, o.out,
               to_string(o.kernel), to_string(o.stride), to_string(o.padding), to_string(o.dilation), o.groups,
               o.bias ? ", bias" : "", options.relu ? ", ReLU" : "", bench.input_shape(lamina::batch).to_string());
  }
  const Ceilings ceilings = measure_ceilings(device, bench.threads());
  if (table) {
    fmt::print("{}; measured ceilings: copy {:.1f} GB/s", where, ceilings.copy_gb_per_s);
    if (ceilings.gemm_tflop_per_s > 0) fmt::print(", fp32 matrix product {:.3f} TFLOP/s", ceilings.gemm_tflop_per_s);
    fmt::print("\n\n");
  }
  std::vector<BenchResult> results;
  for (const std::int64_t n : options.batches) {
    bench.prepare_batch(n);
    for (const std::string& precision : options.precisions) {
      for (const ConvAlgorithm algorithm : chosen(options.algorithms, device)) {
        results.push_back(bench.measure(algorithm, parse_precision(precision)));
      }
    }
    if (device.is_cpu()) results.push_back(bench.measure_product());
  }
  if (table) print(results, ceilings);
  if (!options.json.empty()) write_json(options.json, where, results, ceilings);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* group = app.add_subcommand("bench", "Measure speed and accuracy");
  group->require_subcommand(1);
  add_bench_model(*group);
  auto options = std::make_shared<Options>();
  CLI::App* command = group->add_subcommand(
      "conv2d", "Race the convolution algorithms on one geometry (default: AlexNet's first layer)");
  const auto positive = CLI::Range(1, 1 << 20);
  command->add_option("--in", options->in, "input channels")->check(positive)->capture_default_str();
  command->add_option("--out", options->out, "filters")->check(positive)->capture_default_str();
  command->add_option("--size", options->size, "input height and width; one number for both, as below")
      ->expected(1, 2)
      ->check(positive)
      ->capture_default_str();
  command->add_option("--kernel", options->kernel, "kernel size")
      ->expected(1, 2)
      ->check(positive)
      ->capture_default_str();
  command->add_option("--stride", options->stride, "stride")->expected(1, 2)->check(positive)->capture_default_str();
  command->add_option("--padding", options->padding, "zeros around the input")
      ->expected(1, 2)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--dilation", options->dilation, "distance of kernel taps")
      ->expected(1, 2)
      ->check(positive)
      ->capture_default_str();
  command->add_option("--groups", options->groups, "independent convolutions")->check(positive)->capture_default_str();
  command->add_flag("--relu", options->relu, "fuse a ReLU");
  command->add_flag("--no-bias", options->no_bias, "without bias");
  command->add_option("--batch", options->batches, "batches, e.g. 1,8,32")
      ->delimiter(',')
      ->check(positive)
      ->capture_default_str();
  command->add_option("--device", options->device, "where to run")->check(device_syntax())->capture_default_str();
  command->add_option("--precision", options->precisions, "arithmetic; all but fp32 need a GPU")
      ->delimiter(',')
      ->check(accepted_by([](std::string_view text) { (void)parse_precision(text); }, "fp32|tf32|fp16|bf16"))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithms, "docs/kernels.md explains them")
      ->delimiter(',')
      ->check(accepted_by(
          [](std::string_view text) {
            if (text != "all") (void)parse_conv_algorithm(text);
          },
          "all|auto|direct|im2col|..."))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "CPU threads; 0: one for each core")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "how long to measure each line")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "also write the results to this file (-: to stdout, instead of the table)");
  command->footer(
      "Times are medians after a warm-up. On a GPU, buffers rotate through more memory than the L2 cache holds, and "
      "batches\n"
      "below 32 run inside a CUDA graph of 100 calls. The error is measured on sampled outputs against double "
      "precision;\n"
      "\"of bound\" is the largest error as a part of what the precision contract allows.\n"
      "Example:\n"
      "  lamina bench conv2d --device cpu --threads 1 --batch 1");
  command->callback([options] { bench(*options); });
}

}  // namespace lamina::app
