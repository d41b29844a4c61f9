// What only a run finds: places of true elements, and counts.
//
//   places  A block of 256 threads owns `tile` neighbours at a time, a thread 16. Where there is more than one block, a
//           first launch counts what each has, and each adds up what those before it have. Threads meet by shuffles and
//           in shared memory (72 bytes). Behind the last place come zeros.
//   count   One thread.
//
// Preconditions: none.

#define LAMINA_HOST_DEVICE __host__ __device__
#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cuda/lookup/found.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;

constexpr int threads = 256, warps = threads / 32, items = 16, tile = threads * items, most_blocks = 1024;

struct Places {
  std::int64_t elements, room;  // what the list has room for
  std::int64_t each;            // elements of a block, whole tiles
};

/// The sum over a block's threads of what those before a thread have, and of what all have.
struct Before {
  int own, all;
};
__device__ inline Before sum_before(int value, int (&of_warps)[warps]) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int up_to = sum_up_to(static_cast<unsigned>(lane), value);
  __syncthreads();  // the last sums were read
  if (lane == 31) of_warps[warp] = up_to;
  __syncthreads();
  Before result = {up_to - value, 0};
#pragma unroll
  for (int w = 0; w < warps; ++w) {
    if (w < warp) result.own += of_warps[w];
    result.all += of_warps[w];
  }
  return result;
}

/// Which of the 16 elements from `first` on are true.
__device__ inline unsigned true_ones(const std::uint8_t* input, std::int64_t first, std::int64_t end) {
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < items; ++i) {
    if (first + i < end && input[first + i] != 0) bits |= 1u << i;
  }
  return bits;
}

__global__ void __launch_bounds__(threads)
    count_true_kernel(const std::uint8_t* input, std::int64_t* counts, const Places p) {
  __shared__ int of_warps[warps];
  let_successor_start();
  wait_for_predecessor();
  const std::int64_t begin = blockIdx.x * p.each, end = min(begin + p.each, p.elements);
  int own = 0;
  for (std::int64_t at = begin + threadIdx.x * items; at < end; at += tile) own += __popc(true_ones(input, at, end));
  const int all = sum_before(own, of_warps).all;
  if (threadIdx.x == 0) counts[blockIdx.x] = all;
}

/// `counts` of each block, or null if there is one.
__global__ void __launch_bounds__(threads)
    places_of_true_kernel(const std::uint8_t* input, const std::int64_t* counts, std::int64_t* list, const Places p) {
  __shared__ int of_warps[warps];
  let_successor_start();
  wait_for_predecessor();
  const Found found_before = counts == nullptr ? Found{} : sum_counts(counts);
  std::int64_t next = found_before.before;
  const std::int64_t begin = blockIdx.x * p.each, end = min(begin + p.each, p.elements);
  for (std::int64_t first = begin; first < end; first += tile) {
    const std::int64_t at = first + threadIdx.x * items;
    unsigned bits = true_ones(input, at, end);
    const Before found = sum_before(__popc(bits), of_warps);
    for (std::int64_t place = next + found.own; bits != 0; bits &= bits - 1, ++place) {
      if (place < p.room) list[1 + place] = at + __ffs(static_cast<int>(bits)) - 1;
    }
    next += found.all;
  }
  end_list(list, counts == nullptr ? next : found_before.all, 1, p.room);
}

__global__ void count_kernel(const std::int64_t* counts, std::int64_t number, std::int64_t* result,
                             const CountRule rule, Fault* noted) {
  let_successor_start();
  wait_for_predecessor();
  Fault fault;
  const std::int64_t all = rule.apply(counts, number, fault);
  *result = fault.kind == Fault::none ? all : 0;
  if (fault.kind != Fault::none && noted != nullptr) *noted = fault;
}

std::unique_ptr<Operator> prepare_count(const FindProblem& problem, const Preparation& p) {
  return make_on_device(
      index(p), "one thread",
      [rule = problem.rule, number = p.input().shape[0]](Inputs in, Outputs out, const Execution& execution) {
        launch_kernel(count_kernel, of_blocks(1, 1), execution.stream, cuda::elements<std::int64_t>(in[0]), number,
                      cuda::elements<std::int64_t>(out[0]), rule, execution.fault);
      });
}

std::unique_ptr<Operator> prepare_places(const Preparation& p) {
  const std::int64_t all = p.input().shape[0],
                     tiles = std::max<std::int64_t>(1, detail::ceil_div<std::int64_t>(all, tile));
  const Places places = {.elements = all,
                         .room = p.output().shape[0] - 1,
                         .each = detail::ceil_div<std::int64_t>(tiles, most_blocks) * tile};
  const std::int64_t blocks = detail::ceil_div(tiles * tile, places.each);
  return make_on_device(index(p), "threads that meet",
                        {.workspace = blocks == 1 ? 0 : static_cast<std::size_t>(blocks) * sizeof(std::int64_t)},
                        [places, how = of_blocks(blocks, threads)](Inputs in, Outputs out, const Execution& execution) {
                          const auto* const input = cuda::elements<std::uint8_t>(in[0]);
                          auto* const counts =
                              how.grid.x == 1 ? nullptr : static_cast<std::int64_t*>(execution.workspace);
                          if (counts != nullptr)
                            launch_kernel(count_true_kernel, how, execution.stream, input, counts, places);
                          launch_kernel(places_of_true_kernel, how, execution.stream, input, counts,
                                        cuda::elements<std::int64_t>(out[0]), places);
                        });
}

}  // namespace

bool takes_find(const FindProblem& problem, const Preparation& p) {
  const bool ours = problem.kind == FindProblem::Kind::count || problem.kind == FindProblem::Kind::places;
  return ours && detail::is_found(problem, p);
}

std::unique_ptr<Operator> prepare_find(const FindProblem& problem, const Preparation& p) {
  return problem.kind == FindProblem::Kind::count ? prepare_count(problem, p) : prepare_places(p);
}

}  // namespace lamina::cuda
