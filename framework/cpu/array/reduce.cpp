// Reductions, in one of two ways. Rows: the elements of one output after the other, in runs where they lie or in blocks
// that are converted. Columns, where neighbours in memory belong to different outputs, or rows are short: a stretch of
// outputs at a time, an element of each of them after the other.

#include "lamina/cpu/array/array.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/cpu/array/blocks.h"
#include "lamina/cpu/array/fold_numbers.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/reduce_plan.h"

namespace lamina::cpu {
namespace {

using namespace tables;

// Elements of one task: long enough to hide the hand-out, short enough to balance.
constexpr std::int64_t chunk = 16384;
constexpr std::int64_t lanes = 16;

Fold fold_of(Reduction kind) {
  if (kind == Reduction::max || kind == Reduction::arg_max) return Fold::largest;
  if (kind == Reduction::min || kind == Reduction::arg_min) return Fold::least;
  if (kind == Reduction::l2 || kind == Reduction::sum_square) return Fold::squares;
  if (kind == Reduction::l1) return Fold::absolute;
  return kind == Reduction::prod ? Fold::product : Fold::sum;
}

/// What nothing is folded to.
template <class T>
T identity_of(Fold fold, DType input) {
  if (fold == Fold::largest) return load_one<T>(detail::least_of(input));
  if (fold == Fold::least) return load_one<T>(detail::max_of(input));
  return fold == Fold::product ? T{1} : T{0};
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
  const FoldKernel* kernel_;
  bool columns_ = false;  // an element of each of many outputs after the other
};

Reduce::Reduce(const ReduceProblem& problem, const Preparation& p)
    : problem_(problem),
      plan_(detail::reduce_plan(problem, p)),
      compute_(is_activation(p.input().format.dtype) && plan_.extent <= std::numeric_limits<std::int32_t>::max()
                   ? DType::f32
                   : detail::reduction_type(problem.kind, p.input().format.dtype)),
      kernel_(&best_kernel(fold_kernels(), p.device)),
      columns_(plan_.extent > 1 && ((plan_.kept.back().strides[0] == 1 && plan_.reduced.back().strides[0] != 1) ||
                                    (plan_.extent <= lanes && plan_.kept.back().extent > plan_.extent))) {}

/// One thread's part of a run.
template <class T>
class Reduce::Worker {
 public:
  Worker(const Reduce& reduce, const Tensor& input, Tensor& output)
      : kernel_(*reduce.kernel_), problem_(reduce.problem_), plan_(reduce.plan_), input_(input), output_(output) {}

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
    std::fill_n(below_, count, T{0});
    if (problem_.kind == Reduction::log_sum_exp) {
      each_line(Fold::largest, base, count);
      for (std::int64_t j = 0; j < count; ++j) below_[j] = static_cast<T>(value_[j]);
      each_line(Fold::powers, base, count);
      for (std::int64_t j = 0; j < count; ++j) value_[j] = log_of(value_[j], below_[j]);
    } else if (detail::finds_place(problem_.kind)) {
      find_places(base, count);
    } else {
      each_line(fold_of(problem_.kind), base, count);
    }
    finish(first, count);
  }

  static constexpr std::int64_t stretch = 512;

 private:
  using Place = std::conditional_t<std::is_same_v<T, float>, std::int32_t, std::int64_t>;
  static constexpr std::int64_t lines = 8;

  static std::int64_t offset_of(const std::vector<detail::WalkAxis>& axes, std::int64_t index) {
    if (axes.size() == 1) return index * axes[0].strides[0];  // divisions take long
    std::int64_t offset = 0;
    for (std::size_t axis = axes.size(); axis-- > 0; index /= axes[axis].extent) {
      offset += index % axes[axis].extent * axes[axis].strides[0];
    }
    return offset;
  }

  /// An infinite or NaN largest is the result.
  static Sum<T> log_of(Sum<T> sum, T largest) {
    const auto most = static_cast<double>(largest);
    return std::isfinite(most) ? static_cast<Sum<T>>(most + std::log(static_cast<double>(sum)))
                               : static_cast<Sum<T>>(largest);
  }

  const std::byte* at(std::int64_t element) const {
    return static_cast<const std::byte*>(input_.raw()) + element * static_cast<std::int64_t>(size_of(input_.dtype()));
  }

  /// Elements `stride` apart from `offset` on, as T: where they are, or in `space`.
  const T* read(std::int64_t offset, std::int64_t stride, std::int64_t count, T* space) {
    if (stride == 1) return converted(at(offset), count, space);
    gather(at(offset), stride, count, size_of(input_.dtype()), raw_);
    load(input_.dtype(), raw_, space, count);
    return space;
  }
  const T* converted(const std::byte* from, std::int64_t count, T* space) const {
    if (input_.dtype() == dtype_of<T>) return reinterpret_cast<const T*>(from);
    load(input_.dtype(), from, space, count);
    return space;
  }

  /// Calls f(values, count, index of the first) for the elements of a row, as T, in runs where they are or in blocks.
  template <class F>
  void each_block(std::int64_t base, F f) {
    const detail::WalkAxis& inner = plan_.reduced.back();
    const bool many = plan_.reduced.size() > 1, runs = inner.strides[0] == 1 && (!many || inner.extent >= 64);
    const std::int64_t most = runs && input_.dtype() == dtype_of<T> ? inner.extent : block<T>;
    for (std::int64_t first = 0, count; first < plan_.extent; first += count) {
      count = std::min(most, runs && many ? inner.extent - first % inner.extent : plan_.extent - first);
      if (runs) {
        f(converted(at(base + offset_of(plan_.reduced, first)), count, lines_[0]), count, first);
      } else {
        gather(plan_.reduced, 0, at(base), first, count, size_of(input_.dtype()), raw_);
        f(converted(raw_, count, lines_[0]), count, first);
      }
    }
  }

  Sum<T> folded_row(Fold fold, std::int64_t base, T below = T{0}) {
    auto result = identity_of<Sum<T>>(fold, input_.dtype());
    each_block(base, [&](const T* values, std::int64_t count, std::int64_t) {
      result = fold_row(kernel_, fold, values, count, result, below);
    });
    return result;
  }

  void one_row(std::int64_t base, std::int64_t i) {
    if (problem_.kind == Reduction::log_sum_exp) {
      const auto largest = static_cast<T>(folded_row(Fold::largest, base));
      value_[i] = log_of(folded_row(Fold::powers, base, largest), largest);
      return;
    }
    value_[i] = folded_row(fold_of(problem_.kind), base);
    if (!detail::finds_place(problem_.kind)) return;
    const auto best = static_cast<T>(value_[i]);
    place_[i] = -1;
    each_block(base, [&](const T* values, std::int64_t count, std::int64_t first) {
      constexpr std::int64_t some = 64;  // that are looked at without a branch
      for (std::int64_t j = 0; j < count && (place_[i] < 0 || problem_.last); j += some) {
        const std::int64_t end = std::min(count, j + some);
        int found = 0;
        for (std::int64_t k = j; k < end; ++k) found |= is_same(values[k], best);
        for (std::int64_t k = j; k < end && found != 0; ++k) {
          if (is_same(values[k], best) && (place_[i] < 0 || problem_.last)) place_[i] = static_cast<Place>(first + k);
        }
      }
    });
  }
  static bool is_same(T a, T b) { return (a == b) | ((a != a) & (b != b)); }

  /// value_[j] = what is left of column j.
  void each_line(Fold fold, std::int64_t base, std::int64_t count) {
    std::fill_n(value_, count, identity_of<Sum<T>>(fold, input_.dtype()));
    for (std::int64_t r = 0; r < plan_.extent; r += lines) {
      const T* from[lines];
      const auto some = static_cast<std::size_t>(std::min(lines, plan_.extent - r));
      for (std::size_t k = 0; k < some; ++k) from[k] = line(base, r + static_cast<std::int64_t>(k), count, lines_[k]);
      fold_columns<T>(kernel_, fold, {from, some}, count, value_, below_);
    }
  }
  const T* line(std::int64_t base, std::int64_t r, std::int64_t count, T* space) {
    return read(base + offset_of(plan_.reduced, r), plan_.kept.back().strides[0], count, space);
  }

  void find_places(std::int64_t base, std::int64_t count) {
    each_line(fold_of(problem_.kind), base, count);
    for (std::int64_t j = 0; j < count; ++j) below_[j] = static_cast<T>(value_[j]);
    for (std::int64_t i = 0; i < plan_.extent; ++i) {  // the one that is found stays
      const std::int64_t r = problem_.last ? i : plan_.extent - 1 - i;
      const T* const x = line(base, r, count, lines_[0]);
      for (std::int64_t j = 0; j < count; ++j) {
        place_[j] = is_same(x[j], below_[j]) ? static_cast<Place>(r) : place_[j];
      }
    }
  }

  void finish(std::int64_t first, std::int64_t count) {
    std::byte* to = static_cast<std::byte*>(output_.raw());
    to += first * static_cast<std::int64_t>(size_of(output_.dtype()));
    if (detail::finds_place(problem_.kind)) {
      std::copy_n(place_, count, reinterpret_cast<std::int64_t*>(to));
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) value_[i] = finished(value_[i]);
    store(output_.dtype(), value_, to, count);
  }
  Sum<T> finished(Sum<T> value) const {
    constexpr bool whole = std::is_integral_v<T>;
    if (problem_.kind == Reduction::mean)
      return whole && plan_.extent == 0 ? 0 : value / static_cast<Sum<T>>(plan_.extent);
    if (whole) return value;
    if (problem_.kind == Reduction::l2) return static_cast<Sum<T>>(std::sqrt(static_cast<double>(value)));
    return problem_.kind == Reduction::log_sum ? static_cast<Sum<T>>(std::log(static_cast<double>(value))) : value;
  }

  const FoldKernel& kernel_;
  const ReduceProblem& problem_;
  const detail::ReducePlan& plan_;
  const Tensor& input_;
  Tensor& output_;
  T lines_[lines][std::max(stretch, block<T>)];
  Sum<T> value_[stretch + FoldKernel::slack];
  T below_[stretch + FoldKernel::slack];
  Place place_[stretch];
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
    case DType::f32: return run<float>(input, output, pool);
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
