// Zeros that a move puts around an image become padding of the convolutions, if only convolutions read the result.
// There may be more zeros behind the image than in front of it, as TensorFlow pads images for convolutions with
// strides.

#include <algorithm>
#include <optional>
#include <vector>

#include "lamina/compile/dataflow.h"

namespace lamina::detail {
namespace {

struct Zeros {
  Size2d before = 0, behind = 0;
};

/// How many zeros an axis puts in front of and behind the elements of one side of an image, if it has all of them in
/// order, `stride` apart.
std::optional<std::pair<int, int>> around(const MoveProblem::Axis& axis, std::int64_t elements, std::int64_t stride) {
  if (axis.offsets.empty()) {
    const bool same = axis.extent == elements && axis.stride == stride;
    return same ? std::optional(std::pair(0, 0)) : std::nullopt;
  }
  const auto is_inside = [](std::int64_t offset) { return offset >= 0; };
  const auto first = std::ranges::find_if(axis.offsets, is_inside);
  const std::int64_t before = first - axis.offsets.begin(), behind = axis.extent - before - elements;
  if (behind < 0) return std::nullopt;
  for (std::int64_t i = 0; i < axis.extent; ++i) {
    const bool outside = i < before || i >= before + elements;
    if (axis.offsets[static_cast<std::size_t>(i)] != (outside ? -1 : (i - before) * stride)) return std::nullopt;
  }
  return std::pair(static_cast<int>(before), static_cast<int>(behind));
}

/// The zeros that a move puts around an image of that shape; nothing if the move does anything else.
std::optional<Zeros> zeros_of(const MoveProblem& move, const Shape& from, const Shape& to) {
  const std::size_t count = move.axes.size();
  if (move.fill != 0 || from.rank() != 4 || to.rank() != 4 || count < 2) return std::nullopt;
  const auto columns = around(move.axes[count - 1], from[3], 1), rows = around(move.axes[count - 2], from[2], from[3]);
  if (!rows || !columns || move.axes[count - 1].extent != to[3] || move.axes[count - 2].extent != to[2])
    return std::nullopt;
  std::int64_t stride = from[2] * from[3];
  for (std::size_t a = count - 2; a-- > 0; stride *= move.axes[a].extent) {
    if (!around(move.axes[a], move.axes[a].extent, stride)) return std::nullopt;
  }
  constexpr int most = 1024;  // on one side: more is no padding, and the sum must be one that layers count
  if (stride != from.numel() || std::max({rows->first, rows->second, columns->first, columns->second}) > most)
    return std::nullopt;
  return Zeros{{rows->first, columns->first}, {rows->second, columns->second}};
}

class Padding : Dataflow {
 public:
  using Dataflow::Dataflow;

  void take() {
    for (Operation& op : program_.operations) take(op);
    finish();
  }

 private:
  void take(Operation& op) {
    const auto move = move_of(&op);
    const auto zeros = move ? zeros_of(*move, shape(op.inputs[0]), shape(op.output)) : std::nullopt;
    if (!zeros || is_coded(op.output)) return;
    // A CPU's kernels of bf16 need as many zeros on one side as on the other, since they copy rows between them.
    const bool narrow = options_.device.is_cpu() && options_.precision != Precision::fp32;
    if (narrow && zeros->before != zeros->behind) return;
    const std::vector<int> all = convolutions_of(op.output);
    std::vector<Operation> longer;
    for (const int reader : all) {
      longer.push_back(operation(reader));
      longer.back().module =
          dynamic_cast<const Conv2d&>(*operation(reader).module).with_padding(zeros->before, zeros->behind);
      longer.back().inputs[0] = op.inputs[0];
      if (longer.back().module == nullptr || !has_paying_kernel(longer.back())) return;
      take_names(longer.back(), op);
    }
    for (std::size_t i = 0; i < all.size(); ++i) replace(operation(all[i]), std::move(longer[i]));
  }
};

}  // namespace

void take_padding(Program& program, const CompileOptions& options) { Padding(program, options).take(); }

}  // namespace lamina::detail
