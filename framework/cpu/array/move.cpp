#include "lamina/cpu/array/array.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/kernel/rules/move/plan.h"

namespace lamina::cpu {
namespace {

using namespace tables;

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t chunk = 16384;

// Shorter runs on average are found faster in the table, element by element.
constexpr std::int64_t shortest_run = 8;

// Input elements that are read together where axes are swapped, at least: a cache line of f32.
constexpr std::int64_t side = 16;

using Axis = MoveProblem::Axis;

bool has_stride(const Axis& axis) { return axis.offsets.empty(); }
std::int64_t offset_of(const Axis& axis, std::int64_t i) {
  return axis.offsets.empty() ? i * axis.stride : axis.offsets[static_cast<std::size_t>(i)];
}

/// A place along all axes but the innermost: the sum of their offsets, and how many of them are outside.
class Place {
 public:
  Place(const std::vector<Axis>& axes, std::size_t count, std::int64_t index) : axes_(axes), at_(count) {
    for (std::size_t axis = count; axis-- > 0;) {
      at_[axis] = index % axes[axis].extent;
      index /= axes[axis].extent;
      add(axis);
    }
  }

  void next() {
    for (std::size_t axis = at_.size(); axis-- > 0;) {
      remove(axis);
      const bool wraps = ++at_[axis] == axes_[axis].extent;
      if (wraps) at_[axis] = 0;
      add(axis);
      if (!wraps) return;
    }
  }

  bool outside() const { return outside_ != 0; }
  std::int64_t offset() const { return offset_; }
  std::int64_t at(std::size_t axis) const { return at_[axis]; }

 private:
  void add(std::size_t axis) { change(axis, 1); }
  void remove(std::size_t axis) { change(axis, -1); }
  void change(std::size_t axis, std::int64_t sign) {
    const std::int64_t offset = offset_of(axes_[axis], at_[axis]);
    const bool out = !axes_[axis].offsets.empty() && offset < 0;
    if (out) outside_ += sign;
    if (!out) offset_ += sign * offset;
  }

  const std::vector<Axis>& axes_;
  std::vector<std::int64_t> at_;
  std::int64_t offset_ = 0, outside_ = 0;
};

/// Elements in other places.
class Move {
 public:
  Move(const detail::MovePlan& plan, std::size_t element_size);

  void operator()(const Tensor& input, Tensor& output, ThreadPool& pool) const;

 private:
  /// Elements of the innermost axis that are alike: outside, or `step` apart from `offset` on.
  struct Run {
    std::int64_t begin, end;
    std::int64_t offset, step;
    bool outside;
  };

  void join_short_axes();
  void find_runs();
  void row(const std::byte* from, std::int64_t begin, std::int64_t end, std::byte* to) const;
  void turn(const std::byte* from, std::byte* to, ThreadPool& pool) const;

  detail::MovePlan plan_;
  std::size_t size_;
  /// An axis of runs that lie side by side in both arrays, and elements from one to the next in either.
  struct Apart {
    std::int64_t extent, from, to;
  };
  void copy_runs(const std::byte* from, std::byte* to, ThreadPool& pool) const;

  std::vector<Run> runs_;     // of the innermost axis
  std::vector<Apart> apart_;  // the axes around a run, if that is all there is, in the order in which they are read
  int turned_ = -1;           // an outer axis along which input elements are neighbours, where the innermost's are not
};

Move::Move(const detail::MovePlan& plan, std::size_t element_size) : plan_(plan), size_(element_size) {
  join_short_axes();
  find_runs();
  if (plan_.outside || plan_.axes.back().stride != 1 || !std::ranges::all_of(plan_.axes, has_stride)) return;
  std::int64_t pitch = 1;
  for (std::size_t axis = plan_.axes.size(); axis-- > 0; pitch *= plan_.axes[axis].extent) {
    const Axis& a = plan_.axes[axis];
    if (axis + 1 < plan_.axes.size()) apart_.push_back({a.extent, a.stride, pitch});
  }
  std::ranges::stable_sort(apart_, {}, [](const Apart& axis) { return std::abs(axis.from); });
}

void Move::copy_runs(const std::byte* from, std::byte* to, ThreadPool& pool) const {
  const auto size = static_cast<std::int64_t>(size_), width = plan_.axes.back().extent;
  const std::int64_t steps = apart_[0].extent, runs = plan_.count / width,
                     each = std::max<std::int64_t>(1, chunk / width);
  pool.parallel_for(detail::ceil_div(runs, each), [&](std::int64_t task, int) {
    for (std::int64_t run = task * each, end = std::min(runs, run + each); run < end;) {
      std::int64_t i = run % steps, source = plan_.base, target = 0, left = run;
      for (const Apart& axis : apart_) {
        source += left % axis.extent * axis.from, target += left % axis.extent * axis.to;
        left /= axis.extent;
      }
      for (; i < steps && run < end; ++i, ++run, source += apart_[0].from, target += apart_[0].to) {
        std::memcpy(to + target * size, from + source * size, static_cast<std::size_t>(width * size));
      }
    }
  });
}

/// A short innermost axis and the one around it are one with a table: the channels of a pixel that are shuffled.
void Move::join_short_axes() {
  constexpr std::int64_t longest_table = 4096;
  while (plan_.axes.size() > 1) {
    const Axis &inner = plan_.axes.back(), &outer = plan_.axes[plan_.axes.size() - 2];
    if (inner.extent >= side || inner.extent * outer.extent > longest_table) return;
    Axis joined = {.extent = inner.extent * outer.extent};
    for (std::int64_t i = 0; i < joined.extent; ++i) {
      const std::int64_t a = offset_of(outer, i / inner.extent), b = offset_of(inner, i % inner.extent);
      const bool outside = (!outer.offsets.empty() && a < 0) || (!inner.offsets.empty() && b < 0);
      joined.offsets.push_back(outside ? -1 : a + b);
    }
    // A table has no place for what is before the beginning, as a flipped axis has.
    const auto before = [](std::int64_t offset) { return offset < -1; };
    const bool flipped = (inner.offsets.empty() && inner.stride < 0) || (outer.offsets.empty() && outer.stride < 0);
    if (flipped || std::ranges::any_of(joined.offsets, before)) return;
    plan_.axes.pop_back();
    plan_.axes.back() = std::move(joined);
  }
}

void Move::find_runs() {
  const Axis& inner = plan_.axes.back();
  if (inner.offsets.empty()) {
    runs_ = {{0, inner.extent, 0, inner.stride, false}};
    if (inner.stride == 0 || inner.stride == 1) return;
    if (!std::ranges::all_of(plan_.axes, has_stride)) return;
    for (std::size_t axis = 0; axis + 1 < plan_.axes.size(); ++axis) {
      const Axis& outer = plan_.axes[axis];
      if (outer.stride == 1 && outer.extent >= side / 4) turned_ = static_cast<int>(axis);
    }
    return;
  }
  const std::vector<std::int64_t>& offsets = inner.offsets;
  for (std::int64_t begin = 0; begin < inner.extent;) {
    const auto at = [&](std::int64_t i) { return offsets[static_cast<std::size_t>(i)]; };
    Run run = {begin, begin + 1, at(begin), 1, at(begin) < 0};
    if (run.end < inner.extent && !run.outside && at(run.end) >= 0) run.step = at(run.end) - at(begin);
    while (run.end < inner.extent &&
           (run.outside ? at(run.end) < 0 : at(run.end) >= 0 && at(run.end) - at(run.end - 1) == run.step)) {
      ++run.end;
    }
    begin = run.end;
    runs_.push_back(run);
  }
  if (static_cast<std::int64_t>(runs_.size()) * shortest_run > inner.extent) runs_.clear();
}

/// Elements [begin, end) of the innermost axis. Runs stand in order.
void Move::row(const std::byte* from, std::int64_t begin, std::int64_t end, std::byte* to) const {
  const Axis& inner = plan_.axes.back();
  if (runs_.empty()) return gather(from, inner.offsets.data() + begin, end - begin, size_, plan_.fill, to);
  auto run = std::ranges::upper_bound(runs_, begin, {}, &Run::end);
  for (; begin < end; ++run) {
    const std::int64_t count = std::min(end, run->end) - begin;
    if (run->outside) {
      gather(reinterpret_cast<const std::byte*>(&plan_.fill), 0, count, size_, to);
    } else {
      const std::int64_t offset = run->offset + (begin - run->begin) * run->step;
      gather(from + offset * static_cast<std::int64_t>(size_), run->step, count, size_, to);
    }
    to += static_cast<std::size_t>(count) * size_;
    begin += count;
  }
}

/// Where axes are swapped: `side` neighbours of the input at a time, along the whole of the innermost axis, to as many
/// rows of the output. Each line of the cache is read once, and written to once.
void Move::turn(const std::byte* from, std::byte* to, ThreadPool& pool) const {
  // The output's axes without the turned and the innermost one; `pitch` is from one of the turned axis to the next.
  const auto turned = static_cast<std::size_t>(turned_);
  const Axis inner = plan_.axes.back();
  std::int64_t pitch = 1;
  for (std::size_t axis = turned + 1; axis < plan_.axes.size(); ++axis) pitch *= plan_.axes[axis].extent;
  std::vector<Axis> others = plan_.axes;
  const auto size = static_cast<std::int64_t>(size_);
  const std::int64_t step = std::max({side, 64 / size, 2048 / inner.extent / side * side});  // a cache line
  others[turned] = {.extent = detail::ceil_div(plan_.axes[turned].extent, step), .stride = step};
  const std::size_t places = others.size() - 1;
  const std::int64_t tasks = plan_.count / plan_.axes[turned].extent / inner.extent * others[turned].extent;
  pool.parallel_for(tasks, [&](std::int64_t task, int) {
    const Place place(others, places, task);
    std::int64_t target = 0;  // of the first element in the output
    for (std::size_t axis = 0; axis < places; ++axis) {
      target = target * plan_.axes[axis].extent + place.at(axis) * (axis == turned ? step : 1);
    }
    target *= inner.extent;
    const std::int64_t width = std::min(step, plan_.axes[turned].extent - place.at(turned) * step);
    // Of so many input lines at a time that they stay in the L1 cache until the last of their elements is taken.
    constexpr std::int64_t lines = 128;
    for (std::int64_t i = 0; i < inner.extent; i += lines) {
      cpu::turn(from + (plan_.base + place.offset() + i * inner.stride) * size, inner.stride,
                std::min(lines, inner.extent - i), width, to + (target + i) * size, pitch, size_);
    }
  });
}

void Move::operator()(const Tensor& input, Tensor& output, ThreadPool& pool) const {
  const auto* from = static_cast<const std::byte*>(input.raw());
  auto* to = static_cast<std::byte*>(output.raw());
  if (plan_.count == 0) return;
  if (turned_ >= 0 && !plan_.outside) return turn(from, to, pool);
  if (!apart_.empty()) return copy_runs(from, to, pool);
  const std::int64_t width = plan_.axes.back().extent, size = static_cast<std::int64_t>(size_);
  pool.parallel_for(detail::ceil_div(plan_.count, chunk), [&](std::int64_t task, int) {
    const std::int64_t end = std::min(plan_.count, (task + 1) * chunk);
    std::int64_t first = task * chunk, column = first % width;
    for (Place place(plan_.axes, plan_.axes.size() - 1, first / width); first < end; place.next()) {
      const std::int64_t count = std::min(end - first, width - column);
      const std::byte* const source = from + (plan_.base + place.offset()) * size;
      if (place.outside() || plan_.outside) {
        gather(reinterpret_cast<const std::byte*>(&plan_.fill), 0, count, size_, to + first * size);
      } else {
        row(source, column, column + count, to + first * size);
      }
      first += count, column = 0;
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_move(const MoveProblem& problem, const Preparation& p) {
  const DType dtype = p.input().format.dtype;
  MoveProblem filled = problem;
  if (p.has_codes()) filled.fill = detail::code_of(static_cast<float>(problem.fill), p.input().quantization, dtype);
  return make_operator("copies", [move = Move(detail::move_plan(filled, p), size_of(dtype))](
                                     Inputs inputs, Outputs outputs, const Execution& execution) {
    move(inputs[0], outputs[0], *execution.pool);
  });
}

}  // namespace lamina::cpu
