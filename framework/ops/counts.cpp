#include "lamina/ops/counts.h"

#include <algorithm>
#include <bit>

#include "lamina/base/error.h"
#include "lamina/kernel/all_problems.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/layers/concat.h"
#include "lamina/layers/fixed.h"
#include "lamina/module/layer.h"
#include "lamina/ops/network.h"
#include "lamina/ops/parts.h"
#include "lamina/ops/table.h"

namespace lamina::detail {
namespace {

/// Where an axis of an operand is in the result: element i of it is element i there, whatever else the operands hold.
struct Place {
  int axis = -1;                    ///< -1: nowhere
  std::int64_t times = 1, per = 1;  ///< the result has so many times as many
};

struct Axes {
  std::vector<Shape> in;
  Shape out;

  int rank(std::size_t i) const { return static_cast<int>(in[i].rank()); }
  /// As NumPy broadcasts: counted from the end.
  Place from_end(std::size_t i, int axis) const { return {axis + static_cast<int>(out.rank()) - rank(i)}; }
};

template <class Problem, class... Others>
constexpr bool is_one_of = (std::is_same_v<Problem, Others> || ...);

/// Problems of images carry those, others all axes but the one that they are along; those not named here carry nothing.
template <class Problem>
Place place([[maybe_unused]] const Problem& p, const Axes&, std::size_t, [[maybe_unused]] int axis) {
  if constexpr (is_one_of<Problem, ConvProblem, PoolProblem>) return {axis == 0 ? 0 : -1};
  if constexpr (is_one_of<Problem, SoftmaxProblem, ConcatProblem, TopKProblem>) return {axis == p.dim ? -1 : axis};
  if constexpr (is_one_of<Problem, AffineProblem>) return {axis};
  if constexpr (is_one_of<Problem, LocalResponseProblem>) return {axis == 1 ? -1 : axis};
  if constexpr (is_one_of<Problem, CumulativeProblem>) return {axis == p.dim && p.reverse ? -1 : axis};
  return {};
}

Place place(const PointwiseProblem&, const Axes& a, std::size_t i, int axis) { return a.from_end(i, axis); }
Place place(const LinearProblem&, const Axes& a, std::size_t, int axis) {
  return {axis + 1 < a.rank(0) && a.out.rank() == a.in[0].rank() ? axis : -1};
}
Place place(const ReduceProblem& p, const Axes& a, std::size_t, int axis) {
  if ((p.dims >> axis & 1u) != 0) return {};
  const int before = std::popcount(p.dims & ((1u << axis) - 1));
  return {a.out.rank() == a.in[0].rank() ? axis : axis - before};
}
Place place(const NormProblem& p, const Axes& a, std::size_t i, int axis) {
  const std::int64_t step = count_of(a.in[0], axis + 1, a.rank(0));
  return {i == 0 && p.length > 0 && step % p.length == 0 ? axis : -1};  // those in front of whole rows
}
Place place(const RecurrentProblem& p, const Axes& a, std::size_t i, int axis) {
  const bool is_length = p.lengths && i + 1 == a.in.size();
  return {axis == (i == 0 ? 1 : 0) && !is_length ? 1 : -1};  // images
}
Place place(const ResampleProblem& p, const Axes&, std::size_t, int axis) {
  return {std::ranges::count(p.axes, axis, &ResampleProblem::Axis::dim) > 0 ? -1 : axis};
}
Place place(const MatMulProblem& p, const Axes& a, std::size_t i, int axis) {
  const int from_last = a.rank(i) - 1 - axis;
  if (a.rank(i) < 2 || from_last > 1) return a.from_end(i, axis);
  const int turned = (i == 0 ? p.transpose_a : p.transpose_b) ? 1 - from_last : from_last;
  return turned == (i == 0 ? 1 : 0) ? Place{static_cast<int>(a.out.rank()) - 1 - turned} : Place{};
}
Place place(const GatherProblem& p, const Axes& a, std::size_t i, int axis) {
  const int indices = a.rank(1);
  if (p.kind == GatherKind::elements) return {i == 1 ? axis : -1};
  if (p.kind == GatherKind::take)
    return i == 1 ? Place{p.dim + axis} : Place{axis < p.dim ? axis : axis == p.dim ? -1 : axis + indices - 1};
  const int depth = static_cast<int>(a.in[1][-1]);
  if (i == 1) return {axis + 1 < indices ? axis : -1};
  return {axis < p.batch_dims ? axis : axis < p.batch_dims + depth ? -1 : axis - p.batch_dims - depth + indices - 1};
}

/// Whether a move whose axes are the result's dimensions goes along an axis of the operand by `d`, and by no other.
bool goes_along(const MoveProblem& p, std::size_t d, std::int64_t stride, std::int64_t extent) {
  std::int64_t others = 0;  // the most that they add to a place, within a step of that axis
  for (std::size_t k = 0; k < p.axes.size(); ++k) {
    std::int64_t most = 0;
    for (std::int64_t at = 0; at < p.axes[k].extent; ++at) {
      const auto& offsets = p.axes[k].offsets;
      const std::int64_t step = offsets.empty() ? at * p.axes[k].stride : offsets[static_cast<std::size_t>(at)];
      const std::int64_t within = step < 0 ? 0 : step % (stride * extent);
      if (k == d && step >= 0 && within / stride != at) return false;
      most = std::max(most, k == d ? within % stride : within);
    }
    others += most;
  }
  return others < stride;
}

/// A move carries an axis if one of the result is that one, whatever is done along the others.
Place place(const MoveProblem& p, const Axes& a, std::size_t, int axis) {
  const std::vector<std::int64_t> strides = row_major_strides(a.out);
  const std::int64_t stride = row_major_strides(a.in[0])[static_cast<std::size_t>(axis)], extent = a.in[0][axis];
  const auto by_dimension = [&](const MoveProblem::Axis& one, std::int64_t length) { return one.extent == length; };
  if (std::ranges::equal(p.axes, a.out.extents(), by_dimension)) {
    for (std::size_t d = 0; d < strides.size(); ++d) {
      if (extent > 0 && p.axes[d].extent == extent && goes_along(p, d, stride, extent)) return {static_cast<int>(d)};
    }
  }
  if (a.out.numel() == 0) return {};  // of no element every axis would do
  std::vector<bool> same(strides.size(), a.out.numel() <= longest_list);
  for (std::int64_t i = 0; i < a.out.numel() && std::ranges::find(same, true) != same.end(); ++i) {
    std::int64_t from = 0, rest = i;
    for (auto one = p.axes.rbegin(); one != p.axes.rend(); rest /= one->extent, ++one) {
      const std::int64_t at = rest % one->extent;
      const std::int64_t step = one->offsets.empty() ? at * one->stride : one->offsets[static_cast<std::size_t>(at)];
      from = from < 0 || step < 0 ? -1 : from + step;
    }
    for (std::size_t d = 0; d < same.size() && from >= 0; ++d) {
      if (from / stride % extent != i / strides[d] % a.out.extents()[d]) same[d] = false;
    }
  }
  for (int d = 0; d < static_cast<int>(same.size()); ++d) {
    if (same[static_cast<std::size_t>(d)] && a.out[d] == extent) return {d};
  }
  return {};
}

/// The same elements under another shape: the same axis is there, or it comes first and rows of another size do.
Place place_in_view(const Axes& a, int axis) {
  if (a.in[0] == a.out) return {axis};  // which says more than products do where an extent is 0
  const auto before = [](const Shape& shape, int d) { return count_of(shape, 0, d); };
  const std::int64_t extent = a.in[0][axis], first = before(a.in[0], axis);
  const int rank = static_cast<int>(a.out.rank());
  for (int d = 0; d < rank; ++d) {
    if (a.out[d] == extent && before(a.out, d) == first) return {d};
  }
  int d = 0;
  while (d < rank && a.out[d] == 1) ++d;
  if (first != 1 || d == rank || a.out[d] < 2) return {};
  return {d, count_of(a.in[0], axis + 1, a.rank(0)), count_of(a.out, d + 1, rank)};
}

Place find_place(const Module& module, const Axes& axes, std::size_t i, int axis) {
  if (module.is_view(axes.in)) return place_in_view(axes, axis);
#define LAMINA_PLACE(Problem)                                           \
  if (const auto* layer = dynamic_cast<const Layer<Problem>*>(&module)) \
    return place(layer->problem(axes.in), axes, i, axis);
  LAMINA_ALL_PROBLEMS(LAMINA_PLACE)
#undef LAMINA_PLACE
  return {};
}

[[noreturn]] void refuse_count(std::string_view op, const Shape& operand, std::size_t i, int axis) {
  fail(op, ": axis ", axis, " of operand ", i + 1, ' ', operand,
       " has a count, which only a run knows and this cannot carry");
}

using Find = Fixed<FindProblem>;

/// The number in front of a list of what is found, for all of which there is room.
bool is_front(const Network& network, int node) {
  const Network::Node& made = network[node];
  if (made.shape != Shape{1} || made.inputs.size() != 1) return false;
  const auto* find = dynamic_cast<const Find*>(network[made.inputs[0]].module.get());
  return find != nullptr && find->problem({}).kind != FindProblem::Kind::count;
}

}  // namespace

bool OnCpu::takes(const Preparation& p) const {
  const auto plain = [](const View& view) {
    const DType dtype = view.format.dtype;
    return view.format.layout == Layout::nchw && dtype != DType::f16 && dtype != DType::bf16 &&
           !view.quantization.defined();
  };
  return p.device.device.is_cpu() && std::ranges::all_of(p.inputs, plain) && std::ranges::all_of(p.outputs, plain);
}

std::unique_ptr<Operator> OnCpu::prepare(const Preparation& p) const {
  if (!takes(p)) fail(ErrorKind::unsupported, op_, ": not supported of f16, bf16 or eight bits");
  return make_operator(op_, {.workspace = workspace_}, run_);
}

int add_count(Network& network, std::string name, int counts, CountRule rule) {
  if (is_front(network, counts) && rule.expected < 0 && rule.times == rule.per && rule.most >= 0) {
    if (!network[counts].range.most.defined())
      network.set_range(counts, range_up_to(rule.most, {1}, DType::i64, counts));
    if (network[counts].range.most.values<std::int64_t>()[0] <= rule.most) return counts;
  }
  const Range given = range_of(network[counts]);
  std::int64_t most = rule.expected >= 0 ? rule.expected : rule.most;
  if (most < 0 && given.most.defined()) {
    const std::vector<std::int64_t> bounds = to_integers(given.most);
    most = std::max<std::int64_t>(rule.enough ? bounds[0] : std::ranges::min(bounds), 0);
  }
  auto module = std::make_shared<Find>(FindProblem{.rule = rule}, Shape{1}, DType::i64);
  const int made = network.add(std::move(name), std::move(module), {counts});
  if (most < 0) return made;
  Range range = range_up_to(most * rule.times / rule.per, {1}, DType::i64, made);
  if (rule.expected >= 0) range.least = range.far = range.most;
  if (rule.expected < 0 && rule.times == rule.per && given.far.defined()) range.far = given.far.slice(0, 1);
  network.set_range(made, std::move(range));
  return made;
}

bool is_count(const Network& network, int node) {
  const auto* find = dynamic_cast<const Find*>(network[node].module.get());
  return is_front(network, node) || (find != nullptr && find->problem({}).kind == FindProblem::Kind::count);
}

bool knows_counts(std::string_view op) {
  static constexpr std::string_view others =
      " ArgMax ArgMin AveragePool BatchNormalization Compress Concat Conv ConvTranspose CumProd CumSum DepthToSpace "
      "Dropout DynamicQuantizeLSTM Einsum Expand EyeLike Flatten GRU Gather GatherElements GatherND Gemm "
      "GlobalAveragePool GlobalMaxPool GroupNormalization Hardmax If InstanceNormalization LRN LSTM "
      "LayerNormalization LogSoftmax LpNormalization MatMul MaxPool NonMaxSuppression NonZero OneHot PRelu Pad "
      "RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
      "ReduceProd ReduceSum ReduceSumSquare Reshape Resize RoiAlign ScatterElements ScatterND Shape Size Slice "
      "Softmax SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unique Unsqueeze Upsample ";
  return others.find(concat(' ', op, ' ')) != others.npos ||
         std::ranges::find(pointwise_ops(), op, &OpRow::name) != pointwise_ops().end();
}

void refuse_counts(const Network& network, std::string_view op, std::span<const int> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] < 0 || network[inputs[i]].counts.empty()) continue;
    int axis = 0;
    while (network.count_of(inputs[i], axis) < 0) ++axis;
    refuse_count(op, network[inputs[i]].shape, i, axis);
  }
}

std::vector<int> carried_counts(Network& network, const Module& module, std::span<const int> inputs,
                                const Shape& result) {
  if (std::ranges::all_of(inputs, [&](int i) { return network[i].counts.empty(); })) return {};
  Axes axes = {.in = {}, .out = result};
  for (const int input : inputs) axes.in.push_back(network[input].shape);
  std::vector<int> counts(result.rank(), -1);
  std::vector<std::int64_t> others(result.rank(), 1);  // extents of operands that have all of them
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    for (int axis = 0; axis < axes.rank(i); ++axis) {
      int count = network.count_of(inputs[i], axis);
      const std::int64_t extent = axes.in[i][axis];
      const auto [to, times, per] = find_place(module, axes, i, axis);
      const bool fits = to >= 0 && (times != per || extent == result[to]);
      if (!fits && count >= 0) refuse_count(module.op(), axes.in[i], i, axis);
      if (!fits) continue;
      std::int64_t& other = others[static_cast<std::size_t>(to)];
      int& there = counts[static_cast<std::size_t>(to)];
      if (count < 0) other = std::max(other, extent);
      if (count >= 0 && times != per) count = add_count(network, "count", count, {.times = times, .per = per});
      if (count >= 0 && there >= 0 && there != count) {
        count = network.add("counts", std::make_shared<Concat>(0), {there, count});
        count = add_count(network, "count", count, {});
      }
      there = std::max(there, count);
    }
  }
  for (std::size_t d = 0; d < counts.size(); ++d) {
    if (counts[d] >= 0 && others[d] > 1) counts[d] = add_count(network, "count", counts[d], {.expected = others[d]});
  }
  return counts;
}

}  // namespace lamina::detail
