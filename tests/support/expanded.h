#pragma once

#include <gtest/gtest.h>
#include <algorithm>

#include <set>
#include <string>
#include <vector>

#include "lamina/ops/expansion.h"
#include "lamina/ops/table.h"

/// Ops without a Graph: expanded on operands that are known, or run node by node.
namespace lamina::test {

using detail::Expansion;
using detail::Network;

/// The nodes of one op. Operands that are undefined are left out; those whose places are in `unknown` are inputs of the
/// network, the others constants.
struct Expanded {
  Network network;
  std::vector<Tensor> operands;
  int result = 0;

  Expanded(const Op& op, std::vector<Tensor> given, const std::set<int>& unknown = {}) : operands(std::move(given)) {
    std::vector<int> nodes;
    for (int i = 0; i < static_cast<int>(operands.size()); ++i) {
      const Tensor& operand = operands[static_cast<std::size_t>(i)];
      if (!operand.defined()) {
        nodes.push_back(-1);
      } else if (unknown.contains(i)) {
        nodes.push_back(network.add_input("input " + std::to_string(i), operand.shape(), operand.dtype()));
      } else {
        nodes.push_back(network.add_constant("constant", operand));
      }
    }
    operand_nodes_ = nodes;
    Expansion expansion(network, op, "op", nodes);
    result = detail::find_op(op.op())->expand(expansion);
    expansion.attributes().finish();
  }

  const Shape& shape() const { return network[result].shape; }
  DType dtype() const { return network[result].dtype; }
  /// How many nodes are computed in each run.
  int computed() const {
    int count = 0;
    for (int i = 0; i < network.size(); ++i) count += network[i].module != nullptr ? 1 : 0;
    return count;
  }

  /// The result, whatever of it was not known computed now.
  Tensor run() const {
    std::vector<Tensor> values(static_cast<std::size_t>(network.size()));
    for (int i = 0; i < network.size(); ++i) {
      const Network::Node& node = network[i];
      Tensor& value = values[static_cast<std::size_t>(i)];
      if (node.constant.defined()) {
        value = node.constant;
      } else if (node.module == nullptr) {
        const auto at = std::ranges::find(operand_nodes_, i) - operand_nodes_.begin();
        value = operands[static_cast<std::size_t>(at)];
      } else {
        std::vector<Tensor> inputs;
        for (const int input : node.inputs) inputs.push_back(values[static_cast<std::size_t>(input)]);
        value = node.module->forward(inputs);
      }
    }
    const Tensor& value = values[static_cast<std::size_t>(result)];
    EXPECT_EQ(value.shape(), shape());
    EXPECT_EQ(value.dtype(), dtype());
    return value;
  }

 private:
  std::vector<int> operand_nodes_;
};

/// What an op makes of known operands.
inline Tensor evaluate(const Op& op, std::vector<Tensor> operands) {
  const Expanded expanded(op, std::move(operands));
  return expanded.run();
}

/// What it says of operands that do not fit.
inline std::string refusal(const Op& op, std::vector<Tensor> operands, const std::set<int>& unknown = {}) {
  try {
    const Expanded expanded(op, std::move(operands), unknown);
    return "nothing";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace lamina::test
