#include "lamina/onnx/sort.h"

#include <cstddef>
#include <utility>

#include "lamina/base/error.h"

namespace lamina::detail::onnx {
namespace {

/// Visits nodes depth first, without recursion: a chain may be as long as the file.
class Sorter {
 public:
  Sorter(const FlatGraph& graph, const std::string& path)
      : graph_(graph), path_(path), state_(graph.nodes.size(), State::unseen) {}

  /// Everything that node `first` needs, then itself.
  void visit(int first) {
    if (enter(first)) path_to_here_.push_back({first, 0});
    while (!path_to_here_.empty()) {
      auto& [node, next] = path_to_here_.back();
      const std::vector<int>& inputs = at(node).inputs;
      if (next == inputs.size()) {
        state_[static_cast<std::size_t>(node)] = State::done;
        order_.push_back(node);
        path_to_here_.pop_back();
        continue;
      }
      const int value = inputs[next++];
      const int maker = value < 0 ? -1 : graph_.values[static_cast<std::size_t>(value)].node;
      if (maker >= 0 && enter(maker)) path_to_here_.push_back({maker, 0});
    }
  }

  std::vector<int> order() { return std::move(order_); }

 private:
  enum class State : char { unseen, open, done };

  const FlatNode& at(int node) const { return graph_.nodes[static_cast<std::size_t>(node)]; }

  bool enter(int node) {
    State& state = state_[static_cast<std::size_t>(node)];
    if (state == State::open) fail(path_, ": graph: ", at(node).name, " needs its own output: the nodes form a cycle");
    if (state == State::done) return false;
    state = State::open;
    return true;
  }

  const FlatGraph& graph_;
  const std::string& path_;
  std::vector<State> state_;
  std::vector<std::pair<int, std::size_t>> path_to_here_;  // nodes, and how many of their inputs are seen
  std::vector<int> order_;
};

}  // namespace

std::vector<int> sorted(const FlatGraph& graph, const std::string& path) {
  // What the outputs need, from the back.
  std::vector<bool> needed(graph.nodes.size(), false);
  std::vector<int> left;
  const auto need = [&](int value) {
    const int node = value < 0 ? -1 : graph.values[static_cast<std::size_t>(value)].node;
    if (node < 0 || needed[static_cast<std::size_t>(node)]) return;
    needed[static_cast<std::size_t>(node)] = true;
    left.push_back(node);
  };
  for (const int output : graph.outputs) need(output);
  while (!left.empty()) {
    const int node = left.back();
    left.pop_back();
    for (const int input : graph.nodes[static_cast<std::size_t>(node)].inputs) need(input);
  }
  Sorter sorter(graph, path);
  for (std::size_t node = 0; node < needed.size(); ++node) {
    if (needed[node]) sorter.visit(static_cast<int>(node));
  }
  return sorter.order();
}

}  // namespace lamina::detail::onnx
