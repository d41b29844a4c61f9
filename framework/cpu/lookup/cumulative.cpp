#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/kernel/make_operator.h"

namespace lamina::cpu {
namespace {

using namespace tables;
using detail::LineExtents;

constexpr std::int64_t columns = 2048;  // neighbours along `inner` at most: each line of them is on another page

template <class T, class A>
void scan(const CumulativeProblem& problem, const LineExtents& e, const T* input, T* output, ThreadPool& pool) {
  const std::int64_t share = e.outer * e.inner / (pool.threads() > 1 ? 4 * pool.threads() : 1);
  const std::int64_t width = std::clamp<std::int64_t>(share, 64, columns), across = detail::ceil_div(e.inner, width);
  const bool product = problem.product, exclusive = problem.exclusive;  // which no store changes
  pool.parallel_for(e.outer * across, [&](std::int64_t item, int) {
    const std::int64_t first = item % across * width, count = std::min(width, e.inner - first);
    const std::int64_t base = item / across * e.extent * e.inner + first;
    A running[columns];
    std::fill_n(running, count, static_cast<A>(product ? 1 : 0));
    for (std::int64_t i = 0; i < e.extent; ++i) {
      const std::int64_t at = base + (problem.reverse ? e.extent - 1 - i : i) * e.inner;
      for (std::int64_t c = 0; c < count; ++c) {
        const A value = static_cast<A>(input[at + c]), before = running[c];
        running[c] = product ? before * value : before + value;
        output[at + c] = static_cast<T>(exclusive ? before : running[c]);
      }
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_cumulative(const CumulativeProblem& problem, const Preparation& p) {
  return make_operator("in order", [problem, e = detail::line_extents(p.input().shape, problem.dim)](
                                       Inputs inputs, Outputs outputs, const Execution& execution) {
    const auto as = [&]<class T, class A>(T, A) {
      scan<T, A>(problem, e, static_cast<const T*>(inputs[0].raw()), static_cast<T*>(outputs[0].raw()),
                 *execution.pool);
    };
    switch (inputs[0].dtype()) {
      case DType::f64: return as(double{}, double{});
      case DType::i32: return as(std::int32_t{}, std::uint32_t{});
      case DType::i64: return as(std::int64_t{}, std::uint64_t{});
      default: return as(float{}, double{});
    }
  });
}

}  // namespace lamina::cpu
