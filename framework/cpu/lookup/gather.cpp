#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/cpu/lookup/index.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/words.h"

namespace lamina::cpu {
namespace {

using namespace tables;
using detail::IndexExtents;

constexpr std::int64_t piece = 4096;  // elements of an item of work

template <class Index>
void slices(const IndexExtents& e, std::size_t size, const std::byte* data, const Index* indices, std::byte* output,
            ThreadPool& pool) {
  if (e.inner == 0) return;
  const std::size_t bytes = static_cast<std::size_t>(e.inner) * size;
  const std::int64_t count = e.outer * e.places, each = std::max<std::int64_t>(1, piece / e.inner);
  // take reads the same indices for each outer slice, nd has some for each.
  const bool shared = e.kind == GatherKind::take;
  pool.parallel_for(detail::ceil_div(count, each), [&](std::int64_t item, int) {
    for (std::int64_t i = item * each; i < std::min(count, (item + 1) * each); ++i) {
      const std::int64_t batch = i / e.places, index = shared ? i % e.places : i;
      const std::int64_t slice = slice_of(e, indices + index * e.depth);
      std::memcpy(output + static_cast<std::size_t>(i) * bytes,
                  data + static_cast<std::size_t>(batch * e.reach + slice) * bytes, bytes);
    }
  });
}

template <class Index, class T>
void elements(const IndexExtents& e, const T* data, const Index* indices, T* output, ThreadPool& pool) {
  std::int64_t count = 1;
  for (int d = 0; d < e.rank; ++d) count *= e.index_extents[static_cast<std::size_t>(d)];
  pool.parallel_for(detail::ceil_div(count, piece), [&](std::int64_t item, int) {
    for_each_place(e, indices, item * piece, std::min(count, (item + 1) * piece),
                   [&](std::int64_t i, std::int64_t place) { output[i] = data[place]; });
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_gather(const GatherProblem& problem, const Preparation& p) {
  return make_operator("one by one", [e = detail::gather_extents(problem, p)](Inputs inputs, Outputs outputs,
                                                                              const Execution& execution) {
    const void* const data = inputs[0].raw();
    void* const output = outputs[0].raw();
    with_index_type(inputs[1].dtype(), inputs[1].raw(), [&](const auto* at) {
      const std::size_t size = size_of(inputs[0].dtype());
      if (e.kind != GatherKind::elements) {
        return slices(e, size, static_cast<const std::byte*>(data), at, static_cast<std::byte*>(output),
                      *execution.pool);
      }
      detail::with_word(size, [&]<class T>(T) {
        elements(e, static_cast<const T*>(data), at, static_cast<T*>(output), *execution.pool);
      });
    });
  });
}

}  // namespace lamina::cpu
