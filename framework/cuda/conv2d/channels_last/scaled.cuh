#pragma once

// f32 on f16 tensor cores. scale_rows (scaled_rows.h) has made words of the pixels, 128 bytes for each slab of
// channels, and given every two slabs of a pixel a power of two. So the sums over two slabs at one tap are a chain by
// themselves: it is multiplied by its pixel's scale as it is added to the others. The scales come by cp.async, from
// two warps that have nothing else to do beside the copying threads, and the barriers of the operands count them too.
// Source of the two words: Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores" (2022).

#include "lamina/cuda/conv2d/channels_last/ring.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::channels_last {

inline constexpr int gathering_threads = 64;

/// The warps that bring the scales of each chain's pixels, one chain after the other.
template <class T, int groups, int n>
__device__ __forceinline__ void gather_scales(const Arguments& args, const Shared<T, groups, n>& shared, int rank) {
  constexpr int own = (n + gathering_threads - 1) / gathering_threads;
  const ConvGeometry& g = args.geometry;
  const int thread = static_cast<int>(threadIdx.x) - (groups + 1) * 128 + gathering_threads;
  const Span span(args, rank);
  const auto plane = static_cast<std::size_t>(g.batch) * static_cast<unsigned>(g.in_height * g.in_width);
  wait_for_predecessor();
  Ring ring{args.stages}, slots{args.stages};
  for (Walk walk(args, rank); walk.more(); walk.next()) {
    int row[own], column[own], first[own];  // of the window's corner; its place in a plane of scales
#pragma unroll
    for (int i = 0; i < own; ++i) {
      const int pixel = walk.pixel_tile() * n + thread + i * gathering_threads;
      const ptx::Corner corner = corner_of(g, pixel);
      row[i] = pixel < args.pixels ? corner.row : -(1 << 20);
      column[i] = corner.column;
      first[i] = (corner.image * g.in_height + corner.row) * g.in_width + corner.column;
    }
    Tap<T> tap(g, span.first);
    bool begins = true;
    for (int step = 0; step < span.count; ++step, ring.advance()) {
      if (begins) {
        const int down = tap.row * g.dilation_height, right = tap.column * g.dilation_width;
        const int offset = down * g.in_width + right;
        const float* scales = args.scales + static_cast<std::size_t>(tap.slab / chain_slabs(operand_of<T>)) * plane;
        const std::uint32_t place = ptx::shared_address(shared.scales + slots.stage * n + thread);
        // A chain's slot was used as many chains ago as there are stages: before this stage was.
        ptx::barrier_wait(shared.empty + ring.stage, ring.parity ^ 1);
#pragma unroll
        for (int i = 0; i < own; ++i) {
          if (n % gathering_threads != 0 && i == own - 1 && thread + i * gathering_threads >= n) continue;
          const bool inside = static_cast<unsigned>(row[i] + down) < static_cast<unsigned>(g.in_height) &&
                              static_cast<unsigned>(column[i] + right) < static_cast<unsigned>(g.in_width);
          ptx::copy_async<4>(place + static_cast<std::uint32_t>(i * gathering_threads * 4),
                             inside ? scales + (first[i] + offset) : scales, inside);
        }
        ptx::barrier_arrive_when_copied(shared.full + slots.stage);
        slots.advance();
      }
      begins = !tap.more_of_chain();
      tap.next(g);
    }
  }
}

/// A warpgroup's products over the block's steps, each chain's scaled: sum = its 64 filters * the tile's pixels.
template <class T, int groups, int n>
struct ScaledProducts {
  using Ring_ = Shared<T, groups, n>;
  static constexpr bool pairs = operand_of<T> == Operand::scaled_pairs;
  const Arguments& args;
  const Ring_& shared;
  const int group;
  Ring &ring, &slots;

  /// Issues products of one stage: chain = pieces of 32 bytes of its rows, at these offsets of 16 bytes.
  __device__ __forceinline__ void piece(float (&chain)[n / 2], int stage, unsigned of_a, unsigned of_b,
                                        bool accumulate) const {
    const std::uint32_t tile =
        ptx::shared_address(shared.ring) + static_cast<std::uint32_t>(stage * Ring_::stage_bytes);
    const std::uint64_t a =
        ptx::rows_descriptor(tile + static_cast<std::uint32_t>(Ring_::weight_offset + group * block_bytes));
    wgmma_in_turn<__half, max_columns<groups>>(chain, a + of_a, ptx::rows_descriptor(tile) + of_b, accumulate);
  }
  /// Where a row of pairs has 64 bytes of high words, and 64 of low ones.
  __device__ __forceinline__ void high_by_low(float (&chain)[n / 2], int stage, bool accumulate) const {
    piece(chain, stage, 4, 0, accumulate), piece(chain, stage, 0, 4, true);
    piece(chain, stage, 6, 2, true), piece(chain, stage, 2, 6, true);
  }
  __device__ __forceinline__ void high_by_high(float (&chain)[n / 2], int stage) const {
    piece(chain, stage, 0, 0, true), piece(chain, stage, 2, 2, true);
  }
  __device__ __forceinline__ void all(float (&chain)[n / 2], int stage, bool accumulate) const {
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) piece(chain, stage, 2 * i, 2 * i, accumulate || i > 0);
  }

  /// A chain's scales of this thread's pixels. Where registers suffice they are read while products run: shared memory
  /// is slow to answer then, and the adding would wait for it.
  struct Scales {
    static constexpr bool held = n <= (groups == 3 ? 80 : 128);
    std::uint32_t place;
    float2 value[held ? n / 8 : 1];

    __device__ __forceinline__ explicit Scales(std::uint32_t at) : place(at) {
      if constexpr (held) {
#pragma unroll
        for (int j = 0; j < n / 8; ++j) value[j] = load(j);
      }
    }
    __device__ __forceinline__ float2 load(int j) const {
      return ptx::load_shared_pair(place + static_cast<std::uint32_t>(j * 32));
    }
    __device__ __forceinline__ float2 of(int j) const {
      if constexpr (held) return value[j];
      return load(j);
    }
  };

  /// sum += chain * the pixels' scales
  __device__ __forceinline__ static void add(float (&sum)[n / 2], const float (&chain)[n / 2], const Scales& scales) {
#pragma unroll
    for (int j = 0; j < n / 8; ++j) {
      const float2 scale = scales.of(j);
      sum[4 * j] = fmaf(chain[4 * j], scale.x, sum[4 * j]);
      sum[4 * j + 1] = fmaf(chain[4 * j + 1], scale.y, sum[4 * j + 1]);
      sum[4 * j + 2] = fmaf(chain[4 * j + 2], scale.x, sum[4 * j + 2]);
      sum[4 * j + 3] = fmaf(chain[4 * j + 3], scale.y, sum[4 * j + 3]);
    }
  }

  /// Until the next chain's operands and scales are there.
  __device__ __forceinline__ void wait_full() const { ptx::barrier_wait(shared.full + slots.stage, slots.parity); }

  /// `count` chains of `width` steps, one after the other.
  template <int width>
  __device__ __forceinline__ void run_chains(int count, float (&sum)[n / 2]) {
    if (count == 0) return;
    wait_full();
    for (;; --count) {
      int stage[width];
#pragma unroll
      for (int i = 0; i < width; ++i, ring.advance()) stage[i] = ring.stage;
      const int slot = slots.stage;
      slots.advance();
      float chain[n / 2];
      ptx::wgmma_fence();
#pragma unroll
      for (int i = 0; i < width; ++i) {
        if constexpr (pairs) {
          high_by_low(chain, stage[i], i > 0);
        } else {
          all(chain, stage[i], i > 0);
        }
      }
      ptx::wgmma_commit();
      // While these run: what the adding and the next chain will need.
      const Scales scales(ptx::shared_address(shared.scales + slot * n) + threadIdx.x % 4 * 8);
      if (count > 1) wait_full();
      ptx::wgmma_wait<0>();
      ptx::pin(chain);
      if constexpr (pairs) {
#pragma unroll
        for (int i = 0; i < n / 2; ++i) chain[i] *= 1.0f / low_word_scale;
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < width; ++i) high_by_high(chain, stage[i]);
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        ptx::pin(chain);
      }
      // The last stage is kept until the scales have been read: so nobody overwrites them (gather_scales).
      if constexpr (width > 1) release(args, shared, stage[0]);
      add(sum, chain, scales);
      release(args, shared, stage[width - 1]);
      if (count == 1) break;
    }
  }

  __device__ __forceinline__ void run(const Span& span, float (&sum)[n / 2]) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) sum[i] = 0.0f;
    const int twos = max(0, min(span.first + span.count, args.paired) - span.first);
    run_chains<2>(twos / 2, sum);
    run_chains<1>(span.count - twos, sum);
  }
};

}  // namespace lamina::cuda::channels_last
