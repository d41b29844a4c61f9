// The first k along the middle of [outer, extent, inner]. A block owns a line: of 256 threads, or of 1024 where lines
// are long and too few for a GPU.
//
// Elements are compared as unsigned numbers in the order of the values, followed by the place, so that no two are equal
// and the result does not depend on the order in which threads work. Lines of up to 2048 elements are sorted in shared
// memory (at most 32 KB) by bitonic merges. Of longer ones the k-th number is found first, 8 bits at a time from the
// top, by histograms (radix selection); then the k that are not beyond it are collected and sorted, in shared memory
// or, if they are more than 2048, in the workspace.
//
// Preconditions: extent < 2^32.
// Sources: Batcher, "Sorting networks and their applications", 1968; Alabi et al., "Fast k-selection algorithms for
// graphics processing units", 2012.

#include <algorithm>

#include "lamina/cuda/elements.cuh"
#include "lamina/cuda/lookup/found.cuh"
#include "lamina/cuda/lookup/lookup.h"
#include "lamina/cuda/runtime/overlap.cuh"
#include "lamina/kernel/rules/lookup/lookup_extents.h"

namespace lamina::cuda {
namespace {

using namespace tables;
using detail::LineExtents;

constexpr int few_threads = 256, many_threads = 1024, buckets = 256, warp = 32;
constexpr std::int64_t max_in_shared = 2048, max_blocks = 264;
static_assert(few_threads >= buckets, "a thread clears a bucket");

/// A key and below it the place, in one word.
template <class Word, int key_bits>
struct Keyed {
  static constexpr int digits = (key_bits + 32) / 8;
  Word word;
  __device__ static Keyed of(std::uint64_t key, std::uint32_t place) { return {static_cast<Word>(key) << 32 | place}; }
  __device__ static Keyed last() { return {~Word{0} >> (8 * (sizeof(Word) - digits))}; }
  __device__ std::uint32_t place() const { return static_cast<std::uint32_t>(word); }
  __device__ bool before(const Keyed& b) const { return word < b.word; }
  /// Bits 8d to 8d + 7.
  __device__ unsigned digit(int d) const { return static_cast<unsigned>(word >> 8 * d) & 0xffu; }
  /// Whether all digits above d are those of b.
  __device__ bool same_above(const Keyed& b, int d) const {
    return d == digits - 1 || word >> 8 * (d + 1) == b.word >> 8 * (d + 1);
  }
  __device__ void set(int d, unsigned value) { word = (word & ~(Word{0xff} << 8 * d)) | Word{value} << 8 * d; }
};
using Short = Keyed<std::uint64_t, 32>;
using Long = Keyed<unsigned __int128, 64>;

/// Element i of a line; kernels are compiled once for all dtypes of a width, for what takes the time is sorting.
struct Values {
  const void* data;
  DType dtype;

  template <class T>
  __device__ T get(std::int64_t i) const {
    return static_cast<const T*>(data)[i];
  }
  __device__ static std::uint64_t ordered(float x) {
    if (isnan(x)) return 0xffffffffu;
    const unsigned bits = __float_as_uint(x == 0.0f ? 0.0f : x);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  }
  __device__ static std::uint64_t ordered(double x) {
    if (isnan(x)) return ~std::uint64_t{0};
    const auto bits = static_cast<std::uint64_t>(__double_as_longlong(x == 0.0 ? 0.0 : x));
    return (bits & sign) != 0 ? ~bits : bits | sign;
  }
  __device__ static std::uint64_t ordered(std::int32_t x) { return static_cast<std::uint32_t>(x) ^ 0x80000000u; }

  /// An unsigned number in the order of the values: NaN is the largest, both zeros are equal. Of 32 bits for Short.
  template <class W>
  __device__ std::uint64_t key(std::int64_t i) const {
    if constexpr (W::digits == Long::digits) {
      switch (dtype) {
        case DType::f64: return ordered(get<double>(i));
        case DType::i64: return get<std::uint64_t>(i) ^ sign;
        default: return get<std::uint64_t>(i);
      }
    } else {
      switch (dtype) {
        case DType::f32: return ordered(get<float>(i));
        case DType::f16: return ordered(to_f32(get<__half>(i)));
        case DType::bf16: return ordered(to_f32(get<__nv_bfloat16>(i)));
        case DType::i32: return ordered(get<std::int32_t>(i));
        case DType::i16: return ordered(static_cast<std::int32_t>(get<std::int16_t>(i)));
        case DType::i8: return ordered(static_cast<std::int32_t>(get<std::int8_t>(i)));
        case DType::u32: return get<std::uint32_t>(i);
        case DType::u16: return get<std::uint16_t>(i);
        default: return get<std::uint8_t>(i);
      }
    }
  }

 private:
  static constexpr std::uint64_t sign = std::uint64_t{1} << 63;
};

/// By the whole block; `size` is a power of two.
template <int threads, class W>
__device__ void sort(W* words, std::int64_t size) {
  for (std::int64_t run = 2; run <= size; run *= 2) {
    for (std::int64_t distance = run / 2; distance > 0; distance /= 2) {
      __syncthreads();
#pragma unroll 1
      for (std::int64_t i = threadIdx.x; i < size / 2; i += threads) {
        const std::int64_t within = i & (distance - 1), low = 2 * (i - within) + within, high = low + distance;
        const W a = words[low], b = words[high];
        if (((low & run) == 0) == b.before(a)) words[low] = b, words[high] = a;
      }
    }
  }
  __syncthreads();
}

/// Adds one to a bucket for each thread that is here: neighbours mostly have the same, and would wait for each other.
__device__ inline void count_together(unsigned* histogram, unsigned bucket) {
  const unsigned same = __match_any_sync(__activemask(), bucket);
  if (static_cast<int>(threadIdx.x % warp) == __ffs(static_cast<int>(same)) - 1) {
    atomicAdd(&histogram[bucket], static_cast<unsigned>(__popc(same)));
  }
}

/// The bucket in which as many as are left are reached, and how many of its own that takes. By a warp.
__device__ inline void choose_bucket(const unsigned* histogram, unsigned& left, unsigned& chosen) {
  constexpr unsigned each = buckets / warp;
  const unsigned first = threadIdx.x * each, wanted = left;
  unsigned own = 0;
  for (unsigned b = first; b < first + each; ++b) own += histogram[b];
  const unsigned up_to = sum_up_to(threadIdx.x, own), before = up_to - own;
  __syncwarp();  // everybody has read what is left
  if (before < wanted && (up_to >= wanted || threadIdx.x == warp - 1)) {
    unsigned b = first, rest = wanted - before;
    while (b < first + each - 1 && histogram[b] < rest) rest -= histogram[b++];
    chosen = b, left = rest;
  }
}

struct Arguments {
  LineExtents extents;
  std::int64_t k, sorted;  // sorted: the power of two that is sorted
  bool largest;
};

template <int threads, class W>
__global__ void __launch_bounds__(threads, many_threads / threads)  // or ptxas spills on 10.0
    topk_kernel(const Values input, std::int64_t* output, W* workspace, const Arguments args) {
  __shared__ W shared[max_in_shared];
  __shared__ unsigned histogram[buckets];
  __shared__ unsigned count, chosen, left;
  let_successor_start();
  wait_for_predecessor();
  constexpr int unrolled = sizeof(W) == sizeof(Short) ? 4 : 1;  // loads at a time
  const LineExtents e = args.extents;
  W* const words = args.sorted <= max_in_shared ? shared : workspace + blockIdx.x * args.sorted;
  for (std::int64_t line = blockIdx.x; line < e.outer * e.inner; line += gridDim.x) {
    const std::int64_t begin = line / e.inner * e.extent * e.inner + line % e.inner;
    const auto word = [&](std::int64_t i) {
      const std::uint64_t key = input.template key<W>(begin + i * e.inner);
      constexpr std::uint64_t all = W::digits == Long::digits ? ~std::uint64_t{0} : 0xffffffffu;
      return W::of(args.largest ? key ^ all : key, static_cast<std::uint32_t>(i));
    };
    const std::int64_t taken = e.extent <= args.sorted ? e.extent : args.k;
    if (e.extent <= args.sorted) {
      for (std::int64_t i = threadIdx.x; i < e.extent; i += threads) words[i] = word(i);
    } else {
      // The k-th word: digits from the top, each the one at which as many are reached.
      W kth = W::last();
      if (threadIdx.x == 0) left = static_cast<unsigned>(args.k);
      for (int d = W::digits - 1; d >= 0; --d) {
        if (threadIdx.x < buckets) histogram[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll unrolled
        for (std::int64_t i = threadIdx.x; i < e.extent; i += threads) {
          const W w = word(i);
          if (w.same_above(kth, d)) count_together(histogram, w.digit(d));
        }
        __syncthreads();
        if (threadIdx.x < warp) choose_bucket(histogram, left, chosen);
        __syncthreads();
        kth.set(d, chosen);
        // All of the bucket are wanted: whatever follows is not beyond, for kth has ones there.
        if (histogram[chosen] == left) break;
        __syncthreads();
      }
      if (threadIdx.x == 0) count = 0;
      __syncthreads();
#pragma unroll unrolled
      for (std::int64_t i = threadIdx.x; i < e.extent; i += threads) {
        const W w = word(i);
        if (!kth.before(w)) words[atomicAdd(&count, 1u)] = w;
      }
    }
    for (std::int64_t i = taken + threadIdx.x; i < args.sorted; i += threads) words[i] = W::last();
    sort<threads>(words, args.sorted);
    const std::int64_t first = line / e.inner * args.k * e.inner + line % e.inner;
    for (std::int64_t i = threadIdx.x; i < args.k; i += threads) {
      output[first + i * e.inner] = words[i].place();
    }
    __syncthreads();  // before the next line is put where this one is read
  }
}

/// What is sorted of each line.
std::int64_t sorted_size(const TopKProblem& problem, const LineExtents& e) {
  const std::int64_t needed = e.extent <= max_in_shared ? e.extent : problem.k;
  std::int64_t size = 2;
  while (size < needed) size *= 2;
  return size;
}

}  // namespace

bool takes_topk(const TopKProblem& problem, const Preparation& p) {
  return detail::is_topk(problem, p) && p.input().shape[problem.dim] < (std::int64_t{1} << 32);
}

std::unique_ptr<Operator> prepare_topk(const TopKProblem& problem, const Preparation& p) {
  const LineExtents e = detail::line_extents(p.input().shape, problem.dim);
  const auto size = static_cast<int>(size_of(p.input().format.dtype));
  const Arguments args = {e, problem.k, sorted_size(problem, e), problem.largest};
  const bool in_shared = args.sorted <= max_in_shared;  // otherwise each block has a place of its own in the workspace
  const std::int64_t lines = e.outer * e.inner, blocks = in_shared ? lines : std::min(lines, max_blocks);
  const bool long_lines = e.extent > 4 * max_in_shared && blocks < p.device.multiprocessors;
  const unsigned threads = long_lines ? many_threads : few_threads;
  const std::size_t word = size == 8 ? sizeof(Long) : sizeof(Short);
  const std::size_t workspace = in_shared ? 0 : static_cast<std::size_t>(blocks * args.sorted) * word;
  return make_on_device(index(p), "a block for each line", {.workspace = workspace},
                        [=](Inputs inputs, Outputs outputs, const Execution& execution) {
                          const auto run = [&]<class W>(W*) {
                            void (*const kernel)(Values, std::int64_t*, W*, Arguments) =
                                threads == many_threads ? topk_kernel<many_threads, W> : topk_kernel<few_threads, W>;
                            launch_kernel(kernel, {dim3(grid_for(blocks, 1)), dim3(threads)}, execution.stream,
                                          Values{inputs[0].raw(), inputs[0].dtype()},
                                          elements<std::int64_t>(outputs[0]), static_cast<W*>(execution.workspace),
                                          args);
                          };
                          size == 8 ? run(static_cast<Long*>(nullptr)) : run(static_cast<Short*>(nullptr));
                        });
}

}  // namespace lamina::cuda
