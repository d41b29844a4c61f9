// Boxes of which no two overlap by much. A block owns a class of an image. It sorts those whose scores suffice, in
// shared memory (8 bytes for each) or, where they are too many, in the workspace. It looks at 1,024 at a time: whether
// they overlap with those that stayed, and then from the first that stays to the next. A second launch puts what stayed
// of each class behind each other.
//
// Preconditions: none.

#define LAMINA_HOST_DEVICE __host__ __device__
#include <algorithm>
#include <bit>

#include "lamina/cuda/lookup/found.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/box_overlap.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::OverlapBox;

constexpr int threads = 1024;

constexpr std::int64_t most_boxes = 1 << 20, most_classes = 1 << 13;
constexpr int own_bytes = 17 << 10;  // of shared memory, beside the keys

struct Boxes {
  std::int64_t classes, boxes;
  std::int64_t own_keys, size;  // keys that fit into shared memory; of all boxes, a power of two
  bool centred;
};

/// In the order in which they are taken: the largest score first, of equals the first box.
__device__ inline unsigned long long order_of(float score, std::int64_t box) {
  const unsigned bits = __float_as_uint(-score + 0.0f);  // 0 has no sign
  const unsigned ascending = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ascending) << 32 | static_cast<unsigned>(box);
}

/// Bitonic. Called by all threads; `size` is a power of two.
__device__ inline void sort(unsigned long long* keys, int size) {
  for (int run = 2; run <= size; run *= 2) {
    for (int distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < size; i += threads) {
        const int other = i ^ distance;
        if (other > i && (keys[i] > keys[other]) == ((i & run) == 0)) {
          const unsigned long long key = keys[i];
          keys[i] = keys[other], keys[other] = key;
        }
      }
    }
  }
  __syncthreads();
}

/// Those of class blockIdx.x that stay, in their order, and their number.
__global__ void __launch_bounds__(threads)
    boxes_kernel(const float* boxes, const float* scores, const double* settings, int* kept, std::int64_t* counts,
                 unsigned long long* many_keys, const Boxes p, Fault* noted) {
  extern __shared__ unsigned long long own_keys[];
  __shared__ OverlapBox some[threads];
  __shared__ unsigned left[threads / 32];  // a bit for each of some
  __shared__ int candidates;
  let_successor_start();
  wait_for_predecessor();
  const int thread = static_cast<int>(threadIdx.x);
  const float* const of_image = boxes + blockIdx.x / p.classes * p.boxes * 4;
  const float* const score = scores + blockIdx.x * p.boxes;
  const double most = settings[0], overlap = settings[1];
  const bool right = overlap >= 0 && overlap <= 1;
  const auto least = static_cast<float>(settings[2]);
  if (!right && thread == 0 && noted != nullptr) *noted = {Fault::no_overlap, __double_as_longlong(overlap), 0};
  // -Inf as the least score: there is none.
  const auto suffices = [&](std::int64_t i) { return score[i] > least || (isinf(least) && score[i] == least); };
  int own = 0;
  for (std::int64_t i = thread; i < p.boxes && right; i += threads) own += suffices(i) ? 1 : 0;
  if (thread == 0) candidates = 0;
  __syncthreads();
  atomicAdd(&candidates, own);
  __syncthreads();
  const int all = candidates;
  int size = 1;
  while (size < all) size *= 2;
  unsigned long long* const keys = size <= p.own_keys ? own_keys : many_keys + blockIdx.x * p.size;
  __syncthreads();
  if (thread == 0) candidates = 0;
  __syncthreads();
  for (std::int64_t i = thread; i < p.boxes && right; i += threads) {
    if (suffices(i)) keys[atomicAdd(&candidates, 1)] = order_of(score[i], i);
  }
  for (int i = all + thread; i < size; i += threads) keys[i] = ~0ull;
  sort(keys, size);

  const auto box_at = [&](int place) {
    return OverlapBox(of_image + 4 * static_cast<std::int64_t>(keys[place] & 0xffffffffu), p.centred);
  };
  int stayed = 0;  // moved to the front, over those that were looked at
  for (int first = 0; first < all && stayed < most; first += threads) {
    const bool there = first + thread < all;
    const unsigned long long key = there ? keys[first + thread] : 0;
    const OverlapBox box = there ? box_at(first + thread) : OverlapBox();
    bool stays = there;
    for (int i = 0; i < stayed && stays; ++i) stays = !box.overlaps(box_at(i), static_cast<float>(overlap));
    some[thread] = box;
    const unsigned bits = __ballot_sync(0xffffffffu, stays);
    __syncthreads();  // all keys were read
    if (thread % 32 == 0) left[thread / 32] = bits;
    __syncthreads();
    for (int word = 0; word < threads / 32 && stayed < most; ++word) {
      while (left[word] != 0 && stayed < most) {
        const int next = word * 32 + __ffs(static_cast<int>(left[word])) - 1;
        __syncthreads();  // everybody has seen it
        if (thread == next) keys[stayed] = key, stays = false;
        if (stays && box.overlaps(some[next], static_cast<float>(overlap))) stays = false;
        const unsigned now = __ballot_sync(0xffffffffu, stays);
        if (thread % 32 == 0) left[thread / 32] = now;
        ++stayed;
        __syncthreads();
      }
    }
  }
  for (int i = thread; i < stayed; i += threads) {
    kept[blockIdx.x * p.boxes + i] = static_cast<int>(keys[i] & 0xffffffffu);
  }
  if (thread == 0) counts[blockIdx.x] = stayed;
}

__global__ void __launch_bounds__(threads) join_boxes_kernel(const int* kept, const std::int64_t* counts,
                                                             std::int64_t* list, std::int64_t room, const Boxes p) {
  let_successor_start();
  wait_for_predecessor();
  const Found found = sum_counts(counts);
  for (std::int64_t i = threadIdx.x; i < counts[blockIdx.x]; i += threads) {
    const std::int64_t at = 3 * (found.before + i);
    if (at + 3 > room) continue;
    list[1 + at] = blockIdx.x / p.classes, list[2 + at] = blockIdx.x % p.classes;
    list[3 + at] = kept[blockIdx.x * p.boxes + i];
  }
  end_list(list, found.all, 3, room);
}

Boxes boxes_of(const FindProblem& problem, const Preparation& p) {
  const Shape& scores = p.inputs[1].shape;
  const auto power = [](std::int64_t n) {
    return std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)));
  };
  const auto room = static_cast<std::uint64_t>(p.device.shared_bytes - own_bytes) / sizeof(unsigned long long);
  const std::uint64_t size = power(scores[2]), own = std::min(size, std::bit_floor(room));
  return {scores[1], scores[2], static_cast<std::int64_t>(own), static_cast<std::int64_t>(size), problem.centred};
}

/// Of each class the number, the keys if they may be too many, and what stayed.
std::size_t workspace_of(const Boxes& boxes, std::int64_t blocks) {
  const auto keys = boxes.size > boxes.own_keys ? static_cast<std::size_t>(boxes.size) : 0;
  return static_cast<std::size_t>(blocks) *
         ((1 + keys) * sizeof(std::int64_t) + static_cast<std::size_t>(boxes.boxes) * sizeof(int));
}

}  // namespace

bool takes_boxes(const FindProblem& problem, const Preparation& p) {
  if (problem.kind != FindProblem::Kind::boxes || !detail::is_found(problem, p)) return false;
  const Shape& scores = p.inputs[1].shape;
  const std::int64_t blocks = scores[0] * scores[1];
  return scores.numel() > 0 && scores[2] <= most_boxes && blocks <= most_classes &&
         workspace_of(boxes_of(problem, p), blocks) <= p.workspace_limit;
}

std::unique_ptr<Operator> prepare_boxes(const FindProblem& problem, const Preparation& p) {
  const Boxes boxes = boxes_of(problem, p);
  const std::int64_t blocks = p.inputs[1].shape[0] * boxes.classes, room = p.output().shape[0] - 1;
  const std::int64_t own = boxes.own_keys * static_cast<std::int64_t>(sizeof(unsigned long long));
  reserve_shared_memory(index(p), reinterpret_cast<const void*>(&boxes_kernel), p.device.shared_bytes - own_bytes);
  return make_on_device(index(p), "a block for each class", {.workspace = workspace_of(boxes, blocks)},
                        [=](Inputs in, Outputs out, const Execution& execution) {
                          auto* const counts = static_cast<std::int64_t*>(execution.workspace);
                          auto* const keys = reinterpret_cast<unsigned long long*>(counts + blocks);
                          auto* const kept =
                              reinterpret_cast<int*>(keys + (boxes.size > boxes.own_keys ? blocks * boxes.size : 0));
                          launch_kernel(boxes_kernel, of_blocks(blocks, threads, own), execution.stream,
                                        cuda::elements<float>(in[0]), cuda::elements<float>(in[1]),
                                        cuda::elements<double>(in[2]), kept, counts, keys, boxes, execution.fault);
                          launch_kernel(join_boxes_kernel, of_blocks(blocks, threads), execution.stream, kept, counts,
                                        cuda::elements<std::int64_t>(out[0]), room, boxes);
                        });
}

}  // namespace lamina::cuda
