#include "lamina/ops/network.h"

#include "lamina/base/error.h"
#include "lamina/module/checks.h"
#include "lamina/module/run_once.h"

namespace lamina::detail {
namespace {

// What is larger is computed anew in each run: a file of some bytes may ask for any number of ones.
constexpr std::size_t largest_constant = std::size_t{1} << 30;

Tensor evaluate(const Module& module, std::span<const Tensor> inputs, std::span<const Shape> shapes, Shape shape,
                DType dtype) {
  return module.is_view(shapes) ? inputs[0].view(shape) : run_once(module, inputs, shape, dtype, 1);
}

}  // namespace

int Network::append(Node node) {
  // Products of extents, strides among them, are then counted in 64 bits wherever they are formed.
  if (node.shape.numel() > max_elements) fail(node.name, ": a value of ", node.shape, " is too large");
  nodes_.push_back(std::move(node));
  return size() - 1;
}

int Network::add_input(std::string name, Shape shape, DType dtype) {
  return append({.name = std::move(name), .module = nullptr, .inputs = {}, .shape = shape, .dtype = dtype});
}

int Network::add_constant(std::string name, Tensor value) {
  const Shape shape = value.shape();
  const DType dtype = value.dtype();
  return append({.name = std::move(name),
                 .module = nullptr,
                 .inputs = {},
                 .shape = shape,
                 .dtype = dtype,
                 .constant = std::move(value)});
}

int Network::add(std::string name, std::shared_ptr<const Module> module, std::vector<int> inputs) {
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<Tensor> constants;
  for (const int input : inputs) {
    const Node& node = (*this)[input];
    shapes.push_back(node.shape);
    dtypes.push_back(node.dtype);
    if (node.constant.defined()) constants.push_back(node.constant);
  }
  Node node = {.name = std::move(name), .module = std::move(module), .inputs = std::move(inputs), .shape = {}};
  node.dtype = node.module->output_dtype(dtypes);
  node.shape = node.module->output_shape(shapes);
  const bool known = !shapes.empty() && constants.size() == shapes.size();
  if (known && bytes_of(node.shape, {.dtype = node.dtype}) <= largest_constant) {
    return add_constant(std::move(node.name), evaluate(*node.module, constants, shapes, node.shape, node.dtype));
  }
  return append(std::move(node));
}

std::vector<std::string> Network::inputs_of(int id) const {
  std::vector<bool> needed(nodes_.size(), false);
  needed[static_cast<std::size_t>(id)] = true;
  std::vector<std::string> names;
  for (int i = id; i >= 0; --i) {
    if (!needed[static_cast<std::size_t>(i)]) continue;
    const Node& node = (*this)[i];
    if (node.module == nullptr && !node.constant.defined()) names.push_back(node.name);
    for (const int input : node.inputs) needed[static_cast<std::size_t>(input)] = true;
  }
  return names;
}

}  // namespace lamina::detail
