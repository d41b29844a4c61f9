#pragma once

// Two 1x1 convolutions of which the second reads what the first gives, as between the windows of two residual blocks:
// wide [C, pixels] = f(weight [C, K] * inputs [K, pixels] + what is added), narrow = f(weight' [C', C] * wide).
//
// A block owns a tile of n pixels, all their channels, and goes on to another. Two warpgroups multiply 64 wide filters
// each, a chunk of 128 together, finish them as channels_last does, and put them into a slot of shared memory: 64
// channels of the tile's pixels under the 128-byte swizzle, which is what TMA stores from and what wgmma reads. So both
// slots are stored, and are an operand of the narrow products, of which each warpgroup has its share in registers while
// the chunks pass. At last the narrow map goes through slots as well.
// Three threads of a third warpgroup copy: weights in the order of their use, through a ring of stages of 16 KB or
// once, if all of them fit; slabs of the inputs' pixels; and what is added, into the slots where the sums will be, as
// far ahead as there are slots. Shared memory: slots of n * 128 bytes for pixels and maps, the ring of weights,
// barriers. Preconditions: compute capability 9.0; Arguments and maps filled in by bottleneck.cpp. The bits are those
// of channels_last without splits.

#include "lamina/cuda/conv2d/channels_last/bottleneck/copies.cuh"
#include "lamina/cuda/conv2d/channels_last/store.cuh"
#include "lamina/cuda/ptx/registers.cuh"
#include "lamina/cuda/ptx/wgmma.cuh"
#include "lamina/cuda/runtime/overlap.cuh"

namespace lamina::cuda::channels_last::bottleneck {

/// What a warpgroup sums of the narrow map: every other block of 64 filters, or half of the pixels: of a lone block,
/// and where the registers of the largest tile would not do for the first.
template <int n, int blocks>
struct Share {
  static constexpr bool by_filters = blocks > 1 && (n * blocks < 512);
  static constexpr int own = by_filters ? blocks / groups : blocks, columns = by_filters ? n : n / groups;
};

/// These sums over one chunk.
template <int n, class S, class Release>
__device__ __forceinline__ void narrow_products(const Memory<n>& memory, Ring& weights,
                                                const std::uint32_t (&slots)[groups], int group, bool first,
                                                float (&z)[S::own][S::columns / 2], Release&& release) {
  const std::uint32_t base = ptx::shared_address(memory.weights);
  const std::uint32_t offset = S::by_filters ? 0 : static_cast<std::uint32_t>(group * S::columns * step_bytes);
  int previous = 0;
#pragma unroll
  for (int i = 0; i < S::own; ++i) {
    Ring mine = weights;
    if constexpr (S::by_filters) {
      Ring other = weights;
      group == 0 ? other.advance() : mine.advance();
      weights.advance();
      ptx::barrier_wait(memory.full + other.stage, other.parity);  // or what is given back might not be this turn's
      release(other.stage);
    }
    weights.advance();
    ptx::barrier_wait(memory.full + mine.stage, mine.parity);
    const std::uint32_t stage = base + static_cast<unsigned>(mine.stage * stage_bytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int slab = 0; slab < groups; ++slab) {
      const std::uint64_t a = ptx::rows_descriptor(stage + static_cast<unsigned>(slab * block_bytes)),
                          b = ptx::rows_descriptor(slots[slab] + offset);
#pragma unroll
      for (int k = 0; k < 4; ++k) {  // 32 bytes of K each; addresses in a descriptor count 16
        ptx::wgmma<__half>(z[i], a + static_cast<unsigned>(2 * k), b + static_cast<unsigned>(2 * k),
                           !first || slab > 0 || k > 0);
      }
    }
    ptx::wgmma_commit();
    if (i > 0) {
      ptx::wgmma_wait<1>();
      release(previous);
    }
    previous = mine.stage;
  }
  ptx::wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < S::own; ++i) ptx::pin(z[i]);
  release(previous);
}

template <int n, int blocks>
__device__ __forceinline__ void consume(const Arguments& args, const CUtensorMap& wide, const CUtensorMap& narrow,
                                        const Memory<n>& memory) {
  using Kind = Finish::Kind;
  using S = Share<n, blocks>;
  constexpr int both = 3;  // the barrier of all who multiply; that of a warpgroup is group + 1
  const int group = static_cast<int>(threadIdx.x) / 128;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const bool storing = threadIdx.x % 128 == 0;
  const int filter = group * block_filters + warp * 16 + lane / 4;  // of a chunk, and eight further on
  const auto give_back = [&](std::uint64_t* barrier) {
    if (lane == 0) ptx::barrier_arrive(barrier);
  };
  const auto release = [&](int stage) {
    if (!args.resident) give_back(memory.empty + stage);
  };
  const std::uint32_t first_weights = ptx::shared_address(memory.weights),
                      first_pixels = ptx::shared_address(memory.pixels), first_map = ptx::shared_address(memory.maps);
  Ring pixels{args.pixel_slots}, maps{args.map_slots}, weights{args.stages};
  for (int tile = static_cast<int>(blockIdx.x); tile < args.tiles; tile += static_cast<int>(gridDim.x)) {
    if (args.resident) weights = {args.stages};  // what has landed stays
    float z[S::own][S::columns / 2];
    for (int chunk = 0; chunk < args.chunks; ++chunk) {
      const float* at = args.wide.bias + chunk * chunk_filters + filter;
      const float bias[2] = {__ldg(at), __ldg(at + 8)};
      float d[n / 2];
      Ring slab = pixels;
      const auto operands = [&](int stage) -> StageOperands {
        if (chunk == 0) ptx::barrier_wait(memory.pixels_full + slab.stage, slab.parity);
        const std::uint32_t b = first_pixels + static_cast<unsigned>(slab.stage * Memory<n>::slot_bytes);
        slab.advance();
        return {ptx::rows_descriptor(first_weights + static_cast<unsigned>(stage * stage_bytes + group * block_bytes)),
                ptx::rows_descriptor(b)};
      };
      release(multiply_stages<__half, 256>(weights, memory.full, args.steps, d, operands, release));
      if (chunk + 1 == args.chunks) {
        for (int step = 0; step < args.steps; ++step, pixels.advance()) give_back(memory.pixels_empty + pixels.stage);
      }

      Ring other = maps;
      other.advance();
      const Ring own = group == 0 ? maps : other;
      const std::uint32_t slots[groups] = {first_map + static_cast<unsigned>(maps.stage * Memory<n>::slot_bytes),
                                           first_map + static_cast<unsigned>(other.stage * Memory<n>::slot_bytes)};
      const std::uint32_t slot = group == 0 ? slots[0] : slots[1];
      ptx::barrier_wait(memory.maps_full + own.stage, own.parity);
      if (args.wide.adds) {
        fill<__half, false, Finish::Addition::first, Kind::clamp, 0, n / 8, n>(args.wide, bias, slot, 0, d);
      } else {
        fill<__half, false, Finish::Addition::none, Kind::clamp, 0, n / 8, n>(args.wide, bias, slot, 0, d);
      }
      ptx::fence_async_proxy();
      ptx::sync_threads<groups * 128>(both);
      if (storing) {
        ptx::store_box(wide, slot, (chunk * groups + group) * block_filters, tile * n);
        ptx::bulk_commit();
      }
      narrow_products<n, S>(memory, weights, slots, group, chunk == 0, z, release);
      if (storing) ptx::bulk_wait_read<0>();
      give_back(memory.maps_empty + maps.stage);
      give_back(memory.maps_empty + other.stage);
      other.advance();
      maps = other;
    }

    Ring used = maps;
#pragma unroll
    for (int block = 0; block < blocks; ++block, maps.advance()) {
      ptx::barrier_wait(memory.maps_full + maps.stage, maps.parity);
      if (S::by_filters && block % groups != group) continue;
      const float* at = args.narrow.bias + block * block_filters + warp * 16 + lane / 4;
      const float bias[2] = {__ldg(at), __ldg(at + 8)};
      const int column = S::by_filters ? 0 : group * S::columns;
      const std::uint32_t to =
          first_map + static_cast<unsigned>(maps.stage * Memory<n>::slot_bytes + column * step_bytes);
      fill<__half, false, Finish::Addition::none, Kind::clamp, 0, S::columns / 8, S::columns>(
          args.narrow, bias, to, 0, z[S::by_filters ? block / groups : block]);
      ptx::fence_async_proxy();
      ptx::sync_warpgroup(group + 1);
      if (storing) {
        ptx::store_box(narrow, to, block * block_filters, tile * n + column);
        ptx::bulk_commit();
      }
    }
    if (storing) ptx::bulk_wait_read<0>();
#pragma unroll
    for (int block = 0; block < blocks; ++block, used.advance()) give_back(memory.maps_empty + used.stage);
  }
}

template <int n, int blocks>
__device__ __forceinline__ void run(const Arguments& args, const CUtensorMap& first, const CUtensorMap& beside,
                                    const CUtensorMap& wide, const CUtensorMap& narrow) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  // What the consumers take is what the producers' warpgroup gives back: more would wait for ever.
  constexpr int at_launch = 65536 / ((groups + 1) * 128) / 8 * 8, producer_registers = 56;
  constexpr int taken = at_launch + (at_launch - producer_registers) / groups / 8 * 8;
  let_successor_start();
  const Memory<n> memory(bytes, args);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == groups * 128) {
    for (int i = 0; i < args.pixel_slots; ++i) {
      ptx::barrier_init(memory.pixels_full + i, 1);
      ptx::barrier_init(memory.pixels_empty + i, groups * 4);
    }
    for (int i = 0; i < args.map_slots; ++i) {
      ptx::barrier_init(memory.maps_full + i, 1);
      ptx::barrier_init(memory.maps_empty + i, groups * 4);
    }
    for (int i = 0; i < args.stages; ++i) {
      ptx::barrier_init(memory.full + i, 1);
      ptx::barrier_init(memory.empty + i, groups * 4);
    }
    ptx::barrier_init_fence();
    for (const CUtensorMap* map : {&first, &beside, &wide, &narrow}) ptx::prefetch_map(*map);
  }
  __syncthreads();
  if (thread < groups * 128) {
    ptx::take_registers<taken>();
    return consume<n, blocks>(args, wide, narrow, memory);
  }
  ptx::give_registers_back<producer_registers>();
  if (thread == groups * 128) bring_weights<n, blocks>(args, memory);
  if (thread == groups * 128 + 32) bring_pixels<n>(args, first, beside, memory);
  if (thread == groups * 128 + 64) bring_added<n, blocks>(args, beside, memory);
}

template <int n, int blocks>
__global__ void __launch_bounds__((groups + 1) * 128, 1)
    bottleneck_kernel(const __grid_constant__ Arguments args, const __grid_constant__ CUtensorMap first,
                      const __grid_constant__ CUtensorMap beside, const __grid_constant__ CUtensorMap wide,
                      const __grid_constant__ CUtensorMap narrow) {
  if constexpr (ptx::wgmma_compiled) {
    run<n, blocks>(args, first, beside, wide, narrow);
  } else {
    __trap();  // never launched: DeviceDescription::wgmma
  }
}

template <int n, int blocks>
Tile make_tile() {
  return {.pixels = n,
          .blocks = blocks,
          .narrow_columns = Share<n, blocks>::columns,
          .kernel = reinterpret_cast<const void*>(&bottleneck_kernel<n, blocks>)};
}

}  // namespace lamina::cuda::channels_last::bottleneck
