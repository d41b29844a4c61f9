#include "lamina/graph/loops.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "lamina/ops/expansion.h"
#include "lamina/ops/op.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

constexpr std::int64_t most_looked_at = 1'000'000'000;  // the most nodes of the Graph that are looked at to find bodies

bool is_op(const Graph::Node& node, std::string_view name) {
  return dynamic_cast<const Op*>(node.module.get()) != nullptr && node.module->op() == name;
}

/// How many of a Loop's operands are its body's own inputs.
std::size_t values_of(const Graph::Node& loop) {
  return static_cast<std::size_t>(std::ranges::find(loop.inputs, -1) - loop.inputs.begin());
}

/// The nodes before the Loop that depend on its body's inputs.
std::vector<int> body_of(const std::vector<Graph::Node>& nodes, std::size_t loop, std::span<const int> values) {
  std::vector<bool> inside(loop, false);
  for (const int value : values) inside[static_cast<std::size_t>(value)] = true;
  std::vector<int> body;
  for (auto i = static_cast<std::size_t>(std::ranges::min(values)); i < loop; ++i) {
    const auto is_inside = [&](int input) { return input >= 0 && inside[static_cast<std::size_t>(input)]; };
    if (inside[i] || std::ranges::none_of(nodes[i].inputs, is_inside)) continue;
    inside[i] = true;
    body.push_back(static_cast<int>(i));
  }
  return body;
}

}  // namespace

bool is_loop(const Graph::Node& node) { return is_op(node, "Loop"); }

bool is_loop_value(const Graph::Node& node) { return is_op(node, "LoopValue"); }

bool is_choice(const Graph::Node& node) { return is_op(node, "If") && node.inputs.size() == 3; }

std::span<const int> certain_inputs(const Graph::Node& node) {
  const std::span<const int> inputs = node.inputs;
  if (!is_loop(node)) return inputs.first(is_choice(node) ? 1 : inputs.size());
  const std::size_t values = values_of(node), end = std::min(inputs.size(), 2 * values + 1);
  return inputs.first(end).subspan(std::min(end, values + 1));
}

namespace {

/// A Loop's outputs.
std::vector<int> unrolled(const std::vector<Graph::Node>& nodes, std::size_t loop, Network& network, LoopNodes& by) {
  const Graph::Node& node = nodes[loop];
  const std::size_t count = values_of(node);
  const auto values = std::span(node.inputs).first(count);
  const auto is_value = [&](int i) { return is_loop_value(nodes[static_cast<std::size_t>(i)]); };
  if (count < 2 || node.inputs.size() < 3 * count || !std::ranges::all_of(values, is_value) ||
      std::ranges::min(std::span(node.inputs).subspan(2 * count + 1)) < 0) {
    fail("Loop: expected inputs of a body, and what it makes");
  }
  const auto made = std::span(node.inputs).subspan(2 * count + 1);
  std::vector<int> given;  // the trip count, whether to begin, the first carried values
  for (const int input : certain_inputs(node)) given.push_back(input < 0 ? -1 : by.make(input));
  const int first = network.size();
  const bool drop = std::exchange(by.drop, false);  // the next iteration may read an inner Loop's constants
  std::vector<std::vector<int>> stacks(made.size() - (count - 1));
  by.looked_at += static_cast<std::int64_t>(loop) - std::ranges::min(values);
  if (by.depth == deepest || by.looked_at > most_looked_at) fail("Loop: too many are within each other");
  const std::vector<int> body = body_of(nodes, loop, values);
  if (given[0] >= 0 && network[given[0]].range.most.defined() && network[given[0]].shape.numel() == 1)
    return run_loop(nodes, loop, body, made.size() - 1, network, by);
  ++by.depth;
  std::set<int> stacked;
  const auto number = [&](int i) { return Expansion(network, Op("Loop"), node.name, given).number(i); };
  const double trips = given[0] == -1 ? std::numeric_limits<double>::infinity() : number(0);
  bool none = false;  // no iteration is wanted: one is made all the same, for the shapes of the stacked parts
  for (std::int64_t i = 0; !none; ++i) {
    const bool wanted = static_cast<double>(i) < trips && (given[1] == -1 || number(1) != 0);
    none = i == 0 && !wanted && !stacks.empty();
    if (!wanted && !none) break;
    by.made += std::ssize(body) + 1;
    if (by.made > most_nodes) {
      fail("Loop: iteration ", i + 1, " of ", body.size(), " nodes would make more than ", most_nodes,
           ", the most of all loops");
    }
    const int before = network.size();
    for (const int inner : body) by.forget(inner);
    by.bind(values[0], network.add_made_constant(node.name, Tensor::from(std::vector{i}, {})));
    const Tensor yes = Tensor::from(std::vector<std::uint8_t>{1}, {}).to(DType::boolean);
    by.bind(values[1], given[1] != -1 ? given[1] : network.add_made_constant(node.name, yes));
    for (std::size_t k = 2; k < count; ++k) by.bind(values[k], given[k]);
    std::vector<int> past = std::exchange(given, {given[0]});
    for (const int result : made.first(count - 1)) given.push_back(by.make(result));
    for (std::size_t k = 0; k < stacks.size(); ++k) {
      stacks[k].push_back(by.make(made[count - 1 + k]));
      stacked.insert(stacks[k].back());
      if (stacks[k].back() < 0) fail("Loop: expected tensors to stack, got a sequence");
    }
    if (none) given = past;
    if (none || !drop || std::ranges::min(given) < -1) continue;
    for (int id = before; id < network.size(); ++id) past.push_back(id);
    for (const int id : past) {
      const bool kept = id < first || stacked.contains(id) || std::ranges::find(given, id) != given.end();
      if (!kept) network.drop_constant(id);
    }
  }
  --by.depth;
  by.drop = drop;
  for (const int value : values) by.bind(value, -1);
  std::vector<int> outputs(given.begin() + 2, given.end());
  for (const std::vector<int>& stack : stacks) {
    const Op op("ConcatFromSequence", {{"axis", std::int64_t{0}}, {"new_axis", std::int64_t{1}}});
    Expansion joined(network, op, node.name, {network.add_sequence(stack)});
    const int all = find_op(op.op())->expand(joined);
    outputs.push_back(none ? joined.slice(all, 0, 0, 0) : all);
  }
  return outputs;
}

}  // namespace

int loop_output(const std::vector<Graph::Node>& nodes, std::size_t loop, Network& network, LoopNodes& by) {
  const Attributes attributes = nodes[loop].module->attributes();
  const auto output = static_cast<std::size_t>(AttributeReader(attributes).long_integer("output", 0));
  const int key = nodes[loop].inputs.empty() ? -1 : nodes[loop].inputs[0];
  if (!by.outputs.contains(key)) {
    std::vector<int> made = unrolled(nodes, loop, network, by);
    by.outputs[key] = std::move(made);
  }
  if (output >= by.outputs[key].size()) fail("Loop: there is no output ", output);
  return by.outputs[key][output];
}

}  // namespace lamina::detail
