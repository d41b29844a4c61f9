#include "bench/race.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "bench/ceilings.h"
#include "bench/timer.h"
#include "lamina/compile/conversion.h"
#include "lamina/cpu/reference.h"
#include "lamina/cuda/runtime/stream.h"

namespace lamina::app {
namespace {

Size2d size2d(const std::vector<int>& values) {
  return values.size() == 2 ? Size2d(values[0], values[1]) : Size2d(values[0]);
}

Tensor random_tensor(const Shape& shape, float scale, std::mt19937& random) {
  Tensor tensor(shape);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (float& value : tensor.values<float>()) value = uniform(random);
  return tensor;
}

Conv2dOptions conv_options(const RaceOptions& o) {
  return {.in = o.in,
          .out = o.out,
          .kernel = size2d(o.kernel),
          .stride = size2d(o.stride),
          .padding = size2d(o.padding),
          .dilation = size2d(o.dilation),
          .groups = o.groups,
          .bias = !o.no_bias};
}

/// In the order of the other layout.
Tensor turned(const Tensor& tensor, Layout from, Layout to) {
  if (from == to) return tensor;
  const Shape& s = tensor.shape();
  const std::int64_t rows = from == Layout::nchw ? s[1] : s[2] * s[3], columns = s[1] * s[2] * s[3] / rows;
  const std::size_t size = size_of(tensor.dtype());
  Tensor result(s, tensor.dtype());
  const auto* const source = static_cast<const std::byte*>(tensor.raw());
  auto* out = static_cast<std::byte*>(result.raw());
  for (std::int64_t n = 0; n < s[0]; ++n) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t r = 0; r < rows; ++r, out += size) {
        std::memcpy(out, source + static_cast<std::size_t>((n * rows + r) * columns + c) * size, size);
      }
    }
  }
  return result;
}

int default_threads(const RaceOptions& options, Device device) {
  if (options.threads > 0) return options.threads;
  return device.is_cpu() ? ThreadPool::default_threads() : 1;
}

}  // namespace

Conv2dRace::Conv2dRace(const RaceOptions& options, Device device)
    : options_(options), device_(device), pool_(default_threads(options, device)), conv_(conv_options(options)) {
  const Size2d kernel = conv_.options().kernel;
  const float scale = 1.0f / std::sqrt(static_cast<float>(options.in / options.groups * kernel.height * kernel.width));
  for (const auto& parameter : conv_.parameters()) {
    conv_.set_parameter(parameter.name, random_tensor(parameter.shape, scale, random_));
  }
}

Shape Conv2dRace::input_shape(std::int64_t n) const {
  const Size2d size = size2d(options_.size);
  return {n, options_.in, size.height, size.width};
}

Format Conv2dRace::input_format(Precision precision) const {
  if (options_.input) return *options_.input;
  return {options_.layout == Layout::nchw ? DType::f32 : storage_type(precision), options_.layout};
}

Format Conv2dRace::output_format(Precision precision) const {
  return {device_.is_cpu() && options_.layout == Layout::nchw ? DType::f32 : storage_type(precision), options_.layout};
}

/// The same activation in another format.
Tensor Conv2dRace::converted(const Tensor& tensor, Format from, Format to) const {
  if (from == to) return tensor;
  if (device_.is_cpu()) return turned(tensor.to(to.dtype), from.layout, to.layout);
  const View before = {.shape = tensor.shape(), .format = from}, after = {.shape = tensor.shape(), .format = to};
  Tensor result(tensor.shape(), to.dtype, device_);
  detail::Conversion()
      .prepare({.inputs = {&before, 1}, .outputs = {&after, 1}, .device = lamina::describe(device_)})
      ->run({&tensor, 1}, {&result, 1}, {});
  cuda::synchronize(device_.index, nullptr);
  return result;
}

void Conv2dRace::prepare_batch(std::int64_t n) {
  geometry_ = conv_.geometry(input_shape(n));
  const std::vector<Shape> shapes = {input_shape(n)};
  output_shape_ = conv_.output_shape(shapes);
  host_input_ = random_tensor(input_shape(n), 1, random_);
}

void Conv2dRace::prepare_buffers(Precision precision) {
  const Format input = input_format(precision), output = output_format(precision);
  const double bytes = static_cast<double>(geometry_.input_size()) * static_cast<double>(size_of(input.dtype)) +
                       static_cast<double>(geometry_.output_size()) * static_cast<double>(size_of(output.dtype));
  constexpr double cache = 256e6;
  const int copies = device_.is_cpu() ? 1 : static_cast<int>(std::clamp(std::ceil(cache / bytes), 1.0, 100.0));
  ring_.clear();
  for (int i = 0; i < copies; ++i) {
    ring_.emplace_back(converted(host_input_.to(device_), {}, input), Tensor(output_shape_, output.dtype, device_));
  }
}

BenchResult Conv2dRace::measure(std::string_view algorithm, Precision precision) {
  BenchResult result = describe(std::string(algorithm), precision);
  const View input = {.shape = input_shape(geometry_.batch), .format = input_format(precision)},
             output = {.shape = output_shape_, .format = output_format(precision)};
  result.output = output.format.dtype;
  std::shared_ptr<const Module> conv = std::make_shared<Conv2d>(conv_);
  if (options_.relu) conv = conv->absorb(ReLU());
  std::unique_ptr<Operator> op;
  try {
    op = conv->prepare({.inputs = {&input, 1},
                        .outputs = {&output, 1},
                        .device = lamina::describe(device_),
                        .precision = precision,
                        .algorithm = algorithm == "auto" ? std::string_view() : algorithm,
                        .threads = pool_.threads()});
  } catch (const Error& error) {
    result.note = error.what();
    return result;
  }
  prepare_buffers(precision);
  result.kernel = op->description();
  result.workspace = op->workspace_bytes();
  Tensor workspace(Shape{static_cast<std::int64_t>(op->workspace_bytes())}, DType::u8, device_);
  const auto call = [&](int i, void* stream) {
    auto& [x, y] = ring_[static_cast<std::size_t>(i) % ring_.size()];
    op->run({&x, 1}, {&y, 1}, {.pool = &pool_, .stream = stream, .workspace = workspace.raw()});
  };
  call(0, nullptr);
  if (device_.is_cuda()) cuda::synchronize(device_.index, nullptr);
  check(result, precision);
  // As a network runs them: inside a CUDA graph, many calls over rotating buffers.
  const int per_graph = geometry_.batch < 32 ? 100 : options_.layout == Layout::nhwc ? 20 : 1;
  result.time = time_calls(device_, per_graph, options_.seconds, call);
  rate(result, size_of(input.format.dtype));
  return result;
}

BenchResult Conv2dRace::measure_product() {
  BenchResult result = describe("product", Precision::fp32);
  result.kernel = "Eigen product of ready-made columns: a floor, not a convolution";
  Tensor columns = random_tensor({geometry_.reduction(), geometry_.out_pixels()}, 1, random_);
  Tensor output(output_shape_);
  result.time = time_calls(device_, 1, options_.seconds, [&](int, void*) {
    eigen_product_alone(geometry_, conv_.weight().values<float>().data(), columns.values<float>().data(),
                        output.values<float>().data(), pool_);
  });
  rate(result, sizeof(float));
  return result;
}

BenchResult Conv2dRace::describe(std::string algorithm, Precision precision) const {
  BenchResult result;
  result.algorithm = std::move(algorithm);
  result.precision = name(precision);
  result.batch = geometry_.batch;
  return result;
}

void Conv2dRace::rate(BenchResult& result, std::size_t input_element) const {
  const auto bytes =
      static_cast<double>(geometry_.input_size() + geometry_.weight_size()) * static_cast<double>(input_element) +
      static_cast<double>(geometry_.output_size()) * static_cast<double>(size_of(result.output));
  result.tflops = geometry_.flops() / result.time.median * 1e-9;
  result.gb_per_s = bytes / result.time.median * 1e-6;
}

/// Compares outputs drawn at random with the double reference.
void Conv2dRace::check(BenchResult& result, Precision precision) {
  constexpr int samples = 2000;
  const Format stored = output_format(precision);
  const Tensor output =
      converted(ring_[0].second, stored, {stored.dtype, Layout::nchw}).to(Device::cpu()).to(DType::f32);
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
    auto truth = cpu::conv2d_reference(geometry_, x.data(), conv_.weight().values<float>().data(), bias, n, oc, oh, ow);
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

}  // namespace lamina::app
