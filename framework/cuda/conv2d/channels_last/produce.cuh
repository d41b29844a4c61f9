#pragma once

// What feeds the ring: one thread, which issues the TMA copies of each step.

#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::channels_last {

/// How a block's weights get into its ring. Blocks that share them each bring a piece to all. Made once, because the
/// one thread that copies has no time for divisions in each step.
template <class T, int groups, int n>
struct WeightCopies {
  using Ring_ = Shared<T, groups, n>;
  const int width;
  const std::uint32_t piece, offset, mask;
  const std::size_t block_stride;

  __device__ __forceinline__ WeightCopies(const Arguments& args, int rank)
      : width(args.multicast),
        piece(static_cast<std::uint32_t>(block_bytes / args.multicast)),
        offset(width > 1 ? static_cast<std::uint32_t>(rank) * piece : 0),
        mask((1u << width) - 1),
        block_stride(static_cast<std::size_t>(args.steps) * block_bytes) {}

  /// A tile's weights from step `first` on.
  __device__ __forceinline__ const unsigned char* of(const Arguments& args, int filter_tile, int first) const {
    return static_cast<const unsigned char*>(args.weight) +
           static_cast<std::size_t>(filter_tile * groups) * block_stride +
           static_cast<std::size_t>(first) * block_bytes + offset;
  }

  /// One step's weights into a stage; `full` counts them.
  __device__ __forceinline__ void load(const Ring_& shared, int stage, const unsigned char* source,
                                       std::uint64_t* full) const {
    unsigned char* destination = shared.ring + stage * Ring_::stage_bytes + Ring_::weight_offset + offset;
#pragma unroll
    for (int block = 0; block < groups; ++block, destination += block_bytes, source += block_stride) {
      if (width > 1) {
        ptx::bulk_load_multicast(destination, source, piece, full, mask);
      } else {
        ptx::bulk_load(destination, source, piece, full);
      }
    }
  }
};

/// The producer's way through the chains of a tile: where in the ring, and which barrier counts.
template <class T, int groups, int n>
struct Filling {
  using Ring_ = Shared<T, groups, n>;
  static constexpr bool chains = chain_slabs(operand_of<T>) > 1;
  const Ring_& shared;
  Ring stages, slots;
  bool begins = true;

  __device__ __forceinline__ Filling(const Arguments& args, const Ring_& memory)
      : shared(memory), stages{args.stages}, slots{args.stages} {}

  __device__ __forceinline__ std::uint64_t* full() const { return shared.full + (chains ? slots.stage : stages.stage); }
  /// To be called before anything is copied to a stage.
  __device__ __forceinline__ void expect(const Tap<T>& tap) const {
    if (chains && !begins) return;
    ptx::barrier_arrive_expect(full(), Ring_::copied_bytes * (tap.more_of_chain() ? 2u : 1u));
  }
  __device__ __forceinline__ void next(Tap<T>& tap, const ConvGeometry& g) {
    stages.advance();
    if constexpr (chains) {
      begins = !tap.more_of_chain();
      if (begins) slots.advance();
    }
    tap.next(g);
  }
};

/// Brings the weights of as many steps as the ring holds, and returns how many: they do not depend on the kernel before
/// this one, and come while it finishes.
template <class T, int groups, int n>
__device__ __forceinline__ int load_ahead(const Arguments& args, const Shared<T, groups, n>& shared, int rank) {
  const Walk walk(args, rank);
  if (!walk.more()) return 0;
  const Span span(args, rank);
  const WeightCopies<T, groups, n> weights(args, rank);
  const unsigned char* source = weights.of(args, walk.filter_tile(), span.first);
  const int ahead = min(args.stages, span.count);
  Filling<T, groups, n> filling(args, shared);
  Tap<T> tap(args.geometry, span.first);
#pragma unroll 1
  for (int step = 0; step < ahead; ++step, source += block_bytes, filling.next(tap, args.geometry)) {
    filling.expect(tap);
    weights.load(shared, filling.stages.stage, source, filling.full());
  }
  return ahead;
}

/// The thread that feeds the ring. Weights of the first `ahead` steps are on their way.
template <class T, int groups, int n>
__device__ __forceinline__ void produce(const Arguments& args, const CUtensorMap& input, const CUtensorMap& second,
                                        const Shared<T, groups, n>& shared, int rank, int ahead) {
  // What the map calls channels: pairs are two words for each.
  constexpr int step_words = step_terms(operand_of<T>) * (operand_of<T> == Operand::scaled_pairs ? 2 : 1);
  const ConvGeometry& g = args.geometry;
  const Span span(args, rank);
  const WeightCopies<T, groups, n> weights(args, rank);
  const int first_steps = args.first_steps - span.first;
  bool waited = false;
  Filling<T, groups, n> filling(args, shared);
  for (Walk walk(args, rank); walk.more(); walk.next()) {
    const ptx::Corner corner = corner_of(g, walk.pixel_tile() * n);
    ptx::Corner second_corner = corner;
    if (!in_f32<T> && first_steps < span.count) second_corner = corner_of(args.second, walk.pixel_tile() * n);
    const unsigned char* source = weights.of(args, walk.filter_tile(), span.first);
    int channel = 0;
    if (!in_f32<T> && args.group_filters > 0) {
      channel = first_channel(walk.filter_tile() * groups * block_filters, args.group_filters, args.group_channels);
    }
    if (!waited) wait_for_predecessor(args.neighbours);
    waited = true;
    Tap<T> tap(g, span.first);
    for (int step = 0; step < span.count; ++step, source += block_bytes, filling.next(tap, g)) {
      const int stage = filling.stages.stage;
      if (step >= ahead) {
        ptx::barrier_wait(shared.empty + stage, filling.stages.parity ^ 1);
        filling.expect(tap);
        weights.load(shared, stage, source, filling.full());
      }
      unsigned char* to = shared.ring + stage * Shared<T, groups, n>::stage_bytes;
      if (!in_f32<T> && step >= first_steps) {
        ptx::load_im2col(to, second, (step - first_steps) * step_words, second_corner, 0, 0, filling.full());
        continue;
      }
      ptx::load_im2col(to, input, channel + tap.slab * step_words, corner, tap.row * g.dilation_height,
                       tap.column * g.dilation_width, filling.full());
    }
    ahead = 0;
  }
}

/// Of a store buffer, with 64 channels each or, of f32, in two planes of 32.
template <class T, int chunk>
inline constexpr int buffer_pixels = in_f32<T>                                  ? chunk / 2
                                     : sizeof(typename Element<T>::Stored) == 1 ? 2 * chunk
                                                                                : chunk;

/// Brings what is added to the sums of one tile, for `groups` warpgroups from `first_group` on, into the store buffers
/// in the order in which they are filled; `turn` counts those that each warpgroup has used. All but the last are free
/// at the beginning; the last is given back with the first store.
template <class T, int groups, int n, int chunk, class Place>
__device__ __forceinline__ void bring_added(const Arguments& args, const CUtensorMap& residual,
                                            const StoreBuffers& shared, const Place& place, int filter, int first_group,
                                            unsigned turn) {
  constexpr int bytes = chunk * step_bytes, pixels = buffer_pixels<T, chunk>;
  for (int first = 0; first < n; first += pixels, ++turn) {
    const unsigned buffers = 1u << args.log2_buffers, stage = turn & (buffers - 1);
    const int waits_for = static_cast<int>(turn >> args.log2_buffers & 1u) ^ (stage + 1 == buffers ? 0 : 1);
#pragma unroll 1
    for (int group = 0; group < groups; ++group) {
      const unsigned buffer = (static_cast<unsigned>(first_group + group) << args.log2_buffers) + stage;
      ptx::barrier_wait(shared.stored + buffer, waits_for);
      ptx::barrier_arrive_expect(shared.added + buffer, bytes);
      unsigned char* to = shared.stores + buffer * static_cast<unsigned>(bytes);
      place.load(to, residual, filter + group * block_filters, first, shared.added + buffer);
      if constexpr (in_f32<T>) {
        place.load(to + bytes / 2, residual, filter + group * block_filters + 32, first, shared.added + buffer);
      }
    }
  }
}

/// The thread that brings what is added to the sums, up to two tiles ahead.
template <class T, int groups, int n, int chunk>
__device__ __forceinline__ void bring_added(const Arguments& args, const CUtensorMap& residual,
                                            const Shared<T, groups, n>& shared, int rank) {
  constexpr unsigned buffers = n / buffer_pixels<T, chunk>;
  wait_for_predecessor(args.neighbours);
  unsigned turn = 0;
  for (Walk walk(args, rank); walk.more(); walk.next(), turn += buffers) {
    bring_added<T, groups, n, chunk>(args, residual, shared, Run{walk.pixel_tile() * n},
                                     walk.filter_tile() * groups * block_filters, 0, turn);
  }
}

}  // namespace lamina::cuda::channels_last
