// Bodies that a run computes by themselves, and Loops whose number of iterations only a run knows. Such a run, on a
// CPU, unrolls the Loop itself. All values are known by then, so every node of the body becomes a constant, and the
// body may decide by any value.

#include <algorithm>
#include <cstring>

#include "lamina/graph/loops.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/op.h"

namespace lamina::detail {

Value Body::read(int input) {
  if (input < 0) return {};
  if (const auto known = values_.find(input); known != values_.end()) return known->second;
  const Graph::Node& outside = nodes_[static_cast<std::size_t>(input)];
  if (is_loop_value(outside) && by_.find(input) == -1) return values_[input] = add(outside.name, outside.module, {});
  const int id = by_.make(input);
  if (id < 0) fail(op_, ": ", outside.name, " is a sequence, and what is done with it is known only in a run");
  const Network::Node made = network_[id];
  Alone::Outer outer = {.name = outside.name, .value = made.constant};
  const bool narrow = !outer.value.defined() && on_host(made.dtype) != made.dtype;
  Expansion e(network_, Op("Identity"), outside.name, {});
  if (!outer.value.defined()) outer.operand = operand(e.uncounted(narrow ? e.cast(id, DType::f32) : id));
  for (int axis = 0; axis < static_cast<int>(made.counts.size()); ++axis) {
    if (network_.count_of(id, axis) < 0) continue;
    outer.axis = axis, outer.count = operand(network_.count_of(id, axis));
  }
  alone->outer.push_back(std::move(outer));
  const std::vector<std::int64_t> extents(made.shape.rank(), open);
  Value value = alone->graph.input(outside.name, Shape(extents), narrow ? DType::f32 : made.dtype);
  if (narrow) {
    const std::int64_t number = made.dtype == DType::f16 ? 10 : 16;  // ONNX's
    value = alone->graph.add(concat(outside.name, " as ", made.dtype),
                             std::make_shared<Op>("Cast", Attributes{{"to", number}}), std::vector{value});
  }
  return values_[input] = value;
}

Value Body::add(std::string name, std::shared_ptr<Module> module, std::span<const int> inputs) {
  std::vector<Value> values;
  for (const int input : inputs) values.push_back(read(input));
  return alone->graph.add(std::move(name), std::move(module), values);
}

void Body::take(int node) {
  const Graph::Node& each = nodes_[static_cast<std::size_t>(node)];
  values_[node] = add(each.name, each.module, each.inputs);
}

namespace {

/// The outputs of a Loop by itself, given the values of `alone.outer` that were not known.
std::vector<Tensor> outputs_of(const Alone& alone, std::span<const Tensor> values) {
  CompileOptions options;
  for (std::size_t i = 0; i < alone.outer.size(); ++i) {
    const Tensor& known = alone.outer[i].value;
    options.constants[alone.outer[i].name] = known.defined() ? known : values[i];
  }
  const Resolved resolved = resolve(alone.graph, options);
  std::vector<Tensor> result;
  for (const int output : resolved.outputs) {
    result.push_back(resolved.network[output].constant);
    if (!result.back().defined()) fail("Loop: its values are too large to be computed at once");
  }
  return result;
}

/// The same, given the operands that a run has.
std::vector<Tensor> outputs_of_run(const Alone& alone, std::span<const Tensor> operands) {
  std::vector<Tensor> values;
  for (const Alone::Outer& each : alone.outer) {
    values.push_back(each.operand < 0 ? each.value : operands[static_cast<std::size_t>(each.operand)]);
    if (each.count < 0) continue;
    const Tensor& count = operands[static_cast<std::size_t>(each.count)];
    values.back() = values.back().slice(0, count.values<std::int64_t>()[0]);
  }
  return outputs_of(alone, values);
}

}  // namespace

std::vector<int> run_loop(const std::vector<Graph::Node>& nodes, std::size_t loop, std::span<const int> body,
                          std::size_t outputs, Network& network, LoopNodes& by) {
  const Graph::Node& node = nodes[loop];
  const int trips = by.make(certain_inputs(node)[0]);
  Expansion e(network, Op("Loop"), node.name, {trips});
  std::vector<int> operands;
  Body taken("Loop", nodes, network, by, operands);
  const std::shared_ptr<Alone> alone = taken.alone;
  for (const int inner : body) taken.take(inner);
  for (std::size_t i = 0; i < outputs; ++i) {
    alone->graph.output(taken.add(concat(node.name, " output ", i),
                                  std::make_shared<Op>("Loop", Attributes{{"output", static_cast<std::int64_t>(i)}}),
                                  node.inputs));
  }
  for (const Alone::Outer& outer : alone->outer) {
    if (outer.axis > 0) fail("Loop: axis ", outer.axis, " of ", outer.name, " has a count");
  }
  // The sizes of the outputs are found by trying the body with ones in place of values that only a run computes.
  const std::int64_t most = to_integers(network[trips].range.most)[0], tried = std::min<std::int64_t>(most, 3);
  const auto try_with = [&](std::int64_t iterations) {
    std::vector<Tensor> ones;
    for (const Alone::Outer& outer : alone->outer) {
      const int id = outer.operand < 0 ? -1 : operands[static_cast<std::size_t>(outer.operand)];
      const std::vector<std::int64_t> all(id < 0 ? 0 : static_cast<std::size_t>(network[id].shape.numel()),
                                          id == trips ? iterations : 1);
      ones.push_back(id < 0 ? outer.value : Tensor::from(all, network[id].shape).to(network[id].dtype));
    }
    return outputs_of(*alone, ones);
  };
  const std::vector<Tensor> larger = try_with(tried), smaller = try_with(tried - 1);
  const int count = e.cast(e.reshape(trips, {1}), DType::i64);
  std::vector<int> made;
  for (std::size_t i = 0; i < outputs; ++i) {
    Shape shape = larger[i].shape(), other = smaller[i].shape();
    const std::int64_t rows = shape == other ? 0 : shape.rank() == other.rank() ? shape[0] - other[0] : -1;
    if (rows > 0) other.set(0, shape[0]);
    if (rows < 0 || shape != other || (rows > 0 && shape[0] != rows * tried))
      fail("Loop: expected an output of as many rows in each iteration, got ", shape, " after ", tried, " iterations");
    if (rows > 0) shape.set(0, rows * most);
    const auto said = static_cast<std::size_t>(std::ranges::find(operands, trips) - operands.begin());
    const auto run = [alone, i, rows, said](auto inputs, auto results, const Execution&) {
      const std::int64_t iterations = to_integers(inputs[said])[0];
      if (rows > 0 && iterations == 0) return;
      const Tensor found = outputs_of_run(*alone, inputs)[i];
      Shape room = results[0].shape();
      if (rows > 0) room.set(0, std::min(room[0], rows * iterations));
      if (found.shape() != room) fail("Loop: expected an output of ", room, ", this run gives ", found.shape());
      const Tensor wide = found.to(on_host(found.dtype()));
      std::memcpy(results[0].raw(), wide.raw(), wide.bytes());
    };
    const DType dtype = larger[i].dtype();
    made.push_back(e.cast(e.add(std::make_shared<OnCpu>("Loop", shape, on_host(dtype), 0, run), operands), dtype));
    if (rows > 0) network.set_count(made.back(), 0, e.check(count, {.times = rows}));
  }
  return made;
}

}  // namespace lamina::detail
