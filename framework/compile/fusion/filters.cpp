// Channels by eights. Kernels on tensor cores want them so in 16 bits; a layer of 149 or 195 filters runs on slower
// ones. It gets some more that are zero, and so does everything between it and the next products, channel by channel.
// Those products read the first channels alone, as a slice, so nothing that is in the others, NaN for one, gets into a
// sum; moves step over them.

#include <algorithm>
#include <set>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/compile/dataflow.h"
#include "lamina/layers/absorption.h"

namespace lamina::detail {
namespace {

constexpr std::int64_t together = 8;

/// The move of elements that lie `block` by `block` behind each other, where each block has `longer` instead; nothing
/// if an axis goes through more than one of them by steps that are no whole ones.
std::optional<MoveProblem> stepping_over(MoveProblem move, std::int64_t block, std::int64_t longer) {
  std::int64_t within = 0;  // the furthest that axes go inside a block
  for (MoveProblem::Axis& axis : move.axes) {
    std::int64_t furthest = 0;
    for (std::int64_t& offset : axis.offsets) {
      if (offset < 0) continue;
      furthest = std::max(furthest, offset % block);
      offset = offset / block * longer + offset % block;
    }
    if (axis.offsets.empty() && axis.stride % block == 0) {
      axis.stride = axis.stride / block * longer;
    } else if (axis.offsets.empty()) {
      if (axis.stride < 0) return std::nullopt;
      furthest = (axis.extent - 1) * axis.stride;
    }
    within += furthest;
  }
  return within < block ? std::optional(std::move(move)) : std::nullopt;
}

/// With zeros behind, along the first dimension.
Tensor lengthened(const Tensor& values, std::int64_t count) {
  if (!values.defined()) return {};
  Shape shape = values.shape();
  shape.set(0, count);
  Tensor result(shape);
  std::ranges::copy(values.values<float>(), result.values<float>().begin());
  std::ranges::fill(result.values<float>().subspan(static_cast<std::size_t>(values.numel())), 0.0f);
  return result;
}

class Filters : Dataflow {
 public:
  using Dataflow::Dataflow;

  void fill() {
    for (Operation& op : program_.operations) {
      if (op.module == nullptr || op.view) continue;
      if (const auto conv = conv_of(op)) {
        if (conv->geometry.groups == 1 && !conv->epilogue.pool) widen_with(op.output);
      } else if (auto linear = problem_of<LinearProblem>(op)) {
        fill(op, *linear);
      }
    }
    finish();
  }

 private:
  std::optional<ConvProblem> conv_of(const Operation& op) const {
    const auto* conv = dynamic_cast<const Conv2d*>(op.module.get());
    if (conv == nullptr || op.view || !conv->weight().defined() || conv->eight_bits().defined()) return std::nullopt;
    if (conv->options().bias && !conv->bias().defined()) return std::nullopt;
    return problem_of<ConvProblem>(op);
  }
  static bool is_depthwise(const ConvGeometry& g) { return g.groups == g.in_channels && g.groups == g.out_channels; }

  /// From which operand on what an operation reads has its result's channels, each for itself; none if it is not known
  /// to be so.
  std::optional<std::size_t> channelwise(const Operation& op) const {
    if (op.module == nullptr || op.view || op.second_output != none || shape(op.output).rank() != 4)
      return std::nullopt;
    if (const auto conv = conv_of(op)) {
      if (is_depthwise(conv->geometry) && !conv->scaled()) return 0;
      return conv->geometry.groups == 1 ? std::optional(std::size_t{conv->scaled() ? 2u : 1u}) : std::nullopt;
    }
    constexpr unsigned pixels = 1u << 2 | 1u << 3;
    const auto reduce = problem_of<ReduceProblem>(op);
    const bool of_pixels = reduce && (reduce->dims & ~pixels) == 0;
    const bool of_one =
        chain_of(*op.module) != nullptr || of_pixels || problem_of<PoolProblem>(op) || problem_of<AffineProblem>(op);
    return of_one ? std::optional(std::size_t{0}) : std::nullopt;
  }
  /// Whether an operation reads a value so, or otherwise.
  bool reads(const Operation& op, int value, bool by_channels) const {
    const std::size_t from = channelwise(op).value_or(op.inputs.size());
    const auto first = op.inputs.begin(), middle = first + static_cast<std::ptrdiff_t>(from);
    return by_channels ? std::find(middle, op.inputs.end(), value) != op.inputs.end()
                       : std::find(first, middle, value) != middle;
  }

  /// What gets more channels together.
  struct Widened {
    std::vector<int> values;
    std::vector<int> copied;  ///< read with them; what computes these gives no more channels, so that moves add them
  };

  /// With that value; nothing if one of them cannot be.
  Widened widened_with(int first) const {
    Widened result = {{first}, {}};
    std::vector<int>& values = result.values;
    const auto add = [&](int value, bool reads_more) {
      const Operation* const made = computes(value);
      std::vector<int>& to = reads_more || (made != nullptr && channelwise(*made)) ? values : result.copied;
      if (std::ranges::find(to, value) == to.end()) to.push_back(value);
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      const int value = values[i];
      const Operation* const made = computes(value);
      const auto from = made == nullptr ? std::nullopt : channelwise(*made);
      if (!from || is_coded(value) || is_output(value) || program_.value(value).format.dtype != DType::f32) return {};
      for (std::size_t k = *from; k < made->inputs.size(); ++k) {
        const int operand = made->inputs[k];
        const bool known = program_.value(operand).constant.defined();
        if (extent(operand, -3) <= 1) continue;  // for all channels alike
        const bool lengthens = known ? extent(operand, -4) <= 1 : shape(operand).rank() == 4;
        if (extent(operand, -3) != extent(value, 1) || !lengthens) return {};
        if (!known) add(operand, false);
      }
      for (const int reader : readers(value)) {
        if (reads(operation(reader), value, true)) add(operation(reader).output, true);
      }
    }
    return result;
  }

  std::int64_t pixels(int value) const { return extent(value, 2) * extent(value, 3); }

  /// Those that read a value otherwise, each once.
  std::set<int> others(int value) const {
    std::set<int> result;
    for (const int reader : readers(value)) {
      if (reads(operation(reader), value, false)) result.insert(reader);
    }
    return result;
  }

  /// What moves a value's elements, if those can lie further apart.
  std::optional<MoveProblem> move_over(const Operation& op, int value, std::int64_t channels) const {
    const auto move = move_of(&op);
    return move ? stepping_over(*move, extent(value, 1) * pixels(value), channels * pixels(value)) : std::nullopt;
  }

  void widen_with(int first) {
    const std::int64_t channels = extent(first, 1), more = round_up(channels, together);
    if (channels == more || (more - channels) * together > channels || pixels(first) == 1) return;
    const auto [values, copied] = widened_with(first);
    // Products of images are faster by far; who reads a slice and is none of these copies it.
    int faster = 0;
    auto copies = static_cast<int>(std::ranges::count_if(copied, [&](int value) { return pixels(value) > 1; }));
    for (const int value : values) {
      const auto made = conv_of(*computes(value));
      faster += made && made->geometry.groups == 1 && pixels(value) > 1;
      for (const int reader : others(value)) {
        const bool product = options_.description->wgmma && conv_of(operation(reader));
        if (pixels(value) == 1 || move_over(operation(reader), value, more)) continue;
        (product ? faster : copies) += 1;
      }
    }
    if (values.empty() || copies >= faster) return;
    for (const int value : values) {
      for (const int reader : others(value)) read_first(operation(reader), value, more);
    }
    std::vector<Operation> wide;
    for (const int value : values) wide.push_back(widened(operation(producer(value)), more));
    for (const int value : copied) {
      std::vector<std::size_t> at;  // which of them read it
      for (std::size_t i = 0; i < wide.size(); ++i) {
        if (std::ranges::find(wide[i].inputs, value) != wide[i].inputs.end()) at.push_back(i);
      }
      const auto number = [&](std::size_t i) { return producer(values[i]); };
      Operation& first_of_all = operation(number(*std::ranges::min_element(at, {}, number)));
      const int longer = insert(first_of_all, with_zeros(value, more));
      for (const std::size_t i : at) std::ranges::replace(wide[i].inputs, value, longer);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      program_.value(values[i]).shape.set(1, more);
      replace(operation(producer(values[i])), std::move(wide[i]));
    }
  }

  /// `op` reads the channels that a value has now, of `more`.
  void read_first(Operation& op, int value, std::int64_t more) {
    if (auto move = move_over(op, value, more)) {
      const Shape to = shape(op.output);
      return replace(op, std::make_shared<Fixed<MoveProblem>>(*std::move(move), to, DType::f32), op.inputs, to);
    }
    const Shape& of = shape(value);
    const std::int64_t row = of[3], page = of[2] * row;
    MoveProblem first = {{{of[0], more * page}, {of[1], page}, {of[2], row}, {of[3], 1}}};
    const std::string name = program_.value(value).name;
    auto module = std::make_shared<Fixed<MoveProblem>>(std::move(first), of, DType::f32);
    const int slice = insert(op, operation_of(name, std::move(module), {value}, of));
    Operation by = op;
    const std::size_t end = channelwise(op).value_or(op.inputs.size());
    std::replace(by.inputs.begin(), by.inputs.begin() + static_cast<std::ptrdiff_t>(end), value, slice);
    replace(op, std::move(by));
  }

  /// An operation whose result has so many channels, of which the last are nobody's.
  Operation widened(const Operation& op, std::int64_t channels) {
    Operation result = op;
    if (const auto conv = conv_of(op)) {
      result.module = dynamic_cast<const Conv2d&>(*op.module)
                          .with_filters(lengthened(conv->weight, channels), lengthened(conv->bias, channels));
    } else if (const auto reduce = problem_of<ReduceProblem>(op)) {
      Shape to = shape(op.output);
      to.set(1, channels);
      result.module = std::make_shared<Fixed<ReduceProblem>>(*reduce, to, DType::f32);
    } else if (auto affine = problem_of<AffineProblem>(op)) {
      affine->scale = lengthened(affine->scale, channels), affine->shift = lengthened(affine->shift, channels);
      Shape to = shape(op.output);
      to.set(1, channels);
      result.module = std::make_shared<Fixed<AffineProblem>>(*std::move(affine), to, DType::f32);
    }
    for (int& input : result.inputs) {
      const Program::Value known = program_.value(input);
      if (!known.constant.defined() || extent(input, -3) <= 1) continue;
      const std::int64_t alike = known.constant.numel() / extent(input, -3);
      Shape wide = known.shape;
      wide.set(-3, channels);
      const Tensor flat = lengthened(known.constant.view({known.constant.numel()}), channels * alike);
      input = new_value(known.name, wide, flat.view(wide));
    }
    return result;
  }

  /// A layer over rows, of which moves read the results.
  void fill(Operation& op, LinearProblem& problem) {
    constexpr std::int64_t least = 64;  // of fewer, those of zeros would be too many
    const std::int64_t filters = problem.out, more = round_up(filters, together);
    const bool of_rows = extent(op.inputs[0], -1) == problem.in;  // no image that it makes a row of
    if (!of_rows || problem.eight.defined() || filters < least || filters == more || op.inputs.size() != 1 ||
        !problem.weight.defined() || is_output(op.output)) {
      return;
    }
    std::vector<std::pair<int, MoveProblem>> moves;
    for (const int reader : readers(op.output)) {
      const auto found = move_of(&operation(reader));
      auto over = found ? stepping_over(*found, filters, more) : std::nullopt;
      if (!over) return;
      moves.emplace_back(reader, std::move(*over));
    }
    Shape after = shape(op.output);
    after.set(static_cast<int>(after.rank()) - 1, more);
    problem.weight = lengthened(problem.weight, more), problem.bias = lengthened(problem.bias, more);
    problem.out = static_cast<int>(more);
    replace(op, std::make_shared<Fixed<LinearProblem>>(std::move(problem), after, DType::f32), op.inputs, after);
    for (auto& [reader, move] : moves) {
      Operation& by = operation(reader);
      const Shape to = shape(by.output);
      replace(by, std::make_shared<Fixed<MoveProblem>>(std::move(move), to, DType::f32), by.inputs, to);
    }
  }
};

}  // namespace

void fill_filters(Program& program, const CompileOptions& options) {
  if (options.device.is_cuda() && size_of(storage_type(options.precision)) == 2) Filters(program, options).fill();
}

}  // namespace lamina::detail
