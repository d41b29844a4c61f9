// Loops of which a run says how many iterations they have. On a CPU such a run unrolls them itself, with every value
// known, so that every node of the body is a constant: what the body does may depend on anything.

#include <algorithm>
#include <cstring>
#include <map>

#include "lamina/graph/loops.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/op.h"

namespace lamina::detail {
namespace {

/// A Loop by itself, and how what it reads of its surroundings gets there.
struct Alone {
  struct Outer {
    std::string name;
    Tensor value;               // undefined where a run computes it
    int operand = -1;           // then
    std::vector<int> counts{};  // by axis: the operand that says how many there are, or -1
  };

  Graph graph;
  std::vector<Outer> outer;

  /// What it gives for values of `outer` that are not known.
  std::vector<Tensor> outputs(std::span<const Tensor> values) const {
    CompileOptions options;
    for (std::size_t i = 0; i < outer.size(); ++i) {
      options.constants[outer[i].name] = outer[i].value.defined() ? outer[i].value : values[i];
    }
    const Resolved resolved = resolve(graph, options);
    std::vector<Tensor> result;
    for (const int output : resolved.outputs) {
      result.push_back(resolved.network[output].constant);
      if (!result.back().defined()) fail("Loop: its values are too large to be computed at once");
    }
    return result;
  }

  /// The same of a run.
  std::vector<Tensor> outputs_of_run(std::span<const Tensor> operands) const {
    std::vector<Tensor> values;
    for (const Outer& each : outer) {
      values.push_back(each.operand < 0 ? each.value : operands[static_cast<std::size_t>(each.operand)]);
      if (each.counts.empty()) continue;
      const Tensor& count = operands[static_cast<std::size_t>(each.counts[0])];
      values.back() = values.back().slice(0, count.values<std::int64_t>()[0]);
    }
    return outputs(values);
  }
};

}  // namespace

std::vector<int> run_loop(const std::vector<Graph::Node>& nodes, std::size_t loop, std::span<const int> body,
                          std::size_t outputs, Network& network, LoopNodes& by) {
  const Graph::Node& node = nodes[loop];
  const int trips = by.make(certain_of_loop(node)[0]);
  Expansion e(network, Op("Loop"), node.name, {trips});
  const auto alone = std::make_shared<Alone>();
  std::map<int, Value> values;
  std::vector<int> operands;
  const auto operand = [&](int id) {
    operands.push_back(id);
    return static_cast<int>(operands.size()) - 1;
  };
  const auto value_of = [&](int input) {
    if (input < 0) return Value();
    if (const auto known = values.find(input); known != values.end()) return known->second;
    const Graph::Node& outside = nodes[static_cast<std::size_t>(input)];
    if (!is_loop_value(outside)) {
      const int id = by.make(input);
      if (id < 0) fail("Loop: ", outside.name, " is a sequence, and a run says how many iterations there are");
      const Network::Node made = network[id];
      Alone::Outer outer = {.name = outside.name, .value = made.constant};
      if (!outer.value.defined()) outer.operand = operand(e.uncounted(id));
      for (int axis = 0; axis < static_cast<int>(made.counts.size()); ++axis) {
        if (network.count_of(id, axis) < 0) continue;
        if (axis > 0) fail("Loop: axis ", axis, " of ", outside.name, ' ', made.shape, " has a count");
        outer.counts = {operand(network.count_of(id, 0))};
      }
      alone->outer.push_back(std::move(outer));
      const std::vector<std::int64_t> extents(made.shape.rank(), open);
      return values[input] = alone->graph.input(outside.name, Shape(extents), made.dtype);
    }
    return values[input] = alone->graph.add(outside.name, outside.module, {});
  };
  const auto add = [&](std::string name, std::shared_ptr<Module> module, const Graph::Node& of) {
    std::vector<Value> inputs;
    for (const int input : of.inputs) inputs.push_back(value_of(input));
    return alone->graph.add(std::move(name), std::move(module), inputs);
  };
  for (const int inner : body) {
    const Graph::Node& each = nodes[static_cast<std::size_t>(inner)];
    values[inner] = add(each.name, each.module, each);
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    alone->graph.output(add(concat(node.name, " output ", i),
                            std::make_shared<Op>("Loop", Attributes{{"output", static_cast<std::int64_t>(i)}}), node));
  }
  // How large what it gives is, is seen with ones for what only a run computes.
  const std::int64_t most = to_integers(network[trips].most).at(0), tried = std::min<std::int64_t>(most, 3);
  const auto try_with = [&](std::int64_t iterations) {
    std::vector<Tensor> ones;
    for (const Alone::Outer& outer : alone->outer) {
      const int id = outer.operand < 0 ? -1 : operands[static_cast<std::size_t>(outer.operand)];
      const std::vector<std::int64_t> all(id < 0 ? 0 : static_cast<std::size_t>(network[id].shape.numel()),
                                          id == trips ? iterations : 1);
      ones.push_back(id < 0 ? outer.value : Tensor::from(all, network[id].shape).to(network[id].dtype));
    }
    return alone->outputs(ones);
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
      const Tensor found = alone->outputs_of_run(inputs)[i];
      Shape room = results[0].shape();
      if (rows > 0) room.set(0, std::min(room[0], rows * iterations));
      if (found.shape() != room) fail("Loop: expected an output of ", room, ", this run gives ", found.shape());
      std::memcpy(results[0].raw(), found.raw(), found.bytes());
    };
    made.push_back(e.add(std::make_shared<OnCpu>("Loop", shape, larger[i].dtype(), 0, run), operands));
    if (rows > 0) network.set_count(made.back(), 0, e.check(count, {.times = rows}));
  }
  return made;
}

}  // namespace lamina::detail
