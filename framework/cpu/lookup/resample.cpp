#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/extents.h"

namespace lamina::cpu {
namespace {

using namespace tables;
using Axis = ResampleProblem::Axis;

/// The shape as [dimensions up to the last that is resampled, width]: what follows that one is moved as a whole; if
/// nothing does, the width is its own, and its taps are taken within a row.
struct Rows {
  int rank = 0;  // of what is before the width
  std::array<const Axis*, Shape::max_rank> axes{};
  std::array<std::int64_t, Shape::max_rank> extents{}, steps{};  // of the output; elements of the input
  const Axis* within = nullptr;
  std::int64_t in_width = 1, in_step = 1, out_width = 1, count = 1;
  bool repeats = true;  // one tap everywhere, by 1

  Rows(const ResampleProblem& problem, const Shape& in, const Shape& in_steps, const Shape& out) {
    int last = -1;
    for (const Axis& axis : problem.axes) {
      last = std::max(last, axis.dim);
      repeats &= axis.taps == 1 && std::ranges::all_of(axis.weights, [](float weight) { return weight == 1; });
    }
    const int dims = static_cast<int>(in.rank());
    for (const Axis& axis : problem.axes) {
      if (axis.dim == dims - 1) {
        within = &axis;
      } else {
        axes[static_cast<std::size_t>(axis.dim)] = &axis;
      }
    }
    rank = within != nullptr ? last : last + 1;
    for (int d = rank; d < dims; ++d) in_width *= in[d], out_width *= out[d];
    if (within != nullptr) in_step = in_steps[dims - 1];
    for (int d = rank - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      extents[at] = out[d], steps[at] = in_steps[d];
      count *= out[d];
    }
  }
};

/// Calls body(offset, weight) for every combination of the taps of one output row, the last dimension fastest.
template <class Body>
void for_each_tap(const Rows& rows, std::int64_t row, const Body& body) {
  std::array<std::int64_t, Shape::max_rank> place{};
  std::array<int, Shape::max_rank> tap{};
  std::int64_t base = 0;
  for (int d = rows.rank - 1; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    place[at] = row % rows.extents[at];
    row /= rows.extents[at];
    if (rows.axes[at] == nullptr) base += place[at] * rows.steps[at];
  }
  for (;;) {
    std::int64_t offset = base;
    float weight = 1;
    for (std::size_t d = 0; d < static_cast<std::size_t>(rows.rank); ++d) {
      if (rows.axes[d] == nullptr) continue;
      const auto at = static_cast<std::size_t>(place[d] * rows.axes[d]->taps + tap[d]);
      offset += rows.axes[d]->indices[at] * rows.steps[d];
      weight *= rows.axes[d]->weights[at];
    }
    body(offset, weight);
    int d = rows.rank - 1;
    for (; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      if (rows.axes[at] == nullptr) continue;
      if (++tap[at] < rows.axes[at]->taps) break;
      tap[at] = 0;
    }
    if (d < 0) return;
  }
}

/// `count` elements of `from`, `step` apart, to the sums, or as the first of them.
template <class Step>
void add(float weight, const float* from, Step step, std::int64_t count, bool first, float* sums) {
  if (first) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] = weight * from[i * step];
  } else {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * from[i * step];
  }
}

template <class Taps>
void take_within(const Axis& axis, Taps taps, std::int64_t width, const float* row, std::int64_t step, float* output) {
  const int* index = axis.indices.data();
  const float* weight = axis.weights.data();
  for (std::int64_t i = 0; i < width; ++i, index += taps, weight += taps) {
    float sum = 0;
    for (int t = 0; t < taps; ++t) sum += weight[t] * row[index[t] * step];
    output[i] = sum;
  }
}
void take_within(const Axis& axis, std::int64_t width, const float* row, std::int64_t step, float* output) {
  if (axis.taps == 2) return take_within(axis, std::integral_constant<int, 2>(), width, row, step, output);
  take_within(axis, axis.taps, width, row, step, output);
}

/// Where elements are taken as they are: rows of the same are one that is copied.
void repeat(const Rows& rows, const float* input, float* output, std::int64_t first, std::int64_t last) {
  std::int64_t before = -1;
  for (std::int64_t row = first; row < last; ++row) {
    float* const to = output + row * rows.out_width;
    for_each_tap(rows, row, [&](std::int64_t offset, float) {
      const float* const from = input + offset;
      if (offset == before) {
        std::copy_n(to - rows.out_width, rows.out_width, to);
      } else if (rows.within == nullptr) {
        for (std::int64_t i = 0; i < rows.out_width; ++i) to[i] = from[i * rows.in_step];
      } else {
        const int* const index = rows.within->indices.data();
        for (std::int64_t i = 0; i < rows.out_width; ++i) to[i] = from[index[i] * rows.in_step];
      }
      before = offset;
    });
  }
}

/// `workspace`: for each thread the sums of a row, if its taps are taken within it.
void resample(const Rows& rows, const float* input, float* output, ThreadPool& pool, float* workspace) {
  if (rows.out_width == 0) return;
  const bool across = std::any_of(rows.axes.begin(), rows.axes.end(), [](auto* axis) { return axis != nullptr; });
  // Several short rows are one item of work.
  const std::int64_t each = std::max<std::int64_t>(1, 4096 / std::max(rows.in_width, rows.out_width));
  pool.parallel_for(detail::ceil_div(rows.count, each), [&](std::int64_t item, int worker) {
    const std::int64_t last = std::min(rows.count, (item + 1) * each);
    if (rows.repeats) return repeat(rows, input, output, item * each, last);
    for (std::int64_t row = item * each; row < last; ++row) {
      float* const to = output + row * rows.out_width;
      float* const sums =
          rows.within == nullptr ? to : workspace + worker * detail::round_up<std::int64_t>(rows.in_width, 16);
      bool first = true;
      for_each_tap(rows, row, [&](std::int64_t offset, float weight) {
        const float* const from = input + offset;
        if (!across && rows.within != nullptr) {
          return take_within(*rows.within, rows.out_width, from, rows.in_step, to);
        }
        // A loop of its own for neighbours, which compilers make vectors of.
        rows.in_step == 1 ? add(weight, from, std::integral_constant<std::int64_t, 1>(), rows.in_width, first, sums)
                          : add(weight, from, rows.in_step, rows.in_width, first, sums);
        first = false;
      });
      if (across && rows.within != nullptr) take_within(*rows.within, rows.out_width, sums, 1, to);
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_resample(const ResampleProblem& problem, const Preparation& p) {
  // Of the dimensions in the order in which they lie in the output.
  const Layout layout = p.output().format.layout;
  const Shape in = detail::stored(p.input().shape, layout, 0).shape;
  const Shape out = detail::stored(p.output().shape, layout, 0).shape;
  ResampleProblem own = problem;
  for (ResampleProblem::Axis& axis : own.axes) axis.dim = detail::stored(p.input().shape, layout, axis.dim).dim;
  std::vector<std::int64_t> steps;
  for (int d = 0; d < static_cast<int>(in.rank()); ++d) {
    steps.push_back(detail::extent_product(in, d + 1, static_cast<int>(in.rank())));
  }
  if (p.input().format.layout != layout) steps = {in[1] * in[2] * in[3], 1, in[3] * in[1], in[1]};
  const Rows rows(own, in, in, in);
  const std::int64_t sums = rows.within == nullptr ? 0 : p.threads * detail::round_up<std::int64_t>(rows.in_width, 16);
  return make_operator(
      "rows", {.workspace = static_cast<std::size_t>(sums) * sizeof(float)},
      [own, in, steps = Shape(steps), out](Inputs inputs, Outputs outputs, const Execution& execution) {
        resample(Rows(own, in, steps, out), floats(inputs[0]), floats(outputs[0]), *execution.pool,
                 static_cast<float*>(execution.workspace));
      });
}

}  // namespace lamina::cpu
