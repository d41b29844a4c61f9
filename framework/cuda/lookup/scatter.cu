// Updates put in at places that indices say, in their order, without atomic operations: sums of floats have the same
// bits every time. A thread owns one line of updates (along `dim`, or the same element of all slices) and of it the
// places that are `part` modulo `parts`, a power of two: it reads all indices of the line and takes those updates that
// are its own. Parts are what keeps a GPU busy where lines are few.
//
// Where nothing is reduced and lines would be in parts, a thread owns an update: each element, or slice, that is
// written first learns in the workspace which update is its last, whose thread then puts it in.
//
// Shared memory: none. Preconditions: the output holds the data.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/index.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/tensor/visit.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::IndexExtents;

constexpr int threads = 128;

template <class T>
__device__ inline T reduce(ScatterReduction reduction, T a, T b) {
  if constexpr (std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>) {
    return from_f32<T>(reduce(reduction, to_f32(a), to_f32(b)));
  } else if constexpr (std::is_same_v<T, bool>) {
    const bool either = reduction == ScatterReduction::add || reduction == ScatterReduction::max;
    return either ? a || b : a && b;
  } else {
    // Whole numbers wrap: as unsigned ones of 64 bits.
    using Wide = std::conditional_t<std::is_integral_v<T>, unsigned long long, T>;
    switch (reduction) {
      case ScatterReduction::add: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
      case ScatterReduction::mul: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
      case ScatterReduction::max: return a > b || a != a ? a : b;
      case ScatterReduction::min: return a < b || a != a ? a : b;
      case ScatterReduction::none: break;
    }
    return b;
  }
}

/// Of what lines are made, and how many threads share one.
struct Lines {
  std::int64_t count = 1, updates = 1, parts = 1;
  std::int64_t index_step = 1, update_step = 1, data_step = 1;  // from one update to the next, from place to place
};

template <bool none, class T>
__global__ void __launch_bounds__(threads)
    scatter_kernel(const Indices indices, const T* __restrict__ updates, T* output, ScatterReduction reduction,
                   const Lines lines, const __grid_constant__ IndexExtents e) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
#pragma unroll 1
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < lines.count * lines.parts; i += step) {
    const std::int64_t part = i / lines.count, line = i - part * lines.count;
    std::int64_t index_at = 0, update_at = line, data_at = line;
    if (e.kind == GatherKind::elements) {
      std::int64_t rest = line, index_stride = 1;
      data_at = 0;
#pragma unroll 1
      for (int d = e.rank - 1; d >= 0; index_stride *= e.index_extents[d--]) {
        if (d == e.dim) continue;
        const std::int64_t next = rest / e.index_extents[d], place = rest - next * e.index_extents[d];
        index_at += place * index_stride;
        data_at += place * e.data_strides[d];
        rest = next;
      }
      update_at = index_at;
    }
#pragma unroll 1
    for (std::int64_t u = 0; u < lines.updates; ++u) {
      const std::int64_t place = slice_of(e, indices, index_at + u * lines.index_step);
      if (place < 0 || (place & (lines.parts - 1)) != part) continue;
      T& to = output[data_at + place * lines.data_step];
      const T update = updates[update_at + u * lines.update_step];
      if constexpr (none) {
        to = update;
      } else {
        to = reduce(reduction, to, update);
      }
    }
  }
}

Lines lines_of(const IndexExtents& e) {
  Lines lines;
  if (e.kind == GatherKind::elements) {
    for (int d = 0; d < e.rank; ++d) {
      if (d != e.dim) lines.count *= e.index_extents[d];
      if (d > e.dim) lines.index_step *= e.index_extents[d];
    }
    lines.updates = e.index_extents[e.dim];
    lines.update_step = lines.index_step;
    lines.data_step = e.data_strides[e.dim];
  } else {
    lines = {
        .count = e.inner, .updates = e.places, .index_step = e.depth, .update_step = e.inner, .data_step = e.inner};
  }
  // More parts than places, or than would find a place on the GPU, only read indices again.
  const std::int64_t most = std::min<std::int64_t>({e.reach, lines.updates, 4096});
  while (lines.parts < most && lines.parts * lines.count < 65536) lines.parts *= 2;
  return lines;
}

/// Which element of the output an update is for, or which slice; -1: none.
__device__ inline std::int64_t target(const IndexExtents& e, const Indices& indices, std::int64_t update) {
  if (e.kind != GatherKind::elements) return slice_of(e, indices, update * e.depth);
  const std::int64_t place = slice_of(e, indices, update);
  if (place < 0) return place;
  std::int64_t to = place * e.data_strides[e.dim], rest = update;
#pragma unroll 1
  for (int d = e.rank - 1; d >= 0; --d) {
    const std::int64_t next = rest / e.index_extents[d];
    if (d != e.dim) to += (rest - next * e.index_extents[d]) * e.data_strides[d];
    rest = next;
  }
  return to;
}

constexpr int words_of_lane = 8;
__host__ __device__ inline int lanes_of(std::int64_t inner) { return inner >= 32 ? 32 : 1; }
__host__ __device__ inline std::int64_t pieces_of(std::int64_t inner) {
  const int at_once = lanes_of(inner) * words_of_lane;
  return (inner + at_once - 1) / at_once;
}

__global__ void __launch_bounds__(threads)
    claim_kernel(const Indices indices, unsigned* last, std::int64_t updates, const __grid_constant__ IndexExtents e) {
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < updates; i += step) {
    const std::int64_t to = target(e, indices, i);
    if (to >= 0) atomicMax(&last[to], static_cast<unsigned>(i) + 1);
  }
}

/// `inner`: words of an update. So many lanes share one, and take 8 words each of a piece of it.
template <class Word>
__global__ void __launch_bounds__(threads)
    put_kernel(const Indices indices, const unsigned* last, const Word* __restrict__ from, Word* output,
               std::int64_t updates, std::int64_t inner, const __grid_constant__ IndexExtents e) {
  let_successor_start();
  wait_for_predecessor();
  const int lanes = lanes_of(inner), lane = static_cast<int>(threadIdx.x) % lanes;
  const std::int64_t pieces = pieces_of(inner), step = std::int64_t{gridDim.x} * (threads / lanes);
  for (std::int64_t i = std::int64_t{blockIdx.x} * (threads / lanes) + threadIdx.x / static_cast<unsigned>(lanes);
       i < updates * pieces; i += step) {
    const std::int64_t update = i / pieces, to = target(e, indices, update);
    if (to < 0 || last[to] != static_cast<unsigned>(update) + 1) continue;
    const std::int64_t first = (i - update * pieces) * lanes * words_of_lane + lane;
#pragma unroll
    for (int j = 0; j < words_of_lane; ++j) {
      const std::int64_t at = first + j * lanes;
      if (at < inner) output[to * inner + at] = from[update * inner + at];
    }
  }
}

/// Whether each update has a thread of its own, and then what is written, `written` elements or slices.
struct Last {
  bool used = false;
  std::int64_t updates = 0, inner = 1, written = 0;

  Last(const ScatterProblem& problem, const Preparation& p, const IndexExtents& e, const Lines& lines)
      : updates(lines.updates), written(p.output().shape.numel()) {
    if (e.kind == GatherKind::elements) {
      updates *= lines.count;
    } else if (e.inner > 0) {
      inner = e.inner, written /= e.inner;
    }
    used = problem.reduction == ScatterReduction::none && lines.parts > 1 && lines.updates >= 32 &&
           updates < std::numeric_limits<int>::max() && bytes() <= p.workspace_limit;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(written) * sizeof(unsigned); }
};

void put_last(const Last& last, const Indices& at, const Tensor& updates, Tensor& output, const IndexExtents& e,
              const Execution& execution) {
  auto* const claimed = static_cast<unsigned*>(execution.workspace);
  fill_bytes(output.device().index, claimed, 0, last.bytes(), execution.stream);
  launch_kernel(claim_kernel, threads_for(last.updates, threads), execution.stream, at, claimed, last.updates, e);
  const auto run = [&]<class Word>(Word*) {
    const std::int64_t inner =
        last.inner * static_cast<std::int64_t>(size_of(output.dtype())) / static_cast<std::int64_t>(sizeof(Word));
    launch_kernel(put_kernel<Word>, threads_for(last.updates * pieces_of(inner) * lanes_of(inner), threads),
                  execution.stream, at, claimed, elements<Word>(updates), elements<Word>(output), last.updates, inner,
                  e);
  };
  // Words as wide as slices and addresses allow.
  const auto all = static_cast<std::uint64_t>(last.inner) * size_of(output.dtype()) |
                   reinterpret_cast<std::uintptr_t>(updates.raw()) | reinterpret_cast<std::uintptr_t>(output.raw());
  switch (std::min<std::uint64_t>(all & -all, 16)) {
    case 1: return run(static_cast<std::uint8_t*>(nullptr));
    case 2: return run(static_cast<std::uint16_t*>(nullptr));
    case 4: return run(static_cast<std::uint32_t*>(nullptr));
    case 8: return run(static_cast<std::uint64_t*>(nullptr));
    default: return run(static_cast<uint4*>(nullptr));
  }
}

/// What the device calls T.
template <class T>
using DeviceType = std::conditional_t<std::is_same_v<T, half>, __half,
                                      std::conditional_t<std::is_same_v<T, bfloat16>, __nv_bfloat16, T>>;

template <class T>
struct Bits {
  using Type = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                     std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
};

}  // namespace

std::unique_ptr<Operator> prepare_scatter(const ScatterProblem& problem, const Preparation& p) {
  const IndexExtents e = detail::scatter_extents(problem, p);
  const Lines lines = lines_of(e);
  const Last last(problem, p, e, lines);
  return make_on_device(index(p), last.used ? "the last of each place" : "in order",
                        {.workspace = last.used ? last.bytes() : 0},
                        [e, lines, last, reduction = problem.reduction, device = index(p)](
                            Inputs inputs, Outputs outputs, const Execution& execution) {
                          const Tensor &data = inputs[0], &indices = inputs[1], &updates = inputs[2];
                          Tensor& output = outputs[0];
                          const Stream stream = execution.stream;
                          if (data.raw() != output.raw())
                            copy_on_device(device, output.raw(), data.raw(), data.bytes(), stream);
                          if (lines.count == 0 || lines.updates == 0) return;
                          const Indices at(indices.dtype(), indices.raw(), execution.fault);
                          if (last.used) return put_last(last, at, updates, output, e, execution);
                          detail::visit(data.dtype(), [&]<class Stored>(std::type_identity<Stored>) {
                            const auto run = [&]<bool none, class T>(std::bool_constant<none>, T*) {
                              launch_kernel(scatter_kernel<none, T>, threads_for(lines.count * lines.parts, threads),
                                            stream, at, elements<T>(updates), elements<T>(output), reduction, lines, e);
                            };
                            if (reduction == ScatterReduction::none) {
                              run(std::true_type(), static_cast<typename Bits<Stored>::Type*>(nullptr));
                            } else {
                              run(std::false_type(), static_cast<DeviceType<Stored>*>(nullptr));
                            }
                          });
                        });
}

}  // namespace lamina::cuda
