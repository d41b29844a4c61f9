#pragma once

#include <span>
#include <string_view>

namespace lamina::detail {

class Expansion;

/// One op of docs/inside/ops.md: its name, and what it becomes.
struct OpRow {
  std::string_view name;
  /// Adds nodes and says which is the result. Throws Error, in the user's words, for operands or attributes that do not
  /// fit.
  int (*expand)(Expansion& e);
};

/// The row of that name, or null.
const OpRow* find_op(std::string_view name);
/// All rows, sorted by name.
std::span<const OpRow> all_ops();

// The parts of the table, each in a file of its own.
std::span<const OpRow> pointwise_ops();
std::span<const OpRow> shape_ops();
std::span<const OpRow> move_ops();
std::span<const OpRow> index_ops();
std::span<const OpRow> reduce_ops();
std::span<const OpRow> norm_ops();
std::span<const OpRow> conv_ops();
std::span<const OpRow> product_ops();
std::span<const OpRow> pool_ops();
std::span<const OpRow> resize_ops();
std::span<const OpRow> grid_ops();
std::span<const OpRow> quantized_ops();
std::span<const OpRow> recurrent_ops();
std::span<const OpRow> count_ops();
std::span<const OpRow> sequence_ops();
std::span<const OpRow> signal_ops();

}  // namespace lamina::detail
