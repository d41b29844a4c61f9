// Folding: which nodes become part of the operation before them.

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/compile/program.h"
#include "lamina/layers/elementwise.h"

namespace lamina::detail {
namespace {

constexpr std::size_t most_operands = 64;  // of what may become a part: those of one are looked at for each of them

class Fuser {
 public:
  Fuser(const Resolved& resolved, const CompileOptions& options)
      : network_(resolved.network), options_(options), readers_(size(), 0), needed_(size(), options.keep_all) {
    for (const int output : resolved.outputs) {
      ++readers_[index(output)];  // the caller
      needed_[index(output)] = true;
    }
    for (int i = network_.size(); i-- > 0;) {
      if (!needed_[index(i)]) continue;
      for (const int input : network_[i].inputs) {
        ++readers_[index(input)];
        needed_[index(input)] = true;
      }
    }
    for (const int input : resolved.inputs) needed_[index(input)] = true;
  }

  Program fuse(const Graph& graph, const Resolved& resolved) {
    for (int i = 0; i < network_.size(); ++i) {
      value_of_.push_back(none);
      if (!needed_[index(i)]) continue;
      if (network_[i].module == nullptr) {
        value_of_.back() = new_value(i);
      } else if (!options_.fuse || !fold(i)) {
        append(i);
      }
    }
    std::erase_if(program_.operations, [](const Operation& op) { return op.module == nullptr; });
    for (const int input : resolved.inputs) program_.inputs.push_back(value_of(input));
    for (const int output : resolved.outputs) program_.outputs.push_back(value_of(output));
    program_.output_names = resolved.output_names;
    program_.input_batched = resolved.input_batched;
    program_.output_batched = resolved.output_batched;
    if (options_.keep_all) {
      for (std::size_t i = 0; i < resolved.node.size(); ++i) {
        program_.kept.emplace_back(graph.nodes()[i].name, value_of(resolved.node[i]));
      }
    }
    return std::move(program_);
  }

 private:
  using Operation = Program::Operation;

  /// Work that reads values, before it is known whether an operation of its own does it.
  struct Work {
    std::string_view name, fused;  // and what is part of it
    std::shared_ptr<const Module> module;
    std::vector<int> inputs;
    Shape shape;
    int readers;
  };

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::size_t size() const { return index(network_.size()); }
  int value_of(int node) const { return value_of_[index(node)]; }
  Operation& operation(int i) { return program_.operations[index(i)]; }

  int new_value(int i) {
    const Network::Node& node = network_[i];
    program_.values.push_back({node.name, node.shape, {.dtype = node.dtype}, node.constant});
    producer_.push_back(none);
    uses_.push_back(readers_[index(i)]);
    return static_cast<int>(program_.values.size()) - 1;
  }

  std::vector<int> values_of(const std::vector<int>& nodes) const {
    std::vector<int> values;
    for (const int node : nodes) values.push_back(value_of(node));
    return values;
  }

  void append(int i) {
    const Network::Node& node = network_[i];
    Operation op;
    op.name = node.name;
    op.module = node.module;
    op.inputs = values_of(node.inputs);
    std::vector<Shape> inputs;
    for (const int input : node.inputs) inputs.push_back(network_[input].shape);
    op.view = node.module->is_view(inputs);
    op.output = new_value(i);
    value_of_.back() = op.output;
    producer_.back() = static_cast<int>(program_.operations.size());
    program_.operations.push_back(std::move(op));
  }

  /// Makes node i part of an operation that computes one of its inputs, if that can be and nobody else reads that
  /// input.
  bool fold(int i) {
    const Network::Node& node = network_[i];
    int value = merge({node.name, {}, node.module, values_of(node.inputs), node.shape, readers_[index(i)]});
    if (value == none) return false;
    // x f(x) may have become one function of x, and that a part of what computes x.
    const int at = producer_[index(value)];
    const Operation& op = operation(at);
    const bool is_one = op.inputs.size() == 1 && !op.view;
    const int earlier =
        is_one ? merge({op.name, op.fused, op.module, op.inputs, node.shape, readers_[index(i)]}) : none;
    if (earlier != none) {
      operation(at) = {};
      value = earlier;
    }
    value_of_.back() = value;
    return true;
  }

  /// The value that an operation now gives which does this work as well; none if there is no such operation.
  int merge(const Work& work) {
    if (work.inputs.size() > most_operands) return none;
    std::vector<std::size_t> places;
    for (std::size_t place = 0; place < work.inputs.size(); ++place) {
      const int input = work.inputs[place];
      if (uses_[index(input)] == 1 && producer_[index(input)] != none) places.push_back(place);
    }
    // Into what costs more than passing over its result, and of those the last: it may be moved behind the others.
    const auto rank = [&](std::size_t place) {
      const int at = producer_[index(work.inputs[place])];
      return std::pair(dynamic_cast<const Elementwise*>(operation(at).module.get()) == nullptr, at);
    };
    std::ranges::sort(places, std::ranges::greater(), rank);
    for (const std::size_t place : places) {
      if (merge(work, place)) return operation(producer_[index(work.inputs[place])]).output;
    }
    return none;
  }

  bool merge(const Work& work, std::size_t place) {
    const int source = work.inputs[place], at = producer_[index(source)];
    const Operation& op = operation(at);
    Operation longer;  // but for its names
    longer.inputs = op.inputs, longer.output = op.output, longer.view = op.view;
    Program::Value& result = program_.value(longer.output);
    if (work.inputs.size() > 1 && (longer.view || result.shape != work.shape)) return false;
    std::vector<Module::Operand> operands(work.inputs.size());
    std::vector<int> read_twice;
    for (std::size_t i = 0; i < work.inputs.size(); ++i) {
      if (i == place) continue;
      const int input = work.inputs[i];
      const auto known = std::ranges::find(longer.inputs, input);
      operands[i] = {static_cast<int>(known - longer.inputs.begin()), program_.value(input).constant};
      known == longer.inputs.end() ? longer.inputs.push_back(input) : read_twice.push_back(input);
    }
    try {
      const Module::Absorbed absorbed = op.module->absorb(*work.module, operands);
      longer.module = absorbed.module;
      if (absorbed.parameters) longer.inputs = op.inputs;
    } catch (const Error& error) {
      fail(work.name, ": ", error.what());
    }
    if (longer.module == nullptr) return false;
    const Shape shape = std::exchange(result.shape, work.shape);
    longer.view = longer.view && longer.module->is_view({&program_.value(longer.inputs[0]).shape, 1});
    if (!longer.view && !runs_in_some_format(program_, longer, options_)) {
      result.shape = shape;
      return false;
    }
    for (const int input : read_twice) --uses_[index(input)];
    uses_[index(longer.output)] = work.readers;
    name(longer, std::move(operation(at)), work);
    place_operation(at, std::move(longer));
    return true;
  }

  /// The names of an operation and of what it takes in.
  static void name(Operation& longer, Operation&& op, const Work& work) {
    if (op.view) {  // what follows a view takes it in, and the operation is its own from then on
      longer.name = work.name, longer.fused = work.fused;
      return;
    }
    longer.name = std::move(op.name), longer.fused = std::move(op.fused);
    for (const std::string_view names : {work.name, work.fused}) {
      if (!names.empty()) longer.fused.append(longer.fused.empty() ? "" : ", ").append(names);
    }
  }

  /// In the place of operation `at` or, if it reads more than that one did, behind all others.
  void place_operation(int at, Operation longer) {
    if (longer.inputs.size() == operation(at).inputs.size()) {
      operation(at) = std::move(longer);
      return;
    }
    operation(at) = {};
    producer_[index(longer.output)] = static_cast<int>(program_.operations.size());
    program_.operations.push_back(std::move(longer));
  }

  const Network& network_;
  const CompileOptions& options_;
  std::vector<int> readers_;   // by node, the caller included
  std::vector<bool> needed_;   // by node
  std::vector<int> value_of_;  // by node
  std::vector<int> uses_;      // by value: how many read it
  std::vector<int> producer_;  // by value: the operation, or none for an input
  Program program_;
};

}  // namespace

Program fuse(const Graph& graph, const CompileOptions& options, const Release& release) {
  Resolved resolved = resolve_batched(graph, options, release);
  if (options.fuse && !options.keep_all) simplify_moves(resolved);
  Program program = Fuser(resolved, options).fuse(graph, resolved);
  if (options.fuse) find_attention(program, options);
  if (options.fuse && !options.keep_all) {
    narrow_rows(program, options);
    narrow_windows(program, options);
    sum_convolutions(program, options);
    pair_convolutions(program, options);
    find_gates(program, options);
    narrow_wide_maps(program, options);
  }
  return program;
}

}  // namespace lamina::detail
