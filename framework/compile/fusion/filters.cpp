// Rounds numbers of channels up to multiples of eight. In 16 bits, kernels on tensor cores want such numbers; a layer
// of 149 or 195 filters runs on slower kernels. So it gets further filters that are zero, and the operations between it
// and the next products, which work channel by channel, get as many channels. The next products read the first channels
// alone, as a slice: what the added channels hold, which may be NaN, gets into no sum. Moves step over the added
// channels.

#include <algorithm>
#include <vector>

#include "lamina/base/math.h"
#include "lamina/compile/fusion/wider_channels.h"

namespace lamina::detail {
namespace {

/// The values with zeros behind them, up to `count` along the first dimension.
Tensor lengthened(const Tensor& values, std::int64_t count) {
  if (!values.defined()) return {};
  Shape shape = values.shape();
  shape.set(0, count);
  Tensor result(shape);
  std::ranges::copy(values.values<float>(), result.values<float>().begin());
  std::ranges::fill(result.values<float>().subspan(static_cast<std::size_t>(values.numel())), 0.0f);
  return result;
}

class Filters : WiderChannels {
 public:
  using WiderChannels::WiderChannels;

  void fill() {
    for (Operation& op : program_.operations) {
      if (op.module == nullptr || op.view) continue;
      if (convolution(op)) {
        widen_with(op.output);
      } else if (auto linear = problem_of<LinearProblem>(op)) {
        fill(op, *linear);
      }
    }
    finish();
  }

 private:
  void widen_with(int first) {
    const auto found = pays(first) ? paying(first) : std::nullopt;  // asked again: other values are wider now
    if (!found) return;
    const std::vector<int>& values = found->values;
    const std::int64_t more = round_up(extent(first, 1), together);
    for (const int value : values) {
      for (const int reader : others(value)) read_first(operation(reader), value, more);
    }
    std::vector<Operation> wide;
    for (const int value : values) wide.push_back(widened(operation(producer(value)), more));
    for (const int value : found->copied) {
      std::vector<std::size_t> at;  // which of `wide` read the value
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

  /// Lets `op` read only the channels that a value has now, once the value has `more` channels.
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

  /// The same operation with so many channels in its result; nobody reads those that are added.
  Operation widened(const Operation& op, std::int64_t channels) {
    Operation result = op;
    if (const auto conv = convolution(op)) {
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

  /// Gives a layer over rows further filters, if only moves read its results.
  void fill(Operation& op, LinearProblem& problem) {
    const std::int64_t filters = problem.out, more = round_up(filters, together);
    const bool of_rows = extent(op.inputs[0], -1) == problem.in;  // false if the layer flattens an image to a row
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
