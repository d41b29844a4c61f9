#include "lamina/layers/linear.h"

#include <cmath>

#include "lamina/base/in_parallel.h"
#include "lamina/cpu/linear/linear.h"
#include "lamina/cuda/linear/linear.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/layers/views.h"

namespace lamina {
namespace {

using detail::fail;
using detail::floats;

/// The weights as f16 or bf16. Throws Error if a finite one becomes infinite.
Tensor narrowed(const Tensor& weight, DType type) {
  Tensor result = weight.to(type);
  const std::span<const float> exact = weight.values<float>();
  const auto check = [&](const auto& rounded) {
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (std::isfinite(exact[i]) && !std::isfinite(to_float(rounded[i]))) {
        fail("linear: weight ", exact[i], " is beyond the range of ", type, "; keep linear weights in f32");
      }
    }
  };
  type == DType::f16 ? check(result.values<half>()) : check(result.values<bfloat16>());
  return result;
}

std::unique_ptr<Operator> prepare_cpu(std::int64_t rows, const LinearOptions& o, const Preparation& preparation,
                                      const Tensor& weight, const Tensor& bias) {
  if (preparation.precision != Precision::fp32) {
    fail("linear: the CPU computes in fp32; precision ", name(preparation.precision), " needs a CUDA device");
  }
  // The lambda shares the parameters with the module: several plans use one copy. 16-bit weights are its own.
  const DType type = preparation.linear_weights;
  if (type != DType::f32 && type != DType::bf16 && type != DType::f16) {
    fail("linear: expected linear_weights of f32, bf16 or f16, got ", type);
  }
  const Tensor stored = type == DType::f32 ? weight : narrowed(weight, type);
  const cpu::LinearKernel& kernel = cpu::linear_kernels().front();
  return detail::make_operator(
      detail::concat("dot products", rows <= cpu::LinearJob::most_rows ? ", weights streamed once" : "",
                     type == DType::f32 ? "" : detail::concat(" as ", type), ", ", cpu::name(kernel.set)),
      {.workspace = cpu::linear_workspace(kernel, rows, o.in), .parameters = type == DType::f32 ? 0 : stored.bytes()},
      [=, &kernel, relu = preparation.relu](std::span<const Tensor> inputs, Tensor& output,
                                            const Execution& execution) {
        const cpu::LinearPointers pointers = {.input = floats(inputs[0]),
                                              .weight = stored.raw(),
                                              .bias = floats(bias),
                                              .output = floats(output),
                                              .relu = relu,
                                              .weight_type = type};
        cpu::linear(kernel, rows, o.in, o.out, pointers, *execution.pool, static_cast<float*>(execution.workspace));
      });
}

std::unique_ptr<Operator> prepare_cuda(std::int64_t rows, const LinearOptions& o, const Preparation& preparation,
                                       const Tensor& weight, const Tensor& bias) {
  if (preparation.linear_weights != DType::f32) {
    fail("linear: linear_weights of ", preparation.linear_weights, " are for the CPU; on a GPU the precision decides");
  }
  const cuda::LinearOptions options = {.device = preparation.device.index,
                                       .precision = preparation.precision,
                                       .output = preparation.output.dtype,
                                       .rows = rows,
                                       .in = o.in,
                                       .out = o.out,
                                       .relu = preparation.relu,
                                       .workspace_limit = preparation.workspace_limit};
  std::shared_ptr<const cuda::LinearKernel> kernel =
      cuda::prepare_linear(options, floats(weight), bias.defined() ? floats(bias) : nullptr);
  return detail::make_operator(kernel->description(),
                               {.workspace = kernel->workspace_bytes(), .parameters = kernel->parameter_bytes()},
                               [kernel](std::span<const Tensor> inputs, Tensor& output, const Execution& execution) {
                                 kernel->run(inputs[0].raw(), output.raw(), execution.workspace, execution.stream);
                               });
}

/// Weights [out, C * H * W] with their columns in the order H, W, C.
Tensor channels_last(const Tensor& weight, const Shape& image) {
  const std::int64_t channels = image[1], pixels = image[2] * image[3];
  Tensor result(weight.shape());
  const auto reorder_rows = [&](std::size_t begin, std::size_t end) {
    const std::int64_t skipped = static_cast<std::int64_t>(begin) * channels * pixels;
    const float* from = floats(weight) + skipped;
    float* to = floats(result) + skipped;
    for (std::size_t row = begin; row < end; ++row, from += channels * pixels) {
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        for (std::int64_t channel = 0; channel < channels; ++channel) *to++ = from[channel * pixels + pixel];
      }
    }
  };
  detail::in_parallel(static_cast<std::size_t>(weight.shape()[0]), 64, reorder_rows);
  return result;
}

}  // namespace

Linear::Linear(const LinearOptions& options) : options_(options) {
  if (options_.in < 1 || options_.out < 1) {
    fail("linear: expected 1 or more features, got ", options_.in, " in and ", options_.out, " out");
  }
}

void Linear::set_weight(Tensor weight) {
  detail::require_parameter(op(), weight, {options_.out, options_.in}, "weight");
  weight_ = std::move(weight);
}

void Linear::set_bias(Tensor bias) {
  if (!options_.bias) fail("linear: this layer has no bias");
  detail::require_parameter(op(), bias, {options_.out}, "bias");
  bias_ = std::move(bias);
}

std::vector<Module::Parameter> Linear::parameters() {
  std::vector<Parameter> result = {{"weight", {options_.out, options_.in}, &weight_}};
  if (options_.bias) result.push_back({"bias", {options_.out}, &bias_});
  return result;
}

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  const Shape& input = detail::lone_input(op(), inputs);
  if (input.rank() < 2) fail("linear: expected input [N, ..., in], got ", input);
  if (input[-1] != options_.in) {
    fail("linear: expected ", options_.in, " input features, got ", input[-1], " (input ", input, ')');
  }
  Shape output = input;
  output.set(-1, options_.out);
  return output;
}

double Linear::flops(std::span<const Shape> inputs) const {
  const double rows = static_cast<double>(inputs[0].with_batch(1).numel()) / options_.in;
  return 2.0 * rows * options_.in * options_.out;
}

bool Linear::takes(const Preparation& p) const {
  if (p.device.is_cpu()) return Module::takes(p);
  const DType storage = storage_type(p.precision);
  return p.input == Format{storage} && !p.pool && (p.output == Format{storage} || p.output == Format{});
}

std::unique_ptr<Operator> Linear::prepare(const Preparation& preparation) const {
  detail::require_loaded(op(), weight_, "weight");
  if (options_.bias) detail::require_loaded(op(), bias_, "bias");
  const std::int64_t rows = preparation.inputs[0].numel() / options_.in;
  switch (preparation.device.type) {
    case DeviceType::cpu: return prepare_cpu(rows, options_, preparation, weight_, bias_);
    case DeviceType::cuda: return prepare_cuda(rows, options_, preparation, weight_, bias_);
  }
  fail("linear: unknown device");
}

Shape FlattenedLinear::output_shape(std::span<const Shape> inputs) const {
  const Shape flat = Flatten().output_shape(inputs);
  return Linear::output_shape({&flat, 1});
}

bool FlattenedLinear::takes(const Preparation& p) const {
  Preparation in_order = p;
  if (p.input.layout == Layout::nhwc) in_order.input.layout = Layout::nchw;
  return Linear::takes(in_order);
}

std::unique_ptr<Operator> FlattenedLinear::prepare(const Preparation& preparation) const {
  const Shape& image = preparation.inputs[0];
  if (detail::same_order(image, preparation.input.layout, Layout::nchw)) return Linear::prepare(preparation);
  detail::require_loaded(op(), weight(), "weight");
  Linear reordered = *this;
  reordered.set_weight(channels_last(weight(), image));
  return reordered.prepare(preparation);
}

}  // namespace lamina
