#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lamina/graph/graph.h"
#include "lamina/kernel/preparation.h"

/// A network while it is being quantised: its nodes, of which convolutions and products are seen by their weights.
namespace lamina::detail {

/// A convolution, or a product with a constant.
struct Product {
  enum class Kind { conv, gemm, matmul };

  Kind kind = Kind::conv;
  Tensor weight = {};  ///< f32, [out, in / groups, ...]
  Tensor bias = {};    ///< f32 [out], or undefined
  int groups = 1;
  Attributes attributes = {};  ///< of Conv

  std::size_t out() const { return static_cast<std::size_t>(weight.shape()[0]); }
  std::size_t in() const { return static_cast<std::size_t>(weight.shape()[1]); }  ///< of a group
  std::size_t taps() const { return static_cast<std::size_t>(weight.numel()) / (out() * in()); }
};

/// What an operation does with values in eight bits.
enum class Role {
  other,
  end,      ///< it becomes part of the product before it: what is quantised is its result
  carrier,  ///< it reads and writes them
  same,     ///< it passes them on: operand and result have one scale
};

struct Item {
  std::string name;
  std::shared_ptr<Module> module = {};  ///< null for an input
  std::vector<int> inputs = {};         ///< items; -1: left out
  std::optional<Product> product = {};
  Role role = Role::other;
  std::string why = {};  ///< a convolution or product is none of ours
  std::optional<Shape> shape = {};
  DType dtype = DType::f32;

  bool is_constant() const { return module != nullptr && module->op() == "Constant"; }
};

class Draft {
 public:
  /// Batch norms behind convolutions are part of these. Throws Error if the network is quantised already.
  explicit Draft(const Graph& graph);

  /// Which products are computed in eight bits, and what each value's levels stand for if it is stored so.
  struct Choice {
    std::vector<bool> products = {};             ///< by item
    std::vector<Quantization> codes = {};        ///< by item
    std::vector<std::vector<float>> means = {};  ///< by item, of channels: biases are corrected by them; empty: not
  };
  Graph graph(const Choice& choice) const;
  Graph graph() const { return graph({.products = std::vector<bool>(items.size(), false)}); }

  /// Which values these products, and what carries values to them, read in eight bits.
  std::vector<bool> stored(const std::vector<bool>& products) const;
  /// The values that it reads and that are not known: of what carries no values to products the first.
  std::vector<int> operands(const Item& item) const;
  /// The value whose scale this one has.
  int origin(int item) const;
  /// The items that read each.
  std::vector<std::vector<int>> readers() const;

  Item& at(int item) { return items[static_cast<std::size_t>(item)]; }
  const Item& at(int item) const { return items[static_cast<std::size_t>(item)]; }

  std::vector<Item> items;
  std::vector<int> outputs;

 private:
  void add(const Graph& graph, std::size_t node, std::vector<int>& place, const std::vector<int>& uses);
};

/// Weights in i8 with a scale for each output channel.
struct Codes8 {
  Tensor weight;  // i8, shaped as the product's
  Tensor scale;   // f32 [out]
};
/// `input_scale`: of the values that they multiply; a channel's scale is large enough for its bias to fit i32.
Codes8 codes_of(const Product& product, float input_scale);
/// The product's bias less what rounding adds on average where the channels of the input have these means.
Tensor corrected_bias(const Product& product, const Codes8& codes, std::span<const float> means);

}  // namespace lamina::detail
