#include "lamina/module/module.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/names.h"
#include "lamina/base/thread_pool.h"
#include "lamina/module/run_once.h"

namespace lamina {

void Module::set_parameter(std::string_view name, Tensor value) {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const auto& p) { return p.name == name; });
  if (found == parameters_.end()) {
    std::vector<std::string> names;
    for (const Parameter& parameter : parameters_) names.push_back(parameter.name);
    detail::fail(op(), ": there is no parameter ", detail::quote(name), detail::nearest_text(name, names));
  }
  if (value.dtype() != found->dtype || value.shape() != found->shape || !value.device().is_cpu()) {
    detail::fail(op(), ": expected a ", name, " of ", found->dtype, ' ', found->shape, " on cpu, got ",
                 value.description());
  }
  found->value = std::move(value);
}

const Tensor& Module::parameter(std::string_view name) const {
  static const Tensor none;
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return parameter.value;
  }
  return none;
}

void Module::require_parameters() const {
  for (const Parameter& parameter : parameters_) {
    if (!parameter.value.defined()) {
      detail::fail(op(), ": the ", parameter.name, " was never set; load weights first");
    }
  }
}

Attributes Module::attributes() const { return {}; }

DType Module::output_dtype(std::span<const DType> inputs) const {
  for (const DType dtype : inputs) {
    if (dtype != DType::f32) detail::fail(op(), ": expected inputs of f32, got ", dtype);
  }
  return DType::f32;
}

Tensor Module::operator()(const Tensor& input) const { return forward({&input, 1}); }

Tensor Module::forward(std::span<const Tensor> inputs) const {
  if (inputs.empty()) detail::fail(op(), ": expected an input");
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  for (const Tensor& input : inputs) {
    if (!input.defined()) detail::fail(op(), ": expected f32 input, got ", input.description());
    if (input.device() != inputs[0].device()) {
      detail::fail(op(), ": expected all inputs on ", inputs[0].device(), ", got ", input.description());
    }
    shapes.push_back(input.shape());
    dtypes.push_back(input.dtype());
  }
  const DType dtype = output_dtype(dtypes);
  const Shape shape = output_shape(shapes);
  if (is_view(shapes)) return inputs[0].view(shape);

  const int threads = inputs[0].device().is_cpu() ? ThreadPool::default_threads() : 1;
  return detail::run_once(*this, inputs, shape, dtype, threads);
}

Tensor detail::run_once(const Module& module, std::span<const Tensor> inputs, Shape shape, DType dtype, int threads) {
  std::vector<View> views;
  for (const Tensor& input : inputs) views.push_back({.shape = input.shape(), .format = {.dtype = input.dtype()}});
  const View result = {.shape = shape, .format = {.dtype = dtype}};
  const Device device = inputs[0].device();
  ThreadPool pool(threads);
  const auto prepared =
      module.prepare({.inputs = views, .outputs = {&result, 1}, .device = describe(device), .threads = pool.threads()});
  Tensor output(shape, dtype, device);
  Tensor workspace(Shape{static_cast<std::int64_t>(prepared->workspace_bytes())}, DType::u8, device);
  Tensor counters = Tensor::zeros({static_cast<std::int64_t>(prepared->counter_bytes())}, DType::u8, device);
  prepared->wait();
  prepared->run(inputs, {&output, 1}, {.pool = &pool, .workspace = workspace.raw(), .counters = counters.raw()});
  return output;
}

}  // namespace lamina
