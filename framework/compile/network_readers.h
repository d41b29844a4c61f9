#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "lamina/graph/resolve.h"

namespace lamina::detail {

/// Who reads each node of a Network that somebody needs, kept right while nodes are replaced.
class NetworkReaders {
 public:
  explicit NetworkReaders(Resolved& resolved)
      : resolved_(resolved),
        network_(resolved.network),
        readers_(index(network_.size())),
        is_output_(index(network_.size()), false) {
    for (const int output : resolved_.outputs) is_output_[index(output)] = true;
    for (int i = network_.size(); i-- > 0;) {
      if (!is_output_[index(i)] && readers(i).empty()) continue;  // nobody needs it
      for (const int input : network_[i].inputs) readers_[index(input)].push_back(i);
    }
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const std::vector<int>& readers(int i) const { return readers_[index(i)]; }
  const Shape& shape(int i) const { return network_[i].shape; }
  bool is_needed(int i) const { return is_output_[index(i)] || !readers(i).empty(); }
  bool is_read_once(int i) const { return readers(i).size() == 1 && !is_output_[index(i)]; }

  /// A node's module, inputs and shape; nobody notices but those that it read or reads.
  void replace(int node, std::shared_ptr<const Module> module, std::vector<int> inputs, Shape to) {
    const std::vector<int> before = network_[node].inputs;
    for (const int input : inputs) readers_[index(input)].push_back(node);
    network_.replace(node, std::move(module), std::move(inputs), to);
    for (const int input : before) leave(input, node);
  }
  /// A node does not read a value any more; what nobody reads then reads nothing itself.
  void leave(int value, int node) {
    std::vector<std::pair<int, int>> left = {{value, node}};
    while (!left.empty()) {
      const auto [from, by] = left.back();
      left.pop_back();
      std::vector<int>& of = readers_[index(from)];
      of.erase(std::ranges::find(of, by));
      if (!of.empty() || is_output_[index(from)]) continue;
      for (const int input : network_[from].inputs) left.emplace_back(input, from);
    }
  }

  /// Another first input, and the shape that the node has with it.
  void replace_input(int node, int input, Shape to) {
    std::vector<int> inputs = network_[node].inputs;
    inputs[0] = input;
    replace(node, network_[node].module, std::move(inputs), to);
  }

  /// Whoever read `from` reads `to`.
  void read_instead(int from, int to) {
    const std::vector<int> all = readers(from);
    for (const int reader : all) {
      std::vector<int> inputs = network_[reader].inputs;
      std::ranges::replace(inputs, from, to);
      replace(reader, network_[reader].module, std::move(inputs), shape(reader));
    }
    if (!is_output_[index(from)]) return;
    std::ranges::replace(resolved_.outputs, from, to);
    is_output_[index(from)] = false, is_output_[index(to)] = true;
    const std::vector<int> inputs = network_[from].inputs;
    for (const int input : inputs) leave(input, from);
  }

 protected:
  Resolved& resolved_;
  Network& network_;
  std::vector<std::vector<int>> readers_;  // by node
  std::vector<bool> is_output_;            // by node
};

}  // namespace lamina::detail
