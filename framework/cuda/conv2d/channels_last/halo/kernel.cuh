#pragma once

// Convolution between channels-last tensors on Hopper whose small windows overlap: stride 1, several taps. Where
// ../kernel.cuh brings a tile's pixels once for every tap, this one brings them once.
//
// A tile is a rectangle of one image's outputs, 8 pixels wide and n / 8 high, times groups * 64 filters. For each slab
// of 64 channels one TMA copy brings the rectangle with its halo, all pixels that its windows reach: a box, zeros
// outside of the image. In the box, of any width, each tap's pixels are rows of eight at a constant distance, which is
// what a wgmma descriptor can say; so all taps are multiplied out of it where it lies. Weights come step by step
// through a ring, or all of them stay (Halo::resident). A block has `teams` of `groups` warpgroups; teams take its
// tiles in turn, so that one stores while another multiplies. A thread for each team brings its boxes, one the weights,
// one what is added to the sums, in the order of the tiles. Shared memory: a ring of boxes, a ring of 8 KB of weights *
// groups, store buffers, barriers. Preconditions: compute capability 9.0; Arguments and maps filled in by
// channels_last.cpp. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply", "Tensors: tiled mode"; the
// operand that is read in place, shifted from tap to tap, is the first layer's (docs/inside/first_layer.md).

#include "lamina/cuda/conv2d/channels_last/halo/pool.cuh"
#include "lamina/cuda/conv2d/channels_last/produce.cuh"
#include "lamina/cuda/conv2d/channels_last/ring.cuh"

namespace lamina::cuda::channels_last::halo {

/// Where a tile lies.
__device__ __forceinline__ Rectangle rectangle(const Halo& halo, int tile, int height) {
  const int row = tile / halo.across, image = row / halo.down;
  return {{image, (row - image * halo.down) * height, (tile - row * halo.across) * rectangle_width}};
}

/// The tiles of a team: those of its block in turn.
template <int teams>
__device__ __forceinline__ Walk walk_of(const Arguments& args, int team) {
  Walk walk(args, 0);
  walk.tile += team * walk.step, walk.step *= teams;
  return walk;
}

/// What a block keeps in shared memory. Each team has boxes of its own: one that passed over others' would not know
/// which phase their barriers are in.
template <class T, int groups, int teams, int chunk, int rows>
struct Memory : StoreBuffers {
  static constexpr int stage_bytes = groups * rows * step_bytes;
  unsigned char *boxes, *weights;
  std::uint64_t *box_full, *box_empty, *full, *empty;

  __device__ Memory(unsigned char* base, const Arguments& args) : boxes(base) {
    weights = base + teams * args.halo.boxes * args.halo.box_bytes();
    stores = weights + args.stages * stage_bytes;
    const int buffers = groups * teams << args.log2_buffers;
    box_full = reinterpret_cast<std::uint64_t*>(stores + buffers * chunk * step_bytes);
    box_empty = box_full + max_boxes;
    full = box_empty + max_boxes;
    empty = full + max_halo_stages;
    added = empty + max_halo_stages;
    stored = added + buffers;
  }
};

/// The taps that a tile's products go through.
struct Window {
  LiveTaps rows, columns;
  __device__ __forceinline__ Window(const Arguments& args, const ptx::Corner& corner, int height)
      : rows(args.geometry.kernel_height), columns(args.geometry.kernel_width) {
    if (!args.halo.by_tap) return;
    const ConvGeometry& g = args.geometry;
    rows = {corner.row - g.padding_height, height, g.kernel_height, g.dilation_height, g.in_height};
    columns = {corner.column - g.padding_width, rectangle_width, g.kernel_width, g.dilation_width, g.in_width};
  }
  __device__ __forceinline__ int taps() const { return rows.count() * columns.count(); }
};

/// The thread that brings a team's boxes.
template <int teams, class Memory>
__device__ __forceinline__ void bring_boxes(const Arguments& args, const CUtensorMap& input, const Memory& memory,
                                            int team, int height) {
  const ConvGeometry& g = args.geometry;
  const int slabs = slab_count(g, Operand::fp16), bytes = args.halo.box_bytes();
  wait_for_predecessor(args.neighbours);
  Ring ring{args.halo.boxes};
  const int first = team * args.halo.boxes;
  const auto bring = [&](int slab, const ptx::Corner& corner) {
    const int box = first + ring.stage;
    ptx::barrier_wait(memory.box_empty + box, ring.parity ^ 1);
    ptx::barrier_arrive_expect(memory.box_full + box,
                               static_cast<std::uint32_t>(args.halo.width * args.halo.height * step_bytes));
    ptx::load_box(memory.boxes + box * bytes, input, slab * step_terms(Operand::fp16), corner, memory.box_full + box);
    ring.advance();
  };
  for (Walk walk = walk_of<teams>(args, team); walk.more(); walk.next()) {
    ptx::Corner corner = rectangle(args.halo, walk.pixel_tile(), height).corner;
    const Window window(args, corner, height);
    corner.row -= g.padding_height, corner.column -= g.padding_width;
    for (int slab = 0; slab < slabs; ++slab) {
      if (!args.halo.by_tap) {
        bring(slab, corner);
        continue;
      }
      for (int row = window.rows.first; row < window.rows.end; ++row) {
        for (int column = window.columns.first; column < window.columns.end; ++column) {
          bring(slab, {corner.image, corner.row + row * g.dilation_height, corner.column + column * g.dilation_width});
        }
      }
    }
  }
}

/// The thread that brings weights: they are not the kernel's before this one, and need not wait for it.
template <int groups, class Memory>
__device__ __forceinline__ void bring_weights(const Arguments& args, const Memory& memory, int height) {
  const ConvGeometry& g = args.geometry;
  const std::size_t block_stride = static_cast<std::size_t>(args.steps) * block_bytes;
  const int slabs = slab_count(g, Operand::fp16), row_bytes = g.kernel_width * block_bytes;
  Ring ring{args.stages};
  const auto bring = [&](const unsigned char* source) {
    ptx::barrier_wait(memory.empty + ring.stage, ring.parity ^ 1);
    ptx::barrier_arrive_expect(memory.full + ring.stage, Memory::stage_bytes);
    unsigned char* to = memory.weights + ring.stage * Memory::stage_bytes;
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      constexpr int bytes = Memory::stage_bytes / groups;  // half of what a block has, if no more filters exist
      ptx::bulk_load(to + group * bytes, source + static_cast<std::size_t>(group) * block_stride, bytes,
                     memory.full + ring.stage);
    }
    ring.advance();
  };
  for (Walk walk(args, 0); walk.more(); walk.next()) {
    const Window window(args, rectangle(args.halo, walk.pixel_tile(), height).corner, height);
    const unsigned char* source = static_cast<const unsigned char*>(args.weight) +
                                  static_cast<std::size_t>(walk.filter_tile() * groups) * block_stride;
    for (int slab = 0; slab < slabs; ++slab) {
      for (int row = 0; row < g.kernel_height; ++row, source += row_bytes) {
        if (row < window.rows.first || row >= window.rows.end) continue;
        for (int column = window.columns.first; column < window.columns.end; ++column) {
          bring(source + column * block_bytes);
        }
      }
    }
    if (args.halo.resident) return;
  }
}

/// The thread that brings what is added to the sums.
template <class T, int groups, int teams, int n, int chunk, class Memory>
__device__ __forceinline__ void bring_added(const Arguments& args, const CUtensorMap& residual, const Memory& memory) {
  wait_for_predecessor(args.neighbours);
  int count = 0;
  for (Walk walk(args, 0); walk.more(); walk.next(), ++count) {
    channels_last::bring_added<T, groups, n, chunk>(args, residual, memory,
                                                    rectangle(args.halo, walk.pixel_tile(), n / rectangle_width),
                                                    walk.filter_tile() * groups * block_filters, count % teams * groups,
                                                    static_cast<unsigned>(count / teams) * (n / chunk));
  }
}

/// Gives a stage back.
__device__ __forceinline__ void release(std::uint64_t* empty) {
  if (threadIdx.x % 32 == 0) ptx::barrier_arrive(empty);
}

/// A warpgroup's products: d = its 64 filters * the tile's pixels.
template <class T, int groups, int n, class Memory>
__device__ __forceinline__ void multiply(const Arguments& args, const Memory& memory, Ring& boxes, Ring& weights,
                                         int team, int group, int steps, float (&d)[n / 2]) {
  const ConvGeometry& g = args.geometry;
  const int own_boxes = team * args.halo.boxes;
  const int taps = args.halo.by_tap ? 1 : g.kernel_height * g.kernel_width;  // out of one box
  const std::uint32_t first_box = ptx::shared_address(memory.boxes), pitch = args.halo.width * step_bytes,
                      first_weights = ptx::shared_address(memory.weights) +
                                      static_cast<unsigned>(group * (Memory::stage_bytes / groups));
  Ring read = boxes;
  int tap = 0, column = 0, released = 0;
  std::uint32_t row = 0;  // address of the tap's row in the box
  const auto operands = [&](int stage) -> StageOperands {
    if (tap == 0) {
      ptx::barrier_wait(memory.box_full + own_boxes + boxes.stage, boxes.parity);
      row = first_box + static_cast<unsigned>((own_boxes + boxes.stage) * args.halo.box_bytes());
      column = 0;
      boxes.advance();
    }
    const std::uint32_t at = row + static_cast<unsigned>(column * g.dilation_width * step_bytes);
    if (++column == g.kernel_width) column = 0, row += static_cast<unsigned>(g.dilation_height) * pitch;
    if (++tap == taps) tap = 0;
    return {ptx::rows_descriptor(first_weights + static_cast<unsigned>(stage * Memory::stage_bytes)),
            ptx::rows_descriptor(at, pitch)};
  };
  const auto give_back = [&](int stage) {
    if (!args.halo.resident) release(memory.empty + stage);
    if (++released < taps) return;
    released = 0;
    release(memory.box_empty + own_boxes + read.stage);
    read.advance();
  };
  give_back(multiply_stages<T, max_columns<groups>>(weights, memory.full, steps, d, operands, give_back));
}

template <class T, int groups, int teams, int n, int chunk, class Memory>
__device__ __forceinline__ void consume(const Arguments& args, const CUtensorMap& output, const Memory& memory) {
  const int warpgroup = static_cast<int>(threadIdx.x) / 128, team = warpgroup / groups, group = warpgroup % groups;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % 4;
  constexpr int height = n / rectangle_width;
  const int slabs = slab_count(args.geometry, Operand::fp16);
  Store<T, true, true, n, chunk, Rectangle> store{args, output, memory, warpgroup};
  Ring boxes{args.halo.boxes}, weights{args.stages};
  for (Walk walk = walk_of<teams>(args, team); walk.more(); walk.next()) {
    Piece<Rectangle> piece{warpgroup, (walk.filter_tile() * groups + group) * block_filters,
                           rectangle(args.halo, walk.pixel_tile(), height)};
    const Window window(args, piece.place.corner, height);
    const float* bias = args.bias + piece.first_filter + warp * 16 + lane / 4;
    piece.bias[0] = __ldg(bias), piece.bias[1] = __ldg(bias + 8);
    if (args.halo.resident) weights = {args.stages};  // what has landed stays
    float d[n / 2];
    multiply<T, groups, n>(args, memory, boxes, weights, team, group, slabs * window.taps(), d);
    if constexpr (n % 64 == 0) {
      if (args.pooled) {
        store_pooled<T, n, chunk>(args, output, memory, piece, d);
        continue;
      }
    }
    store.run(piece, d);
  }
  if (threadIdx.x % 128 == 0) ptx::bulk_wait_read<0>();
}

template <class T, int groups, int teams, int n, int chunk, int rows>
__device__ __forceinline__ void convolve(const Arguments& args, const CUtensorMap& input, const CUtensorMap& output,
                                         const CUtensorMap& residual) {
  extern __shared__ __align__(1024) unsigned char bytes[];
  // What the consumers take is what the producers' warpgroup gives back: more would wait for ever.
  static_assert(teams <= 2, "a warp of the producers' for each");
  constexpr int consumers = groups * teams, at_launch = 65536 / ((consumers + 1) * 128) / 8 * 8,
                producer_registers = 72;
  constexpr int taken = at_launch + (at_launch - producer_registers) / consumers / 8 * 8;
  let_successor_start(args.neighbours);
  const Memory<T, groups, teams, chunk, rows> memory(bytes, args);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == consumers * 128) {
    for (int box = 0; box < teams * args.halo.boxes; ++box) {
      ptx::barrier_init(memory.box_full + box, 1);
      ptx::barrier_init(memory.box_empty + box, groups * 4);
    }
    for (int stage = 0; stage < args.stages; ++stage) {
      ptx::barrier_init(memory.full + stage, 1);
      ptx::barrier_init(memory.empty + stage, groups * 4);
    }
    for (int i = 0; args.adds && i < 2 * consumers << args.log2_buffers; ++i) ptx::barrier_init(memory.added + i, 1);
    ptx::barrier_init_fence();
    ptx::prefetch_map(input);
    ptx::prefetch_map(output);
    if (args.adds) ptx::prefetch_map(residual);
  }
  __syncthreads();
  if (thread < consumers * 128) {
    ptx::take_registers<(taken < 240 ? taken : 240)>();
    // Copies wait by themselves, but what is added may be read here.
    if (args.adds) wait_for_predecessor(args.neighbours);
    return consume<T, groups, teams, n, chunk>(args, output, memory);
  }
  ptx::give_registers_back<producer_registers>();
  if (thread == consumers * 128) bring_weights<groups>(args, memory, n / rectangle_width);
  if (args.adds && thread == consumers * 128 + 32) bring_added<T, groups, teams, n, chunk>(args, residual, memory);
#pragma unroll
  for (int team = 0; team < teams; ++team) {
    if (thread == consumers * 128 + 64 + team * 32) bring_boxes<teams>(args, input, memory, team, n / rectangle_width);
  }
  end_beside(args.neighbours);
}

template <class T, int groups, int teams, int n, int chunk, int rows>
__global__ void __launch_bounds__((groups * teams + 1) * 128, 1)
    halo_kernel(const __grid_constant__ Arguments args, const __grid_constant__ CUtensorMap input,
                const __grid_constant__ CUtensorMap output, const __grid_constant__ CUtensorMap residual) {
  if constexpr (ptx::wgmma_compiled) {
    convolve<T, groups, teams, n, chunk, rows>(args, input, output, residual);
  } else {
    __trap();  // never launched: DeviceDescription::wgmma
  }
}

/// `rows`: filters whose weights are brought. Of 32, wgmma multiplies what follows, too: sums that nobody looks at.
template <class T, int groups, int teams, int n, int rows = block_filters>
Tile make_tile() {
  constexpr int chunk = teams > 1 ? n : 32;
  return {.operand = operand_of<T>,
          .groups = groups,
          .pixels = n,
          .teams = teams,
          .pools = n % 64 == 0,
          .max_filters = rows == block_filters ? 0 : rows,
          .stage_bytes = Memory<T, groups, teams, chunk, rows>::stage_bytes,
          .store_pixels = chunk,
          .kernel = reinterpret_cast<const void*>(&halo_kernel<T, groups, teams, n, chunk, rows>)};
}

/// For layers whose weights stay in shared memory, and for wider ones. Heights of 14 and 28 divide 56, 112 and 224.
template <class T>
std::vector<Tile> make_tiles() {
  return {make_tile<T, 1, 2, 112>(), make_tile<T, 1, 2, 128>(), make_tile<T, 2, 1, 224>(), make_tile<T, 2, 1, 256>(),
          make_tile<T, 1, 2, 112, 32>()};
}

}  // namespace lamina::cuda::channels_last::halo
