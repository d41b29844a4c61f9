#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lamina/graph/graph.h"

/// What a file says with more nodes than it would take.
namespace lamina::detail {

/// The node itself, or the constant that it passes on: PyTorch writes equal ones once, and an Identity for each other.
int behind_identities(const Graph& graph, int node);

/// The value of a node that is a constant of f32; undefined of others, and of -1.
Tensor constant(const Graph& graph, int node);

/// A GELU that a file says in steps, x (1 + erf(x / sqrt(2))) / 2, whose factors come in any order.
class StepsOfGelu {
 public:
  /// `uses`: by node, how many read it.
  StepsOfGelu(const Graph& graph, const std::vector<int>& uses);

  static constexpr int none = -1, inside = -2;
  /// Whose GELU a node is the last step of; `inside`: it is one before, which nobody else reads.
  int of(std::size_t node) const { return of_[node]; }

 private:
  const Graph::Node& node(int i) const { return graph_.nodes()[static_cast<std::size_t>(i)]; }
  bool is(int i, std::string_view op) const;
  std::optional<double> number(int i) const;
  int beside(int i, std::string_view op, double expected) const;
  bool is_alone(int i) const { return i >= 0 && uses_[static_cast<std::size_t>(i)] == 1; }
  int argument(int i, std::vector<int>& steps) const;
  void factors(int i, bool last, std::vector<int>& of, std::vector<int>& steps) const;
  void find(int last);

  const Graph& graph_;
  const std::vector<int>& uses_;
  std::vector<int> of_;
};

}  // namespace lamina::detail
