#include "node.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/graph/resolve.h"
#include "lamina/layers/op_table.h"
#include "lamina/ops/op.h"
#include "lamina/ops/table.h"
#include "lent.h"
#include "options.h"

namespace lamina::python {
namespace {

using detail::fail;
using Parameters = std::map<std::string, Tensor, std::less<>>;

/// What parameters of nodes are called; every other keyword is an attribute.
bool is_parameter(std::string_view name) {
  constexpr std::string_view names[] = {"weight", "bias", "running_mean", "running_var"};
  return std::ranges::find(names, name) != std::end(names);
}

/// Numbers of NumPy's, and arrays and lists of them, as Python's own.
nb::object plain(nb::handle value) {
  if (nb::hasattr(value, "tolist")) return value.attr("tolist")();
  if (!nb::isinstance<nb::tuple>(value) && !nb::isinstance<nb::list>(value)) return nb::borrow(value);
  nb::list all;
  for (const nb::handle each : value) all.append(plain(each));
  return all;
}

Attribute attribute_from(nb::handle given, const std::string& name) {
  const nb::object value = plain(given);
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
  if (std::int64_t integer = 0; nb::try_cast(value, integer, false)) return integer;
  if (double number = 0; nb::try_cast(value, number, false)) return number;
  if (std::string text; nb::try_cast(value, text, false)) return text;
  if (std::vector<std::int64_t> integers; nb::try_cast(value, integers, false)) return integers;
  if (std::vector<double> numbers; nb::try_cast(value, numbers, false)) return numbers;
  fail(name, ": expected a number, a bool, a text or a list of numbers, got ", nb::repr(given).c_str());
}

}  // namespace

Tensor copy_of(nb::handle array, std::string_view what) {
  return Lent(array, what, Lent::Access::read).tensor().to(Device::cpu()).clone();
}

Trial trial_of(const Shape& declared, DType dtype) {
  Trial trial;
  for (std::size_t i = 0; i < trial.ports.size(); ++i) {
    Shape shape = declared;
    for (int d = 0; d < static_cast<int>(shape.rank()); ++d) {
      if (shape[d] == batch) shape.set(d, i == 0 ? 2 : 3);
      if (shape[d] == open) shape.set(d, i == 0 ? 64 : 96);
    }
    if (std::ranges::all_of(shape, [](std::int64_t extent) { return extent >= 0; })) trial.ports[i] = {shape, dtype};
  }
  return trial;
}

Trial trial_of(const std::string& name, const std::shared_ptr<Module>& module, std::span<const Trial* const> operands) {
  Trial result;
  const auto is_constant = [](const Trial* of) { return of == nullptr || of->constant; };
  const bool computed = operands.empty() || !std::ranges::all_of(operands, is_constant);
  std::array<std::string, 2> wrong;
  for (std::size_t i = 0; computed && i < wrong.size(); ++i) {
    Graph graph;
    std::vector<Value> inputs;
    for (const Trial* of : operands) {
      const std::string operand = "operand " + std::to_string(inputs.size() + 1);
      if (of != nullptr && !of->constant && !of->ports[i]) return result;
      inputs.push_back(of == nullptr  ? Value()
                       : of->constant ? graph.add(operand, of->constant, std::span<const Value>())
                                      : graph.input(operand, of->ports[i]->shape, of->ports[i]->dtype));
    }
    try {
      graph.output(graph.add(name, module, inputs));
      const detail::Resolved resolved = detail::resolve(graph, {});
      const detail::Network::Node& node = resolved.network[resolved.outputs[0]];
      if (resolved.output_counts[0].empty()) result.ports[i] = {node.shape, node.dtype};
    } catch (const UnboundInputs&) {  // a value decides
    } catch (const Error& error) {
      wrong[i] = error.what();
    }
  }
  const bool is_op = dynamic_cast<const Op*>(module.get()) != nullptr;  // a layer's own words know of batches
  if (is_op && !wrong[0].empty() && wrong[0] == wrong[1]) throw Error(wrong[0]);
  return result;
}

std::shared_ptr<Module> module_from(const std::string& op, const nb::kwargs& given) {
  Attributes attributes;
  Parameters shapes, values;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (!is_parameter(name)) {
      attributes.emplace_back(name, attribute_from(value, name));
    } else if (nb::isinstance<nb::tuple>(value) || nb::isinstance<nb::list>(value)) {
      shapes[name] = Tensor::borrow(nullptr, shape_from(value), DType::f32);
    } else if (!value.is_none()) {
      shapes[name] = values[name] = copy_of(value, name);
    }
  }
  const NodeSpec spec = {.attributes = attributes, .parameter = [&](std::string_view name) -> std::optional<Tensor> {
                           const auto found = shapes.find(name);
                           return found == shapes.end() ? std::nullopt : std::optional(found->second);
                         }};
  const bool is_op = detail::find_op(op) != nullptr;
  if (is_op && !shapes.empty()) fail(op, ": takes its operands as inputs; ", shapes.begin()->first, " is none of it");
  std::vector<std::string> ops;
  for (const detail::OpRow& row : detail::all_ops()) ops.emplace_back(row.name);
  std::shared_ptr<Module> module = is_op ? std::make_shared<Op>(op, attributes) : detail::make_module(op, spec, ops);
  for (const auto& [name, value] : values) module->set_parameter(name, value);
  return module;
}

}  // namespace lamina::python
