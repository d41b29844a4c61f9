#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cpu/arithmetic.h"
#include "lamina/cpu/lookup/index.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/visit.h"

namespace lamina::cpu {
namespace {

using namespace tables;
using detail::IndexExtents;

template <class T>
T reduce(ScatterReduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, half>) {
    return to_half(reduce(reduction, to_float(a), to_float(b)));
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return to_bfloat16(reduce(reduction, to_float(a), to_float(b)));
  } else {
    switch (reduction) {
      case ScatterReduction::add: return wrapped_sum(a, b);
      case ScatterReduction::mul: return wrapped_product(a, b);
      case ScatterReduction::max: return greater_of(a, b);
      case ScatterReduction::min: return lesser_of(a, b);
      case ScatterReduction::none: break;
    }
    return b;
  }
}

template <class Index, class T>
void scatter_slices(const IndexExtents& e, ScatterReduction reduction, const Index* indices, const T* updates,
                    T* output, ThreadPool& pool) {
  // Threads share out the elements of slices, so that each sees the updates in their order.
  const std::int64_t width = std::max<std::int64_t>(64, detail::ceil_div<std::int64_t>(e.inner, pool.threads()));
  pool.parallel_for(detail::ceil_div(e.inner, width), [&](std::int64_t item, int) {
    const std::int64_t first = item * width, last = std::min(e.inner, first + width);
    for (std::int64_t u = 0; u < e.places; ++u) {
      const T* const from = updates + u * e.inner;
      T* const to = output + slice_of(e, indices + u * e.depth) * e.inner;
      if (reduction == ScatterReduction::none) {
        std::copy(from + first, from + last, to + first);
      } else {
        for (std::int64_t i = first; i < last; ++i) to[i] = reduce(reduction, to[i], from[i]);
      }
    }
  });
}

template <class Index, class T>
void scatter_elements(const IndexExtents& e, ScatterReduction reduction, const Index* indices, const T* updates,
                      T* output, ThreadPool& pool) {
  // Threads share out the coordinates before `dim`: updates that meet in one place have them in common.
  std::int64_t before = 1, after = 1;
  for (int d = 0; d < e.rank; ++d) (d < e.dim ? before : after) *= e.index_extents[static_cast<std::size_t>(d)];
  if (after == 0) return;
  pool.parallel_for(before, [&](std::int64_t item, int) {
    for_each_place(e, indices, item * after, (item + 1) * after, [&](std::int64_t i, std::int64_t place) {
      output[place] = reduce(reduction, output[place], updates[i]);
    });
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_scatter(const ScatterProblem& problem, const Preparation& p) {
  return make_operator("in order", [e = detail::scatter_extents(problem, p), reduction = problem.reduction](
                                       Inputs inputs, Outputs outputs, const Execution& execution) {
    const Tensor &data = inputs[0], &updates = inputs[2];
    void* const output = outputs[0].raw();
    if (data.numel() == 0) return;
    if (output != data.raw()) std::memcpy(output, data.raw(), data.bytes());
    with_index_type(inputs[1].dtype(), inputs[1].raw(), [&]<class Index>(const Index* at) {
      detail::visit(data.dtype(), [&]<class T>(std::type_identity<T>) {
        const auto run = e.kind == GatherKind::elements ? scatter_elements<Index, T> : scatter_slices<Index, T>;
        run(e, reduction, at, static_cast<const T*>(updates.raw()), static_cast<T*>(output), *execution.pool);
      });
    });
  });
}

}  // namespace lamina::cpu
