// Reductions, in one of two ways. Rows: the elements of one output after the other, in blocks that are converted and
// folded into a few lanes side by side. Columns, where neighbours in memory belong to different outputs: a stretch of
// outputs at a time, an element of each of them after the other.

#include "lamina/cpu/array/array.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/arithmetic.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina::cpu {
namespace {

using namespace tables;

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t chunk = 16384;
constexpr std::int64_t lanes = 16;

/// Calls f with the function that two partial results are put together by.
template <class T, class F>
void with_fold(Reduction kind, F f) {
  switch (kind) {
    case Reduction::max: return f([](T a, T b) { return greater_of(a, b); });
    case Reduction::min: return f([](T a, T b) { return lesser_of(a, b); });
    case Reduction::prod: return f([](T a, T b) { return wrapped_product(a, b); });
    default: return f([](T a, T b) { return wrapped_sum(a, b); });
  }
}

/// What is folded of each element; of log_sum_exp the second time, when the largest is known.
template <class T>
void transform(Reduction kind, T* values, std::int64_t count) {
  if (kind == Reduction::l1) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T negative = static_cast<T>(T{0} - values[i]);
      values[i] = values[i] < T{0} ? negative : values[i];
    }
  } else if (kind == Reduction::l2 || kind == Reduction::sum_square) {
    for (std::int64_t i = 0; i < count; ++i) values[i] = wrapped_product(values[i], values[i]);
  }
}

template <class T>
T identity_of(Reduction kind, DType input) {
  switch (kind) {
    case Reduction::max: return load_one<T>(detail::least_of(input));
    case Reduction::min: return load_one<T>(detail::max_of(input));
    case Reduction::prod: return T{1};
    default: return T{0};
  }
}

/// Whether x is to be found rather than what was found before; NaN rather than any number.
template <class T>
bool is_better(const ReduceProblem& problem, T x, T best) {
  if (x != x || best != best) return x != x && (problem.last || best == best);
  const bool more = problem.kind == Reduction::arg_max ? x > best : x < best;
  return more || (problem.last && x == best);
}

class Reduce {
 public:
  Reduce(const ReduceProblem& problem, const Preparation& preparation);
  void operator()(const Tensor& input, Tensor& output, ThreadPool& pool) const;

 private:
  template <class T>
  class Worker;

  template <class T>
  void run(const Tensor& input, Tensor& output, ThreadPool& pool) const;

  ReduceProblem problem_;
  detail::ReducePlan plan_;
  DType compute_;
  bool columns_ = false;  // neighbours in memory belong to different outputs
};

Reduce::Reduce(const ReduceProblem& problem, const Preparation& p)
    : problem_(problem),
      plan_(detail::reduce_plan(problem, p)),
      compute_(detail::reduction_type(problem.kind, p.input().format.dtype)),
      columns_(plan_.kept.back().strides[0] == 1 && plan_.reduced.back().strides[0] != 1 && plan_.extent > 1) {}

/// One thread's part of a run.
template <class T>
class Reduce::Worker {
 public:
  Worker(const Reduce& reduce, const Tensor& input, Tensor& output)
      : problem_(reduce.problem_), plan_(reduce.plan_), input_(input), output_(output) {}

  /// Outputs [first, first + count), whose elements lie in rows.
  void rows(std::int64_t first, std::int64_t count) {
    for (std::int64_t o = first; o < first + count; o += stretch) {
      const std::int64_t here = std::min(stretch, first + count - o);
      for (std::int64_t i = 0; i < here; ++i) one_row(offset_of(plan_.kept, o + i), i);
      finish(o, here);
    }
  }

  /// Outputs [first, first + count), neighbours along the innermost kept axis, count <= stretch.
  void columns(std::int64_t first, std::int64_t count) {
    const std::int64_t base = offset_of(plan_.kept, first);
    if (problem_.kind == Reduction::log_sum_exp) {
      each_line(Reduction::max, base, count, [](T*) {});
      std::copy_n(value_, count, largest_);
      each_line(Reduction::sum, base, count, [&](T* line) {
        for (std::int64_t j = 0; j < count; ++j) line[j] = shifted_exp(line[j], largest_[j]);
      });
      for (std::int64_t j = 0; j < count; ++j) value_[j] = log_of(value_[j], largest_[j]);
    } else if (detail::finds_place(problem_.kind)) {
      std::fill_n(place_, count, 0);
      for (std::int64_t r = 0; r < plan_.extent; ++r) {
        read(base + offset_of(plan_.reduced, r), 1, count);
        for (std::int64_t j = 0; j < count; ++j) {
          if (r == 0 || is_better(problem_, block_[j], value_[j])) value_[j] = block_[j], place_[j] = r;
        }
      }
    } else {
      each_line(problem_.kind, base, count, [&](T* line) { transform(problem_.kind, line, count); });
    }
    finish(first, count);
  }

  static constexpr std::int64_t stretch = block<T> / 2;

 private:
  static std::int64_t offset_of(const std::vector<detail::WalkAxis>& axes, std::int64_t index) {
    std::int64_t offset = 0;
    for (std::size_t axis = axes.size(); axis-- > 0; index /= axes[axis].extent) {
      offset += index % axes[axis].extent * axes[axis].strides[0];
    }
    return offset;
  }

  static T shifted_exp(T x, T largest) {
    if constexpr (std::is_floating_point_v<T>) return std::exp(x - largest);
    return x - largest;  // never: whole numbers are made double
  }
  /// An infinite or NaN largest is the result.
  static T log_of(T sum, T largest) {
    if constexpr (std::is_floating_point_v<T>) return std::isfinite(largest) ? largest + std::log(sum) : largest;
    return sum;
  }

  /// Elements `stride` apart from `offset` on, as T, into the block.
  void read(std::int64_t offset, std::int64_t stride, std::int64_t count) {
    const std::size_t size = size_of(input_.dtype());
    const std::byte* from = static_cast<const std::byte*>(input_.raw()) + offset * static_cast<std::int64_t>(size);
    if (stride != 1) {
      gather(from, stride, count, size, raw_);
      from = raw_;
    }
    load(input_.dtype(), from, block_, count);
  }

  /// Calls f(values, count, index of the first) for the elements of a row, as T, in blocks.
  template <class F>
  void each_block(std::int64_t base, F f) {
    const std::size_t size = size_of(input_.dtype());
    const std::byte* from = static_cast<const std::byte*>(input_.raw()) + base * static_cast<std::int64_t>(size);
    const bool whole = plan_.reduced.size() == 1 && plan_.reduced[0].strides[0] == 1;
    for (std::int64_t first = 0; first < plan_.extent; first += block<T>) {
      const std::int64_t count = std::min(block<T>, plan_.extent - first);
      if (!whole) gather(plan_.reduced, 0, from, first, count, size, raw_);
      load(input_.dtype(), whole ? from + static_cast<std::size_t>(first) * size : raw_, block_, count);
      f(block_, count, first);
    }
  }

  template <class F>
  T folded_row(Reduction kind, std::int64_t base, F prepare) {
    T result = identity_of<T>(kind, input_.dtype());
    with_fold<T>(kind, [&](auto fold) {
      T lane[lanes];
      std::fill_n(lane, lanes, result);
      each_block(base, [&](T* values, std::int64_t count, std::int64_t) {
        prepare(values, count);
        std::int64_t i = 0;
        for (; i + lanes <= count; i += lanes) {
          for (std::int64_t l = 0; l < lanes; ++l) lane[l] = fold(lane[l], values[i + l]);
        }
        for (; i < count; ++i) lane[i % lanes] = fold(lane[i % lanes], values[i]);
      });
      for (const T& one : lane) result = fold(result, one);
    });
    return result;
  }

  void one_row(std::int64_t base, std::int64_t i) {
    if (problem_.kind == Reduction::log_sum_exp) {
      const T largest = folded_row(Reduction::max, base, [](T*, std::int64_t) {});
      const T sum = folded_row(Reduction::sum, base, [&](T* values, std::int64_t count) {
        for (std::int64_t j = 0; j < count; ++j) values[j] = shifted_exp(values[j], largest);
      });
      value_[i] = log_of(sum, largest);
    } else if (detail::finds_place(problem_.kind)) {
      T best{};
      place_[i] = 0;
      each_block(base, [&](const T* values, std::int64_t count, std::int64_t first) {
        if (first == 0) best = values[0];
        for (std::int64_t j = 0; j < count; ++j) {
          if (first + j > 0 && is_better(problem_, values[j], best)) best = values[j], place_[i] = first + j;
        }
      });
    } else {
      value_[i] = folded_row(problem_.kind, base,
                             [&](T* values, std::int64_t count) { transform(problem_.kind, values, count); });
    }
  }

  /// value_[j] = what is left of column j, every line of elements prepared before it is folded in.
  template <class F>
  void each_line(Reduction kind, std::int64_t base, std::int64_t count, F prepare) {
    std::fill_n(value_, count, identity_of<T>(kind, input_.dtype()));
    with_fold<T>(kind, [&](auto fold) {
      for (std::int64_t r = 0; r < plan_.extent; ++r) {
        read(base + offset_of(plan_.reduced, r), 1, count);
        prepare(block_);
        for (std::int64_t j = 0; j < count; ++j) value_[j] = fold(value_[j], block_[j]);
      }
    });
  }

  void finish(std::int64_t first, std::int64_t count) {
    std::byte* to = static_cast<std::byte*>(output_.raw());
    to += first * static_cast<std::int64_t>(size_of(output_.dtype()));
    if (detail::finds_place(problem_.kind)) return store(output_.dtype(), place_, to, count);
    for (std::int64_t i = 0; i < count; ++i) value_[i] = finished(value_[i]);
    store(output_.dtype(), value_, to, count);
  }
  T finished(T value) const {
    if constexpr (std::is_floating_point_v<T>) {
      switch (problem_.kind) {
        case Reduction::mean: return value / static_cast<T>(plan_.extent);
        case Reduction::l2: return std::sqrt(value);
        case Reduction::log_sum: return std::log(value);
        default: return value;
      }
    } else {
      if (problem_.kind != Reduction::mean) return value;
      return plan_.extent == 0 ? T{0} : value / static_cast<T>(plan_.extent);
    }
  }

  const ReduceProblem& problem_;
  const detail::ReducePlan& plan_;
  const Tensor& input_;
  Tensor& output_;
  T block_[block<T>];
  T value_[stretch], largest_[stretch];
  std::int64_t place_[stretch];
  alignas(8) std::byte raw_[block<T> * 8];
};

template <class T>
void Reduce::run(const Tensor& input, Tensor& output, ThreadPool& pool) const {
  if (columns_) {
    constexpr std::int64_t stretch = Worker<T>::stretch;
    const std::int64_t inner = plan_.kept.back().extent, pieces = detail::ceil_div(inner, stretch);
    pool.parallel_for(plan_.outputs / inner * pieces, [&](std::int64_t task, int) {
      const std::int64_t first = task % pieces * stretch;
      Worker<T>(*this, input, output).columns(task / pieces * inner + first, std::min(stretch, inner - first));
    });
    return;
  }
  const std::int64_t each = std::max<std::int64_t>(1, chunk / std::max<std::int64_t>(1, plan_.extent));
  pool.parallel_for(detail::ceil_div(plan_.outputs, each), [&](std::int64_t task, int) {
    Worker<T>(*this, input, output).rows(task * each, std::min(each, plan_.outputs - task * each));
  });
}

void Reduce::operator()(const Tensor& input, Tensor& output, ThreadPool& pool) const {
  if (plan_.outputs == 0) return;
  switch (compute_) {
    case DType::i64: return run<std::int64_t>(input, output, pool);
    case DType::u64: return run<std::uint64_t>(input, output, pool);
    default: return run<double>(input, output, pool);
  }
}

}  // namespace

std::unique_ptr<Operator> prepare_reduce(const ReduceProblem& problem, const Preparation& p) {
  return make_operator("blocks",
                       [reduce = Reduce(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
                         reduce(inputs[0], outputs[0], *execution.pool);
                       });
}

}  // namespace lamina::cpu
