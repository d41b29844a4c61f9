// Elements at places that indices say. A thread owns one word of the output: of slices the largest word of at most 16
// bytes that divides them, so that neighbours read neighbours; else one element.
//
// Shared memory: none. Preconditions: none.

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/index.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::IndexExtents;

constexpr int threads = 256;

/// `words` of a slice.
template <class Word>
__global__ void __launch_bounds__(threads)
    gather_slices_kernel(const Word* __restrict__ data, const Indices indices, Word* __restrict__ output,
                         std::int64_t words, const __grid_constant__ IndexExtents e) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t count = e.outer * e.places * words, step = std::int64_t{gridDim.x} * threads;
#pragma unroll 1
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const std::int64_t which = i / words, word = i - which * words, batch = which / e.places;
    const std::int64_t index = e.kind == GatherKind::take ? which - batch * e.places : which;
    const std::int64_t slice = slice_of(e, indices, index * e.depth);
    output[i] = slice < 0 ? Word{} : data[(batch * e.reach + slice) * words + word];
  }
}

template <class Word>
__global__ void __launch_bounds__(threads)
    gather_elements_kernel(const Word* __restrict__ data, const Indices indices, Word* __restrict__ output,
                           std::int64_t count, const __grid_constant__ IndexExtents e) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
#pragma unroll 1
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step) {
    const std::int64_t place = indices.place(i, e.reach);
    std::int64_t rest = i, offset = place * e.data_strides[e.dim];
#pragma unroll 1
    for (int d = e.rank - 1; d >= 0; --d) {
      const std::int64_t next = rest / e.index_extents[d];
      if (d != e.dim) offset += (rest - next * e.index_extents[d]) * e.data_strides[d];
      rest = next;
    }
    output[i] = place < 0 ? Word{} : data[offset];
  }
}

std::size_t largest_word(std::size_t slice, const void* data, const void* output) {
  for (const std::size_t size : {16, 8, 4, 2}) {
    const auto fits = [&](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % size == 0; };
    if (slice % size == 0 && fits(data) && fits(output)) return size;
  }
  return 1;
}

}  // namespace

std::unique_ptr<Operator> prepare_gather(const GatherProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "a thread for each word",
      [e = detail::gather_extents(problem, p)](Inputs inputs, Outputs outputs, const Execution& execution) {
        const bool by_element = e.kind == GatherKind::elements;
        const std::size_t size = size_of(inputs[0].dtype()), slice = static_cast<std::size_t>(e.inner) * size;
        const Indices at(inputs[1].dtype(), inputs[1].raw(), execution.fault);
        with_word(by_element ? size : largest_word(slice, inputs[0].raw(), outputs[0].raw()), [&]<class Word>(Word) {
          const auto* from = elements<Word>(inputs[0]);
          auto* to = elements<Word>(outputs[0]);
          if (by_element) {
            const std::int64_t count = outputs[0].numel();
            launch_kernel(gather_elements_kernel<Word>, threads_for(count, threads), execution.stream, from, at, to,
                          count, e);
          } else {
            const auto words = static_cast<std::int64_t>(slice / sizeof(Word));
            launch_kernel(gather_slices_kernel<Word>, threads_for(e.outer * e.places * words, threads),
                          execution.stream, from, at, to, words, e);
          }
        });
      });
}

}  // namespace lamina::cuda
