#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "lamina/c/handles.h"

using lamina::c::guarded;
using lamina::c::require;
using lamina::detail::fail;

lamina::Tensor lamina::c::tensor_of(const lamina_tensor& given, const std::string& which) {
  if (given.rank < 0 || given.rank > LAMINA_MAX_RANK)
    fail(which, ": expected a rank from 0 to ", LAMINA_MAX_RANK, ", got ", given.rank);
  if (given.dtype < 0 || given.dtype > LAMINA_F64)
    fail(which, ": expected a dtype from 0 to ", LAMINA_F64, ", got ", given.dtype);
  if (given.device < 0) fail(which, ": expected LAMINA_HOST or LAMINA_CUDA(index), got device ", given.device);
  if (given.reserved != 0) fail(which, ": expected a tensor.reserved of 0, got ", given.reserved);
  const std::span extents(given.shape, static_cast<std::size_t>(given.rank));
  if (std::ranges::any_of(extents, [](std::int64_t extent) { return extent < 0; }))
    fail(which, ": expected extents of 0 and more, got ", lamina::Shape(extents));
  const auto device = given.device == LAMINA_HOST ? lamina::Device::cpu() : lamina::Device::cuda(given.device - 1);
  return lamina::Tensor::borrow(given.data, lamina::Shape(extents), static_cast<lamina::DType>(given.dtype), device);
}

namespace {

std::vector<lamina::Tensor> tensors_of(const lamina_tensor* given, std::size_t count,
                                       const std::vector<lamina_port>& ports, std::string_view what) {
  if (count != ports.size()) fail("run: expected ", ports.size(), ' ', what, "s, got ", count);
  if (count > 0) require(given, what);
  std::vector<lamina::Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) tensors.push_back(lamina::c::tensor_of(given[i], ports[i].name));
  return tensors;
}

lamina_tensor view_of(lamina::Tensor tensor) {
  const int32_t device = tensor.device().is_cpu() ? LAMINA_HOST : LAMINA_CUDA(tensor.device().index);
  lamina_tensor view = {
      tensor.raw(), {}, static_cast<int32_t>(tensor.shape().rank()), static_cast<lamina_dtype>(tensor.dtype()),
      device,       0};
  std::ranges::copy(tensor.shape(), view.shape);
  return view;
}

std::vector<lamina_port> ports_of(std::span<const std::string> names, std::span<const lamina::Shape> shapes,
                                  std::span<const lamina::DType> dtypes) {
  std::vector<lamina_port> ports;
  for (std::size_t i = 0; i < names.size(); ++i) ports.push_back(lamina::c::port(names[i], &shapes[i], dtypes[i]));
  return ports;
}

}  // namespace

lamina_status lamina_model_plan_memory(const lamina_model* model, const lamina_compile_options* options,
                                       lamina_memory* memory) {
  return guarded([&] {
    require(model, "model", memory, "memory");
    const lamina::PlanMemory needed = model->model.graph.plan_memory(lamina::c::options_of(options));
    *memory = {needed.activations, needed.workspace, needed.parameters, needed.shared};
  });
}

lamina_status lamina_model_compile(const lamina_model* model, const lamina_compile_options* options,
                                   lamina_plan** plan) {
  return guarded([&] {
    require(model, "model", plan, "plan");
    std::unique_ptr<lamina_plan> handle(new lamina_plan{model->model.graph.compile(lamina::c::options_of(options))});
    const lamina::Plan& made = handle->plan;
    handle->inputs = ports_of(made.input_names(), made.input_shapes(), made.input_dtypes());
    handle->outputs = ports_of(made.output_names(), made.output_shapes(), made.output_dtypes());
    handle->summary = made.summary();
    *plan = handle.release();
  });
}

void lamina_plan_free(lamina_plan* plan) { delete plan; }

lamina_status lamina_plan_inputs(const lamina_plan* plan, const lamina_port** ports, size_t* count) {
  return guarded([&] { require(plan, "plan"), lamina::c::give(plan->inputs, ports, count); });
}

lamina_status lamina_plan_outputs(const lamina_plan* plan, const lamina_port** ports, size_t* count) {
  return guarded([&] { require(plan, "plan"), lamina::c::give(plan->outputs, ports, count); });
}

lamina_status lamina_plan_counted(const lamina_plan* plan, int32_t* counted) {
  return guarded([&] { require(plan, "plan", counted, "counted"), *counted = plan->plan.counted() ? 1 : 0; });
}

lamina_status lamina_plan_summary(const lamina_plan* plan, const char** text) {
  return guarded([&] { require(plan, "plan"), require(text, "text"), *text = plan->summary.c_str(); });
}

lamina_status lamina_plan_run(lamina_plan* plan, const lamina_tensor* inputs, size_t input_count,
                              lamina_tensor* outputs, size_t output_count, void* stream) {
  return guarded([&] {
    require(plan, "plan");
    const std::vector<lamina::Tensor> given = tensors_of(inputs, input_count, plan->inputs, "input");
    if (output_count != plan->outputs.size())
      fail("run: expected ", plan->outputs.size(), " outputs, got ", output_count);
    if (output_count > 0) require(outputs, "outputs");
    std::ranges::transform(plan->plan.run(given, stream, plan->limits), outputs, view_of);
  });
}

lamina_status lamina_plan_run_into(lamina_plan* plan, const lamina_tensor* inputs, size_t input_count,
                                   const lamina_tensor* outputs, size_t output_count, void* stream) {
  return guarded([&] {
    require(plan, "plan");
    const std::vector<lamina::Tensor> given = tensors_of(inputs, input_count, plan->inputs, "input");
    std::vector<lamina::Tensor> results = tensors_of(outputs, output_count, plan->outputs, "output");
    plan->plan.run_into(given, results, stream, plan->limits);
  });
}

lamina_status lamina_plan_set_limit(lamina_plan* plan, double seconds) {
  return guarded([&] {
    require(plan, "plan");
    if (!(seconds >= 0)) fail("seconds: expected 0 or more, got ", seconds);
    plan->stop = {};
    plan->limits = {.stop = plan->stop.get_token(), .time = {}};
    constexpr double most = 1e9;  // whose nanoseconds 63 bits hold
    if (seconds > 0) plan->limits.time = std::chrono::nanoseconds(std::llround(std::min(seconds, most) * 1e9));
  });
}

lamina_status lamina_plan_stop(lamina_plan* plan) {
  return guarded([&] { require(plan, "plan"), plan->stop.request_stop(); });
}
