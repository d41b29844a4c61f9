#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lamina/base/error.h"
#include "lamina/kernel/problems.h"
#include "lamina/layers/fixed.h"
#include "lamina/ops/counts.h"
#include "lamina/ops/network.h"
#include "lamina/ops/op.h"

namespace lamina::detail {

/// One Op about to become nodes of a Network. What a row of the op table reads its operands and attributes from, and
/// adds nodes by; nodes are numbers.
class Expansion {
 public:
  /// `inputs`: nodes, or -1 where an optional operand is left out.
  Expansion(Network& network, const Op& op, std::string name, std::vector<int> inputs);

  std::string_view op() const { return op_; }
  /// Attributes are read as by every module; `finish` refuses those that no one asked for.
  AttributeReader& attributes() { return reader_; }

  // Operands, by their place.
  int count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < count() && inputs_[static_cast<std::size_t>(i)] >= 0; }
  /// Throws Error if it is left out.
  int input(int i) const;
  std::vector<int> all_inputs() const;
  /// The nodes of one that is a sequence. Throws Error if it is none.
  const std::vector<int>& sequence(int i) const;
  /// The value of an operand that must be known now. Throws UnboundInputs if it depends on an input of the network.
  Tensor constant(int i) const { return constant(i, ""); }
  /// The same as whole numbers, whatever its shape.
  std::vector<std::int64_t> integers(int i) const;
  std::vector<double> numbers(int i) const;
  /// The one number that it holds.
  double number(int i) const;
  /// One that is known, or that a run makes of counts.
  struct Number {
    std::int64_t least = 0, most = 0;
    int made = -1;  ///< i64 [1]; -1: it is known
  };
  /// An operand's. Throws UnboundInputs where nothing says how large one may be.
  std::vector<Number> whole_numbers(int i);
  /// A node of one element as such, which depends on operand i.
  Number whole_number(int node, int i);
  /// Those that say how many there are: each is known, or a count, and then the most that it may be is known.
  struct Sizes {
    std::vector<std::int64_t> most;
    std::vector<int> made;  ///< a count; -1: it is known
  };
  Sizes sizes(int i);

  // Nodes.
  const Shape& shape(int node) const { return network_[node].shape; }
  int rank(int node) const { return static_cast<int>(shape(node).rank()); }
  DType dtype(int node) const { return network_[node].dtype; }
  const Tensor& known(int node) const { return network_[node].constant; }    ///< undefined if it is not
  const Codes* codes(int node) const { return network_[node].codes.get(); }  ///< null if it was never in fewer bits
  void set_codes(int node, Codes codes) { network_.set_codes(node, std::move(codes)); }
  /// What a list of rank 1 was joined of, where these are single numbers, or numbers that runs make of counts.
  std::vector<int> numbers_joined(int node) const;
  /// Axis `axis` counted from the front, of a node or of `rank` axes. Throws Error if there is none.
  int axis_of(std::int64_t axis, int rank) const;

  int add(std::shared_ptr<const Module> module, std::vector<int> inputs);
  int add_sequence(std::vector<int> nodes) { return network_.add_sequence(std::move(nodes)); }
  template <class M>
  requires std::is_base_of_v<Module, M>
  int add(M module, std::vector<int> inputs) { return add(std::make_shared<M>(std::move(module)), std::move(inputs)); }
  template <class Problem>
  int solve(Problem problem, Shape shape, DType dtype, std::vector<int> inputs) {
    return add(std::make_shared<Fixed<Problem>>(std::move(problem), shape, dtype), std::move(inputs));
  }
  int constant_node(Tensor value);
  int scalar(double value, DType dtype);
  /// The numbers of f32, f64 or i64 that are before and behind all others.
  int least(DType dtype);
  int greatest(DType dtype);
  int reshape(int node, Shape shape);
  int cast(int node, DType dtype);
  int permute(int node, std::span<const int> order);
  /// The part [begin, end) of an axis.
  int slice(int node, int axis, std::int64_t begin, std::int64_t end);
  int move(int node, MoveProblem problem, Shape shape);
  int join(std::vector<int> nodes, int axis);
  int reduce(Reduction kind, int node, std::vector<int> axes, bool keep, bool last = false);

  /// Whether elements differ along the first axis alone, as those of one column that was expanded do.
  bool differs_by_rows(int node) const;

  // Counts (docs/inside/ops.md).
  int count_of(int node, int axis) const { return network_.count_of(node, axis); }
  bool has_counts(int node) const { return !network_[node].counts.empty(); }
  /// As many as count says, i64 [1], along that axis: of a count that is known only these are left. -1: as it is.
  int counted(int node, int axis, int count);
  /// As if there were all along that axis.
  int uncounted(int node, int axis);
  /// As if there were all along all axes.
  int uncounted(int node);
  /// The same, with that number behind the count of an axis, which it has no more.
  int filled(int node, int axis, int number);
  /// The same, with zeros behind the counts of all axes.
  int with_zeros(int node);
  /// The count of an axis, or its extent.
  int length(int node, int axis);
  /// The same, where a run must have made `count` be what there are along that axis. -1: as it is.
  int sized(int node, int axis, int count);
  /// With that capacity: of numbers that a run gives, for sizes; or along the axes that have a count.
  int capped(int node, std::int64_t most);
  int check(int count, CountRule rule) { return add_count(network_, part_name("count"), count, std::move(rule)); }

  /// One function of operands that broadcast, computed in the type of the first (of the second, for `where`).
  int pointwise(Pointwise function, std::vector<int> inputs);
  /// The same with numbers after the first operand.
  int pointwise(Pointwise function, int node, double a, double b = 0);

  /// What the outputs of a node are all taken from: made for the first of them, then known.
  template <class Make>
  int once(const Make& make) {
    return once(op_, attributes_, inputs_, make);
  }
  /// What any row makes of these nodes under that name.
  template <class Make>
  int once(std::string_view what, Attributes attributes, std::vector<int> nodes, const Make& make) {
    int& made = network_.made_once(what, std::move(attributes), std::move(nodes));
    return made >= 0 ? made : made = make();
  }

  /// Throws Error in the op's name.
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... why) const {
    fail(op_, ": ", why...);
  }
  template <class... Parts>
  [[noreturn]] void lacks(const Parts&... what) const {
    fail(ErrorKind::unsupported, op_, ": ", what..., " is not supported");
  }

 private:
  Tensor constant(int i, std::string_view or_else) const;
  std::string part_name(std::string_view what);
  /// What a node takes of an earlier one by moves, and that one; the node itself and nothing if it is no move.
  std::pair<int, std::optional<MoveProblem>> origin(int node) const;
  int before_expansion(int node) const;

  Network& network_;
  std::string_view op_;
  std::string name_;
  std::vector<int> inputs_;
  Attributes attributes_;
  AttributeReader reader_;
  int parts_ = 0;
};

/// The type of a number of ONNX's TensorProto.DataType. Throws Error for one that Lamina has not.
DType onnx_dtype(std::string_view op, int number);

/// The type that PointwiseProblem computes elements of that type in.
DType compute_type(DType dtype);

/// The elements of a CPU tensor of any type as whole numbers, or as doubles.
std::vector<std::int64_t> to_integers(const Tensor& tensor);
std::vector<double> to_numbers(const Tensor& tensor);

}  // namespace lamina::detail
