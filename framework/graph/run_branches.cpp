// Ifs whose condition a run computes. Each branch is a Plan inside the Plan, for a CPU, and the run does one of them.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>

#include "lamina/base/names.h"
#include "lamina/graph/loops.h"
#include "lamina/graph/resolve.h"
#include "lamina/ops/expansion.h"
#include "lamina/ops/op.h"

namespace lamina::detail {
namespace {

/// Counts branches within branches, and their nodes, while they are looked at; throws Error if there are too many.
class Within {
 public:
  explicit Within(std::int64_t nodes = 0) {
    all = (depth == 0 ? 0 : all) + nodes;
    if (depth == deepest) fail("If: more than ", deepest, " are within each other");
    check(all);
    ++depth;
  }
  ~Within() { --depth; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

  bool inner() const { return depth > 1; }
  static void check(std::int64_t nodes) {
    if (nodes > most_nodes) fail("If: branches, with those within them, have more than ", most_nodes, " nodes");
  }

 private:
  static thread_local int depth;
  static thread_local std::int64_t all;
};

thread_local int Within::depth = 0;
thread_local std::int64_t Within::all = 0;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Branch {
  std::shared_ptr<const Alone> alone;
  CompileOptions options = {};
  std::optional<Plan> plan = {};
  std::vector<Tensor> inputs = {};
};

struct Branches {
  std::array<Branch, 2> all;
  std::shared_ptr<std::shared_ptr<ThreadPool>> pool;  // of all Ifs of a Plan
  bool inner;                                         // inside a branch of another If, whose threads are busy
  std::span<const Tensor> found;                      // the results of the branch that was taken
};

/// An operator with Plans of its own.
class WithPlans final : public Operator {
 public:
  WithPlans(std::unique_ptr<Operator> run, std::size_t bytes) : run_(std::move(run)), bytes_(bytes) {}
  std::string description() const override { return run_->description(); }
  std::size_t parameter_bytes() const override { return bytes_; }
  void run(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution) const override {
    run_->run(inputs, outputs, execution);
  }

 private:
  std::unique_ptr<Operator> run_;
  std::size_t bytes_;
};

/// Runs one of the branches. Its output are the extents of the branch's results: max_rank numbers for each.
class TakeBranch final : public OnCpu {
 public:
  TakeBranch(std::shared_ptr<Branches> branches, std::int64_t numbers)
      : OnCpu("If", {numbers}, DType::i64, 0, run_of(branches)), branches_(std::move(branches)) {}

  std::unique_ptr<Operator> prepare(const Preparation& p) const override {
    const Within within;
    std::size_t bytes = 0;
    std::shared_ptr<ThreadPool>& pool = *branches_->pool;
    if (pool == nullptr) pool = std::make_shared<ThreadPool>(branches_->inner ? 1 : p.threads);
    for (Branch& branch : branches_->all) {
      branch.options.pool = pool;
      branch.plan = branch.alone->graph.compile(branch.options);
      bytes += branch.plan->memory().total();
    }
    return std::make_unique<WithPlans>(OnCpu::prepare(p), bytes);
  }

 private:
  static Run run_of(const std::shared_ptr<Branches>& branches) {
    return [branches](auto operands, auto results, const Execution&) {
      Branch& branch = branches->all[operands[0].template values<bool>()[0] ? 0 : 1];
      branch.inputs.clear();
      for (const Alone::Outer& each : branch.alone->outer) {
        if (each.operand >= 0) branch.inputs.push_back(operands[static_cast<std::size_t>(each.operand)]);
      }
      branches->found = branch.plan->run(branch.inputs);
      auto numbers = results[0].template values<std::int64_t>();
      for (std::size_t i = 0; i < branches->found.size(); ++i)
        std::ranges::copy(branches->found[i].shape(),
                          numbers.begin() + static_cast<std::ptrdiff_t>(i * Shape::max_rank));
    };
  }

  std::shared_ptr<Branches> branches_;
};

/// Copies the elements that were found into `room`, with zeros where `room` is larger.
void put(const Tensor& found, Tensor& room) {
  const Shape &from = found.shape(), &to = room.shape();
  const int last = static_cast<int>(from.rank()) - 1;
  const std::int64_t row = last < 0 ? 1 : from[last];
  const std::size_t size = size_of(found.dtype());
  if (from != to) std::memset(room.raw(), 0, room.bytes());
  for (std::int64_t i = 0; i * row < found.numel(); ++i) {
    std::int64_t at = 0, rest = i, pitch = last < 0 ? 1 : to[last];
    for (int d = last - 1; d >= 0; rest /= from[d], pitch *= to[d], --d) at += rest % from[d] * pitch;
    std::memcpy(static_cast<std::byte*>(room.raw()) + static_cast<std::size_t>(at) * size,
                static_cast<const std::byte*>(found.raw()) + static_cast<std::size_t>(i * row) * size,
                static_cast<std::size_t>(row) * size);
  }
}

/// By node that is not made otherwise: which branches read it, 1 or 2; 3: both.
std::map<int, int> readers(const std::vector<Graph::Node>& nodes, std::span<const int> choices, const LoopNodes& by) {
  std::map<int, int> read;
  for (const int branch : {1, 2}) {
    std::vector<int> pending;
    for (const int choice : choices) pending.push_back(nodes[at(choice)].inputs[at(branch)]);
    while (!pending.empty()) {
      const int node = pending.back();
      pending.pop_back();
      if (node < 0 || by.find(node) != -1 || (read[node] & branch) != 0) continue;
      read[node] |= branch;
      pending.insert(pending.end(), nodes[at(node)].inputs.begin(), nodes[at(node)].inputs.end());
    }
  }
  return read;
}

/// The options of a branch's Plan. Shapes and capacities of its inputs are those of the values outside.
CompileOptions options_of(const Alone& alone, const Network& network, std::span<const int> operands,
                          const CompileOptions& options) {
  CompileOptions own = options;
  if (options.device.is_cuda()) {  // the branch runs on the GPU's host
    own.device = Device::cpu(), own.description = {}, own.precision = Precision::fp32, own.algorithm = {};
  }
  own.batch = 1, own.keep_all = false, own.threads = 0;
  own.photos = {}, own.input_format = {}, own.output_format = {}, own.outputs = {};
  own.constants = {}, own.input_shapes = {};
  std::erase_if(own.capacity, [&](const auto& each) { return alone.graph.find(each.first) == nullptr; });
  for (const Alone::Outer& each : alone.outer) {
    if (each.operand < 0) own.constants[each.name] = each.value;
    if (each.operand < 0) continue;
    const int id = operands[at(each.operand)];
    own.input_shapes[each.name] = network[id].shape;
    if (const Tensor& most = network[id].range.most; most.defined() && most.numel() == 1)
      own.capacity[each.name] = std::max<std::int64_t>(to_integers(most)[0], 1);
  }
  return own;
}

/// The outputs of these Ifs as nodes of the network; empty if a branch reads values with counts.
std::vector<int> run_branches(const std::vector<Graph::Node>& nodes, std::span<const int> choices, Network& network,
                              LoopNodes& by, const CompileOptions& options) {
  const Graph::Node& first = nodes[at(choices[0])];
  const std::map<int, int> read = readers(nodes, choices, by);
  const Within within(std::ssize(read));
  Within::check(by.made += std::ssize(read));  // summed over branches side by side, which may share nodes
  std::vector<int> operands = {by.find(first.inputs[0])};
  const auto branches =
      std::make_shared<Branches>(Branches{.all = {}, .pool = by.pool, .inner = within.inner(), .found = {}});
  std::array<Resolved, 2> resolved;
  for (const std::size_t b : {std::size_t{0}, std::size_t{1}}) {
    Body body("If", nodes, network, by, operands);
    for (const auto& [node, readers_of] : read) {
      if (readers_of == static_cast<int>(b) + 1) body.take(node);  // nodes that both read are made outside
    }
    for (const int choice : choices) {
      const Graph::Node& node = nodes[at(choice)];
      body.alone->graph.output(body.add(concat(node.name, " of a branch"), std::make_shared<Op>("Identity"),
                                        std::span(node.inputs).subspan(b + 1, 1)));
    }
    if (std::ranges::any_of(body.alone->outer, [](const Alone::Outer& each) { return each.count >= 0; })) return {};
    branches->all[b].alone = body.alone;
    branches->all[b].options = options_of(*body.alone, network, operands, options);
    resolved[b] = resolve(body.alone->graph, branches->all[b].options);
  }
  Expansion e(network, Op("If"), first.name, {});
  const auto most = static_cast<std::int64_t>(Shape::max_rank);
  const int taken = e.add(std::make_shared<TakeBranch>(branches, std::ssize(choices) * most), operands);
  std::vector<int> made;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto result = [&](int b) -> const Network::Node& {
      return resolved[at(b)].network[resolved[at(b)].outputs[i]];
    };
    Shape shape = result(0).shape, other = result(1).shape;
    if (shape.rank() != other.rank() || result(0).dtype != result(1).dtype)
      fail("If: expected branches of one rank and type, got ", result(0).dtype, ' ', shape, " and ", result(1).dtype,
           ' ', other);
    std::vector<int> counts(shape.rank(), -1);
    for (int d = 0; d < static_cast<int>(shape.rank()); ++d) {
      const bool counted = !result(0).counts.empty() && result(0).counts[at(d)] >= 0,
                 other_counted = !result(1).counts.empty() && result(1).counts[at(d)] >= 0;
      if (shape[d] == other[d] && !counted && !other_counted) continue;
      shape.set(d, std::max({shape[d], other[d], least_capacity}));
      const std::int64_t number = static_cast<std::int64_t>(i) * most + d;
      counts[at(d)] = e.check(e.slice(taken, 0, number, number + 1), {.most = shape[d]});
    }
    const DType dtype = result(0).dtype;
    const auto run = [branches, i](auto, auto results, const Execution&) {
      put(branches->found[i].to(results[0].dtype()), results[0]);
    };
    made.push_back(e.cast(e.add(std::make_shared<OnCpu>("If", shape, on_host(dtype), 0, run), {taken}), dtype));
    for (int d = 0; d < static_cast<int>(shape.rank()); ++d) network.set_count(made.back(), d, counts[at(d)]);
  }
  return made;
}

/// An If, and the Ifs right behind it that have the same condition and read none of its results.
std::vector<int> choices_beside(const std::vector<Graph::Node>& nodes, std::size_t choice, const LoopNodes& by) {
  std::vector<int> choices;
  for (auto i = static_cast<int>(choice); i < std::ssize(nodes) && is_choice(nodes[at(i)]); ++i) {
    const std::vector<int>& own = nodes[at(i)].inputs;
    if (own[0] != nodes[choice].inputs[0] || std::ranges::max(own) >= static_cast<int>(choice)) break;
    if (by.needed(i) && by.find(i) == -1) choices.push_back(i);
  }
  return choices;
}

}  // namespace

std::vector<int> read_by_both(const std::vector<Graph::Node>& nodes, std::size_t choice, const LoopNodes& by) {
  const std::vector<int> choices = choices_beside(nodes, choice, by);
  const std::map<int, int> read = readers(nodes, choices, by);
  std::vector<int> both;
  const auto add = [&](std::span<const int> inputs) {
    for (const int input : inputs) {
      if (const auto found = read.find(input); found != read.end() && found->second == 3) both.push_back(input);
    }
  };
  for (const auto& [node, by_which] : read) {
    if (by_which != 3) add(nodes[at(node)].inputs);
  }
  for (const int each : choices) add(std::span(nodes[at(each)].inputs).subspan(1));
  return both;
}

bool run_decides(const Graph::Node& node, const Network& network, const LoopNodes& by) {
  if (!is_choice(node) || std::ranges::min(node.inputs) < 0) return false;
  if (by.find(node.inputs[0]) < 0) return false;  // a sequence
  const Network::Node& condition = network[by.find(node.inputs[0])];
  return !condition.constant.defined() && condition.dtype == DType::boolean && condition.shape.numel() == 1 &&
         (by.find(node.inputs[1]) == -1 || by.find(node.inputs[2]) == -1);
}

int branch_output(const std::vector<Graph::Node>& nodes, std::size_t choice, Network& network, LoopNodes& by,
                  const CompileOptions& options) {
  const std::vector<int>& inputs = nodes[choice].inputs;
  const std::vector<int> choices = choices_beside(nodes, choice, by);
  std::vector<int> made;
  try {
    made = run_branches(nodes, choices, network, by, options);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    const std::vector<std::string> names = network.inputs_of(by.find(inputs[0]));
    std::string text = error.what();
    if (names.empty()) fail(text);
    const bool asks = dynamic_cast<const UnboundInputs*>(&error) != nullptr;
    if (!asks) text += concat("; or give input ", quote(names[0]), " a value as CompileOptions::constants");
    throw UnboundInputs(text, names);
  }
  for (std::size_t k = 0; k < made.size(); ++k) by.bind(choices[k], made[k]);
  if (!made.empty()) return made[0];
  for (const int input : inputs) (void)by.make(input);
  return -1;
}

}  // namespace lamina::detail
