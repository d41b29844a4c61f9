#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lamina/kernel/operator.h"
#include "lamina/kernel/rules/lookup/find.h"
#include "lamina/module/module.h"
#include "lamina/ops/network.h"

/// Values of which a run alone knows how many elements they have along an axis (docs/inside/ops.md).
namespace lamina::detail {

/// No axis with a count has room for fewer: an extent of 1 would broadcast.
constexpr std::int64_t least_capacity = 2;

/// What only a CPU computes, of whole activations as they are; a Plan for a GPU does it on the host.
class OnCpu : public Module {
 public:
  using Run =
      std::function<void(std::span<const Tensor> inputs, std::span<Tensor> outputs, const Execution& execution)>;
  OnCpu(std::string_view op, Shape shape, DType dtype, std::size_t workspace, Run run)
      : op_(op), shape_(shape), dtype_(dtype), workspace_(workspace), run_(std::move(run)) {}

  std::string_view op() const override { return op_; }
  Shape output_shape(std::span<const Shape>) const override { return shape_; }
  DType output_dtype(std::span<const DType>) const override { return dtype_; }
  bool takes(const Preparation& preparation) const override;
  std::unique_ptr<Operator> prepare(const Preparation& preparation) const override;

 private:
  std::string op_;
  Shape shape_;
  DType dtype_;
  std::size_t workspace_;
  Run run_;
};

/// That of a constant too.
Range range_of(const Network::Node& node);

/// That of what a node is about to make of others; undefined where it is not known.
Range range_of(const Network& network, const Network::Node& node);

/// Of whole numbers from 0 to `most` that are a node's, and of which a run may have any.
Range range_up_to(std::int64_t most, const Shape& shape, DType dtype, int node);

/// A node i64 [1] that says so of `counts`, i64 of rank 1. A run throws Error where they are not as the rule says.
int add_count(Network& network, std::string name, int counts, CountRule rule);

/// Whether a node is what add_count makes.
bool is_count(const Network& network, int node);

/// Whether an op's row may be given operands with counts: it takes no number from an extent that has one.
bool knows_counts(std::string_view op);

/// Throws Error naming the first axis that has a count, if one has.
void refuse_counts(const Network& network, std::string_view op, std::span<const int> inputs);

/// The counts of what a module computes of nodes. Throws Error, naming the axis, where it does not carry a count: that
/// is so of every problem that does not say where its operands' axes are in its result.
std::vector<int> carried_counts(Network& network, const Module& module, std::span<const int> inputs,
                                const Shape& result);

}  // namespace lamina::detail
