#include "lamina/compile/fusion/wider_channels.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/kernel/conv_pair.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/rules/patches.h"
#include "lamina/layers/absorption.h"

namespace lamina::detail {
namespace {

/// How many copies a faster kernel is worth: of a 1 x 1 layer of 880 channels to 220 it takes 6 us in place of 20 for
/// one image, where a copy takes 2.5; of 58 to 58 it gains nothing to speak of.
int worth(const ConvProblem& conv) {
  constexpr std::int64_t many = 1 << 15;
  return conv.weight.numel() >= many ? 2 : 1;
}

}  // namespace

std::optional<MoveProblem> stepping_over(MoveProblem move, std::int64_t block, std::int64_t longer) {
  std::int64_t within = 0;  // the largest offset inside a block that the axes reach together
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

std::optional<std::size_t> WiderChannels::channelwise(const Operation& op) const {
  if (op.module == nullptr || op.view || op.second_output != none || shape(op.output).rank() != 4) return std::nullopt;
  if (const auto conv = convolution(op)) {
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

bool WiderChannels::reads(const Operation& op, int value, bool by_channels) const {
  const std::size_t from = channelwise(op).value_or(op.inputs.size());
  const auto first = op.inputs.begin(), middle = first + static_cast<std::ptrdiff_t>(from);
  return by_channels ? std::find(middle, op.inputs.end(), value) != op.inputs.end()
                     : std::find(first, middle, value) != middle;
}

WiderChannels::Widened WiderChannels::widened_with(int first) const {
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
      if (extent(operand, -3) <= 1) continue;  // the same for all channels
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

std::set<int> WiderChannels::others(int value) const {
  std::set<int> result;
  for (const int reader : readers(value)) {
    if (reads(operation(reader), value, false)) result.insert(reader);
  }
  return result;
}

std::optional<MoveProblem> WiderChannels::move_over(const Operation& op, int value, std::int64_t channels) const {
  const auto move = move_of(&op);
  return move ? stepping_over(*move, extent(value, 1) * pixels(value), channels * pixels(value)) : std::nullopt;
}

WiderChannels::Change WiderChannels::change_of(const Operation& op, ConvProblem conv, int value, std::int64_t more) {
  const Format stored = {storage_type(options_.precision), Layout::nhwc};
  PreparedViews views(program_, op, options_);
  views.with(stored, stored);
  const auto give_filters = [&](std::int64_t filters) {
    conv.geometry.out_channels = static_cast<int>(filters);
    views.outputs[0].shape.set(1, filters);
    for (std::size_t k = 0; k < op.inputs.size(); ++k) {
      if (reads(op, op.inputs[k], true)) views.inputs[k].shape = views.outputs[0].shape;
    }
  };
  if (value != op.output && pays(op.output)) give_filters(round_up(extent(op.output, 1), together));
  const Kernel<ConvProblem>* const before = paying_kernel(conv, views.preparation);
  if (value == op.output) {  // its operand will be a slice, too
    give_filters(more);
    const std::int64_t channels = conv.geometry.in_channels, filled = round_up(channels, together);
    if (channels != filled) views.inputs[0].channels = filled;
  }
  for (std::size_t k = 0; k < op.inputs.size(); ++k) {
    if (op.inputs[k] == value) views.inputs[k].channels = more;
  }
  const Kernel<ConvProblem>* const after = paying_kernel(conv, views.preparation);
  if (after == nullptr || (before != nullptr && before < after)) return Change::slower;
  return before == after ? Change::same : Change::faster;
}

bool WiderChannels::becomes_pair(const Operation& op, const ConvProblem& first) const {
  if (only_reader(op.output) == none || op.inputs.size() != 1) return false;
  Operation next = operation(only_reader(op.output));
  const auto second = next.inputs.size() == 1 ? convolution(next) : std::nullopt;
  if (!second || !is_depthwise(second->geometry)) return false;
  next.module =
      std::make_shared<Fixed<ConvPairProblem>>(ConvPairProblem{first, *second}, shape(next.output), DType::f32);
  next.inputs = op.inputs;
  return has_paying_kernel(next);
}

std::optional<WiderChannels::Widened> WiderChannels::paying(int first) {
  const std::int64_t channels = extent(first, 1), more = round_up(channels, together);
  const Operation& product = *computes(first);
  const auto conv = convolution(product);
  if (!conv || conv->geometry.groups != 1 || conv->epilogue.pool || channels == more || pixels(first) == 1 ||
      (more - channels) * together > channels)
    return std::nullopt;
  Widened result = widened_with(first);
  const auto is_copied = [&](int value) { return pixels(value) > 1 && !move_of(computes(value)); };
  auto copies = std::ranges::count_if(result.copied, is_copied);
  int faster = 0;
  bool moved = result.values.size() == 1 && result.copied.empty() && channels >= least;
  for (const int value : result.values) {
    if (pixels(value) == 1) continue;
    const Operation& maker = *computes(value);
    const auto made = convolution(maker);
    if (made && made->geometry.groups == 1 && !becomes_pair(maker, *made))
      faster += change_of(maker, *made, value, more) == Change::faster ? worth(*made) : 0;
    for (const int reader : others(value)) {
      const Operation& by = operation(reader);
      if (move_over(by, value, more)) continue;
      moved = false;
      const auto read = convolution(by);
      const Change change = read && !becomes_pair(by, *read) ? change_of(by, *read, value, more) : Change::slower;
      faster += change == Change::faster ? worth(*read) : 0, copies += change == Change::slower;
    }
  }
  return copies < faster || moved ? std::optional(std::move(result)) : std::nullopt;
}

bool WiderChannels::pays(int value) {
  const auto [found, is_new] = pays_.try_emplace(value, true);
  if (is_new) pays_[value] = paying(value).has_value();
  return pays_[value];
}

}  // namespace lamina::detail
