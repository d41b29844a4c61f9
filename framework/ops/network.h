#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "lamina/module/module.h"

/// What a Graph is once the batch, the open extents and some inputs are known.
namespace lamina::detail {

/// Whole numbers that stand for others: scale * (values - zero_point).
struct Codes {
  Tensor values;      ///< u8, i8 or i32
  Tensor scale;       ///< f32 of one element, or of as many as the axis has
  Tensor zero_point;  ///< i32, as many
  int axis = 0;
};

/// Between what each of a few numbers is that runs make of counts. Undefined of others, and of a constant.
struct Range {
  Tensor least = {}, most = {};
  /// Of i64 that are sums of products of counts: what they would be if each count were some number far beyond any. What
  /// is between the ends there is the same in every run, as the length of what is padded to a length.
  Tensor far = {};
};

/// A network whose every shape, type and constant is known. Nodes are in an order in which each comes after its inputs.
class Network {
 public:
  struct Node {
    std::string name;
    std::shared_ptr<const Module> module = {};  ///< null for an input and for a constant
    std::vector<int> inputs = {};               ///< earlier nodes
    Shape shape = {};                           ///< of the output
    DType dtype = DType::f32;
    Tensor constant = {};                     ///< on the CPU; undefined unless the output is the same in every run
    std::size_t computed = 0;                 ///< bytes of a constant that count among all those that were computed
    std::shared_ptr<const Codes> codes = {};  ///< what a constant of f32 was in fewer bits
    /// By axis: the node, i64 [1], that says how many of the extent, the capacity, there are in a run; -1: all. What is
    /// behind them is anything, but a function of the inputs. Empty: there are all along every axis.
    std::vector<int> counts = {};
    Range range = {};  ///< where a shape depends on its numbers there is room for the most, and each run is checked
  };

  const Node& operator[](int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  int count_of(int id, int axis) const {
    const std::vector<int>& counts = (*this)[id].counts;
    return counts.empty() ? -1 : counts[static_cast<std::size_t>(axis)];
  }
  /// Of a node that nobody else reads yet. -1: none after all.
  void set_count(int id, int axis, int count);
  /// Of a count, or of numbers that stand for some.
  void set_range(int id, Range range) { nodes_[static_cast<std::size_t>(id)].range = std::move(range); }

  int add_input(std::string name, Shape shape, DType dtype);
  int add_constant(std::string name, Tensor value);
  /// A constant that no file has.
  int add_made_constant(std::string name, Tensor value);
  /// Counts what a node keeps that is not in proportion to a file: a table of places. Throws Error when all of it, with
  /// the constants that were made, is too much.
  void spend(std::size_t bytes);
  /// More of that for each image of a batch: exporters compute the places of all elements of a value.
  void add_room_of(std::int64_t batch);
  /// A node; a constant, computed here and now, where all its inputs are, as long as all such together are in
  /// proportion to the network's own. Throws Error if the inputs do not fit.
  int add(std::string name, std::shared_ptr<const Module> module, std::vector<int> inputs);
  /// Something else in a node's place. What it computes must be of the node's type and have that shape.
  void replace(int id, std::shared_ptr<const Module> module, std::vector<int> inputs, Shape shape) {
    Node& node = nodes_[static_cast<std::size_t>(id)];
    node.module = std::move(module), node.inputs = std::move(inputs), node.shape = shape;
  }
  /// Frees the value of a constant that no node reads; nothing if it is none.
  void drop_constant(int id);
  void set_codes(int id, Codes codes) {
    nodes_[static_cast<std::size_t>(id)].codes = std::make_shared<const Codes>(std::move(codes));
  }
  void rename(int id, std::string name) { nodes_[static_cast<std::size_t>(id)].name = std::move(name); }

  /// A sequence of nodes, for which a number below -1 stands wherever a node's is said.
  int add_sequence(std::vector<int> nodes);
  const std::vector<int>& sequence(int id) const { return sequences_[static_cast<std::size_t>(-2 - id)]; }

  /// Where the number of the node is kept that an op with these attributes, but for "output", makes of these nodes for
  /// all its outputs; -1: not made yet.
  int& made_once(std::string_view op, Attributes attributes, std::vector<int> inputs);

  /// The names of the inputs that a node depends on.
  std::vector<std::string> inputs_of(int id) const;

 private:
  bool has_room(std::size_t bytes) const;
  int append(Node node);
  int append_constant(std::string name, Tensor value);

  std::vector<Node> nodes_;
  std::vector<std::vector<int>> sequences_;
  std::map<std::tuple<std::string, Attributes, std::vector<int>>, int> made_once_;
  std::size_t of_any_network_ = std::size_t{1} << 30;
  std::size_t stored_ = 0, computed_ = 0;  // bytes of constants
};

}  // namespace lamina::detail
