#include "lamina/layers/module.h"

#include "lamina/base/error.h"
#include "lamina/base/thread_pool.h"

namespace lamina {

Tensor Module::operator()(const Tensor& input) const { return forward({&input, 1}); }

Tensor Module::forward(std::span<const Tensor> inputs) const {
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) {
    if (!input.defined() || input.dtype() != DType::f32)
      detail::fail(op(), ": expected f32 input, got ", input.description());
    if (input.device() != inputs[0].device()) {
      detail::fail(op(), ": expected all inputs on ", inputs[0].device(), ", got ", input.description());
    }
    shapes.push_back(input.shape());
  }
  const Shape shape = output_shape(shapes);
  if (is_view(shapes)) return inputs[0].view(shape);

  const Device device = inputs[0].device();
  ThreadPool pool(device.is_cpu() ? ThreadPool::default_threads() : 1);
  const auto prepared = prepare({.inputs = shapes, .device = device, .threads = pool.threads()});
  Tensor output(shape, DType::f32, device);
  Tensor workspace(Shape{static_cast<std::int64_t>(prepared->workspace_bytes())}, DType::u8, device);
  prepared->run(inputs, output, {.pool = &pool, .workspace = workspace.raw()});
  return output;
}

}  // namespace lamina
