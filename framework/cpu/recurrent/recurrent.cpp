// All steps of all images: threads take images and directions, each with all steps, or where these are fewer than
// threads and steps are long, units of each step. h of a step is read where the one before wrote it, and c stays in its
// place in the output, so there is no other memory.

#include "lamina/cpu/recurrent/recurrent.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/base/thread_pool.h"
#include "lamina/kernel/kernel.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/constants.h"

namespace lamina {
namespace cpu {
namespace {

using namespace tables;
using detail::ceil_div;

// A step of fewer products is not worth sharing out: threads would wait for each other longer than they compute.
constexpr std::int64_t shared_products = std::int64_t{1} << 17;

/// Codes of their own range, as DynamicQuantizeLinear makes them, less their zero point. Returns their scale.
float to_codes(const float* h, std::int64_t count, float* codes) {
  float low = 0, high = 0;
  for (std::int64_t i = 0; i < count; ++i) low = std::min(low, h[i]), high = std::max(high, h[i]);
  const float scale = high == low ? 1 : (high - low) / 255, zero = std::nearbyint(-low / scale);
  for (std::int64_t i = 0; i < count; ++i)
    codes[i] = std::clamp(std::nearbyint(h[i] / scale) + zero, 0.0f, 255.0f) - zero;
  return scale;
}

/// Whether weights are kept in bf16, which has all whole numbers up to 256.
bool narrow(const RecurrentProblem& problem, const Preparation& p) {
  return p.precision == Precision::bf16 || problem.scale.defined();
}

class Recurrence {
 public:
  Recurrence(const RecurrentProblem& problem, const Preparation& p)
      : kernel_(best_kernel(recurrent_kernels(), p.device)),
        problem_(problem),
        steps_(p.input().shape[0]),
        images_(p.input().shape[1]),
        blocks_(ceil_div<std::int64_t>(problem.hidden, kernel_.lanes)),
        zeros_(detail::constant(std::vector<float>(static_cast<std::size_t>(problem.hidden)))),
        weights_(detail::weights_by_blocks(problem, kernel_.lanes, narrow(problem, p) ? DType::bf16 : DType::f32)) {
    problem_.weight = {};  // not to be there twice
    rows_ = std::clamp<std::int64_t>(images_ * problem.directions / p.threads, 1, RecurrentKernel::most_rows);
    chunks_ = ceil_div(images_, rows_);
    const std::int64_t products = problem.gates() * problem.hidden * problem.hidden;
    if (tasks() > 0 && products >= shared_products)
      parts_ = std::min(blocks_, ceil_div<std::int64_t>(p.threads, tasks()));
  }

  std::string description() const {
    return detail::concat(problem_.scale.defined() ? "codes in " : "", weights_.dtype(), " weights, ",
                          parts_ > 1 ? "units shared out, " : "", name(kernel_.set));
  }

  /// Of codes, where each thread has those of its rows.
  std::size_t workspace(int threads) const {
    if (!problem_.scale.defined()) return 0;
    return static_cast<std::size_t>(threads * RecurrentKernel::most_rows * problem_.hidden) * sizeof(float);
  }

  void operator()(Inputs inputs, Outputs outputs, const Execution& execution) const {
    Run run = {.x = floats(inputs[0]), .y = floats(outputs[0]), .codes = static_cast<float*>(execution.workspace)};
    if (problem_.initial) run.h = floats(inputs[1]);
    if (problem_.initial && is_lstm()) run.c = floats(inputs[2]);
    if (problem_.lengths) run.lengths = static_cast<const std::int32_t*>(inputs.back().raw());
    for (std::int64_t image = 0; image < images_; ++image) {
      const std::int64_t length = length_of(run, image);
      if (length < 0 || length > steps_)
        detail::fail("a sequence of length ", length, ": expected 0 to ", steps_, ", as many as there are steps");
    }
    const auto walk = [&](const auto& each) {
      for (std::int64_t step = 0; step < steps_; ++step) {
        for (int phase = 0; phase < problem_.phases(); ++phase) each(step, phase);
      }
    };
    if (parts_ == 1) {
      execution.pool->parallel_for(tasks(), [&](std::int64_t task, int worker) {
        walk([&](std::int64_t step, int phase) { take(run, task, step, phase, 0, worker); });
      });
    } else {
      walk([&](std::int64_t step, int phase) {
        execution.pool->parallel_for(tasks() * parts_, [&](std::int64_t item, int worker) {
          take(run, item / parts_, step, phase, item % parts_, worker);
        });
      });
    }
    for (std::int64_t image = 0; image < images_; ++image) {
      for (int direction = 0; direction < problem_.directions; ++direction) end(run, image, direction);
    }
  }

 private:
  struct Run {
    const float *x = nullptr, *h = nullptr, *c = nullptr;
    const std::int32_t* lengths = nullptr;
    float *y = nullptr, *codes = nullptr;
  };

  bool is_lstm() const { return problem_.cell == Cell::lstm; }
  std::int64_t tasks() const { return chunks_ * problem_.directions; }
  std::int64_t length_of(const Run& run, std::int64_t image) const {
    return run.lengths == nullptr ? steps_ : run.lengths[image];
  }
  /// Where in a state, or in a row of the output, an image's units in a direction are.
  std::int64_t place(std::int64_t row, std::int64_t image, int direction) const {
    return ((row * images_ + image) * problem_.directions + direction) * problem_.hidden;
  }
  /// Which row of the output h is in behind so many steps of an image, 1 or more.
  std::int64_t row_behind(const Run& run, std::int64_t steps, std::int64_t image, int direction) const {
    return problem_.backwards(direction) ? length_of(run, image) - steps : steps - 1;
  }

  void take(const Run& run, std::int64_t task, std::int64_t step, int phase, std::int64_t part, int worker) const {
    StepRow rows[RecurrentKernel::most_rows];
    std::size_t count = 0;
    const auto direction = static_cast<int>(task / chunks_);
    const std::int64_t first = task % chunks_ * rows_;
    for (std::int64_t image = first; image < std::min(images_, first + rows_); ++image) {
      if (step >= length_of(run, image)) continue;
      const std::int64_t now = place(row_behind(run, step + 1, image, direction), image, direction);
      const std::int64_t given = place(0, image, direction);
      StepRow& row = rows[count++];
      row = {.x = run.x + now * problem_.gates(),
             .h = run.h == nullptr ? floats(zeros_) : run.h + given,
             .c = run.c == nullptr ? floats(zeros_) : run.c + given,
             .y = run.y + now,
             .more = run.y + place(steps_ + (is_lstm() ? 1 : 0), image, direction)};
      if (step == 0) continue;
      row.h = run.y + place(row_behind(run, step, image, direction), image, direction);
      row.c = row.more;
    }
    if (count == 0) return;
    for (std::size_t i = 0; i < count && problem_.scale.defined(); ++i) {
      const std::int64_t row = worker * RecurrentKernel::most_rows + static_cast<std::int64_t>(i);
      float* const codes = run.codes + row * problem_.hidden;
      rows[i].scale = to_codes(rows[i].h, problem_.hidden, codes);
      rows[i].h = codes;
    }
    kernel_.step(problem_, direction, phase, weights_, {rows, count}, part * blocks_ / parts_,
                 (part + 1) * blocks_ / parts_, step % 2 != 0);
  }

  /// Zeros behind the last step, and the states.
  void end(const Run& run, std::int64_t image, int direction) const {
    const std::int64_t length = length_of(run, image);
    const auto put = [&](const float* from, std::int64_t row) {
      std::copy_n(from, problem_.hidden, run.y + place(row, image, direction));
    };
    for (std::int64_t row = length; row < steps_ + (length == 0 && is_lstm() ? 2 : 0); ++row) put(floats(zeros_), row);
    put(length == 0 ? floats(zeros_) : run.y + place(row_behind(run, length, image, direction), image, direction),
        steps_);
  }

  const RecurrentKernel& kernel_;
  RecurrentProblem problem_;
  std::int64_t steps_, images_, blocks_;
  Tensor zeros_, weights_;
  std::int64_t rows_ = 1, chunks_ = 1;  // images of a task, tasks of a direction
  std::int64_t parts_ = 1;              // of a step
};

bool takes(const RecurrentProblem& problem, const Preparation& p) {
  return detail::is_recurrence(problem, p) && p.input().format.dtype == DType::f32;
}

std::unique_ptr<Operator> prepare(const RecurrentProblem& problem, const Preparation& p) {
  Recurrence recurrence(problem, p);
  const std::string what = recurrence.description();
  const std::size_t workspace = recurrence.workspace(p.threads);
  return make_operator(what, {.workspace = workspace}, std::move(recurrence));
}

constexpr Kernel<RecurrentProblem> table[] = {{"steps", takes, prepare}};

}  // namespace
}  // namespace cpu

template <>
std::span<const Kernel<RecurrentProblem>> Kernels<RecurrentProblem>::cpu() {
  return cpu::table;
}

}  // namespace lamina
