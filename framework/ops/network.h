#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lamina/module/module.h"

/// What a Graph is once the batch, the open extents and some inputs are known.
namespace lamina::detail {

/// A network whose every shape, type and constant is known. Nodes are in an order in which each comes after its inputs.
class Network {
 public:
  struct Node {
    std::string name;
    std::shared_ptr<const Module> module;  ///< null for an input and for a constant
    std::vector<int> inputs;               ///< earlier nodes
    Shape shape;                           ///< of the output
    DType dtype = DType::f32;
    Tensor constant = {};  ///< on the CPU; undefined unless the output is the same in every run
  };

  const Node& operator[](int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(nodes_.size()); }

  int add_input(std::string name, Shape shape, DType dtype);
  int add_constant(std::string name, Tensor value);
  /// A node; a constant, computed here and now, where all its inputs are. Throws Error if the inputs do not fit.
  int add(std::string name, std::shared_ptr<const Module> module, std::vector<int> inputs);
  /// Something else in a node's place. What it computes must be of the node's type and have that shape.
  void replace(int id, std::shared_ptr<const Module> module, std::vector<int> inputs, Shape shape) {
    Node& node = nodes_[static_cast<std::size_t>(id)];
    node.module = std::move(module), node.inputs = std::move(inputs), node.shape = shape;
  }
  /// Frees the value of a constant that no node reads; nothing if it is none.
  void drop_constant(int id) { nodes_[static_cast<std::size_t>(id)].constant = {}; }
  void rename(int id, std::string name) { nodes_[static_cast<std::size_t>(id)].name = std::move(name); }

  /// The names of the inputs that a node depends on.
  std::vector<std::string> inputs_of(int id) const;

 private:
  int append(Node node);

  std::vector<Node> nodes_;
};

}  // namespace lamina::detail
