#pragma once

// How a block's work is laid out in time and in shared memory: tiles, steps of K, the ring of stages. Stages are
// emptied one by one, and filled chain by chain: where chains have several steps, their `full` barriers are a ring of
// their own.

#include "lamina/cuda/conv2d/channels_last/store.cuh"
#include "lamina/cuda/ptx/cluster.cuh"
#include "lamina/cuda/tensor_core/ring.cuh"
#include "lamina/cuda/tensor_core/split_k.cuh"

namespace lamina::cuda::channels_last {

/// The tiles of one block, in turn: tile = pixel tile * m_tiles + filter tile, filters fastest, so that blocks that run
/// together share pixels.
struct Walk {
  int m_tiles, tiles, step, tile, width, rank;

  __device__ Walk(const Arguments& args, int cluster_rank)
      : m_tiles(args.m_tiles), width(args.multicast), rank(args.splits > 1 ? 0 : cluster_rank) {
    const int blocks = args.splits > 1 ? args.splits : args.multicast;
    tiles = (args.n_tiles + width - 1) / width * m_tiles;
    step = static_cast<int>(gridDim.x) / blocks;
    tile = static_cast<int>(blockIdx.x) / blocks;
  }
  __device__ bool more() const { return tile < tiles; }
  __device__ void next() { tile += step; }
  __device__ int filter_tile() const { return tile % m_tiles; }
  __device__ int pixel_tile() const { return tile / m_tiles * width + rank; }
};

/// The steps of K that a block takes: whole chains.
struct Span {
  int first, count;
  __device__ Span(const Arguments& args, int cluster_rank) : first(0), count(args.steps) {
    if (args.splits == 1) return;
    const int pairs = args.paired / 2, chains = args.steps - pairs;
    const KPiece piece(chains, args.splits, cluster_rank);
    const int begin = piece.first, end = piece.end;
    first = begin + min(begin, pairs);
    count = end + min(end, pairs) - first;
  }
};

/// A tap of a slab of channels, in the order of K (step_of).
template <class T>
struct Tap {
  static constexpr int chain = chain_slabs(operand_of<T>);
  const int slabs;
  int slab = 0, row = 0, column = 0;

  __device__ Tap(const ConvGeometry& g, int step) : slabs(slab_count(g, operand_of<T>)) {
    if (step == 0) return;  // as where K is not split: the divisions would be waited for
    const int taps = g.kernel_height * g.kernel_width, first = step / (taps * chain) * chain;
    const int width = max(1, min(chain, slabs - first)), within = step - first * taps;  // 1: in a second product
    const int tap = within / width;
    slab = first + within - tap * width, row = tap / g.kernel_width, column = tap - row * g.kernel_width;
  }
  /// Whether the next step goes on with this one's chain.
  __device__ bool more_of_chain() const { return chain > 1 && slab % chain + 1 < chain && slab + 1 < slabs; }
  __device__ void next(const ConvGeometry& g) {
    if (more_of_chain()) {
      ++slab;
      return;
    }
    const int first = slab / chain * chain;
    slab = first;
    if (++column < g.kernel_width) return;
    column = 0;
    if (++row < g.kernel_height) return;
    row = 0, slab = first + chain;
  }
};

/// What a block keeps in shared memory. A stage holds pixels, weights, and the pixels' low words if they are split.
template <class T, int groups, int n>
struct Shared : StoreBuffers {
  static constexpr int weight_offset = n * step_bytes;
  static constexpr int copied_bytes = weight_offset + groups * block_bytes;
  static constexpr int low_offset = copied_bytes;
  static constexpr int stage_bytes = copied_bytes + (split<T> ? n * step_bytes : 0);

  unsigned char* ring;
  unsigned char* landing;                            // where other blocks' sums arrive, if K is split
  std::uint64_t *full, *empty, *low_words, *landed;  // by the copies, the products, the splitting, the other blocks
  float* scales;                                     // [stages, n], of the pixels in a chain, if they are scaled
  unsigned char* table;                              // Arguments::sums

  __device__ Shared(unsigned char* base, const Arguments& args, int buffer_bytes) : ring(base) {
    const int ring_bytes = args.stages * stage_bytes, store_bytes = (groups << args.log2_buffers) * buffer_bytes;
    const int sums = args.splits > 1 ? landing_bytes(groups, n, args.splits) : 0;
    stores = base + ring_bytes;
    landing = args.in_ring ? base : stores;
    full = reinterpret_cast<std::uint64_t*>(base + barrier_offset(ring_bytes, store_bytes, sums, args.in_ring));
    empty = full + max_stages;
    low_words = empty + max_stages;
    landed = low_words + max_stages;
    scales = reinterpret_cast<float*>(landed + 1);
    added = landed + 1 + (scaled<T> ? args.stages * n / 2 : 0);
    stored = added + (groups << args.log2_buffers);
    const auto end = reinterpret_cast<std::uintptr_t>(stored + (groups << args.log2_buffers));
    table = base + ((end + 15) / 16 * 16 - reinterpret_cast<std::uintptr_t>(base));
  }
};

/// Threads read the ring, or what its stages keep from being written over, themselves: not the products alone.
template <class T>
inline constexpr bool threads_read = split<T> || scaled<T>;

/// Tells the producers that bring to this stage, in all blocks that share the copies, that a warp is done with it.
/// Where threads have read, each speaks for itself: one lane behind a __syncwarp would do, but costs the same, and
/// racecheck could not see that it stands for its warp.
template <class T, int groups, int n>
__device__ __forceinline__ void release(const Arguments& args, const Shared<T, groups, n>& shared, int stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (threads_read<T>) {
    if (args.multicast == 1) return ptx::barrier_arrive(shared.empty + stage);
    for (int rank = 0; rank < args.multicast; ++rank) {
      ptx::barrier_arrive_in(shared.empty + stage, static_cast<std::uint32_t>(rank));
    }
  } else if (lane < args.multicast) {
    if (args.multicast == 1) return ptx::barrier_arrive(shared.empty + stage);
    ptx::barrier_arrive_in(shared.empty + stage, static_cast<std::uint32_t>(lane));
  }
}

/// Arrivals that make a stage empty.
template <class T, int groups>
__device__ __forceinline__ int releases(const Arguments& args) {
  return groups * (threads_read<T> ? 128 : 4) * args.multicast;
}

/// Pixels of the widest instruction that ptxas accepts with the registers a thread has at the launch.
template <int groups>
inline constexpr int max_columns = groups == 4   ? 128
                                   : groups == 3 ? 192
                                                 : 256;

/// A warpgroup's products: d = its 64 filters * the tile's pixels, over the block's steps.
template <class T, class Stored, int groups, int n, class Sum>
__device__ __forceinline__ void multiply(const Arguments& args, const Shared<Stored, groups, n>& shared, Ring& ring,
                                         int group, int steps, Sum (&d)[n / 2]) {
  using Ring_ = Shared<Stored, groups, n>;
  const std::uint32_t base = ptx::shared_address(shared.ring);
  const auto operands = [&](int stage) -> StageOperands {
    const std::uint32_t tile = base + static_cast<std::uint32_t>(stage * Ring_::stage_bytes);
    return {ptx::rows_descriptor(tile + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes)),
            ptx::rows_descriptor(tile)};
  };
  const auto give_back = [&](int stage) { release(args, shared, stage); };
  give_back(multiply_stages<T, max_columns<groups>>(ring, shared.full, steps, d, operands, give_back));
}

}  // namespace lamina::cuda::channels_last
