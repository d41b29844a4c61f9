#include "lamina/cuda/conv2d/channels_last/choice.h"

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cuda/conv2d/channels_last/rectangles.h"
#include "lamina/kernel/rules/order_of_sums.h"

namespace lamina::cuda::channels_last {
namespace {

using lamina::detail::ceil_div;

/// How the blocks of a cluster go together: `multicast` of them share the copies of the weights, or `splits` one tile.
struct Sharing {
  int multicast = 1, splits = 1;
  int cluster() const { return multicast * splits; }
};

constexpr Sharing sharings[] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {1, 6}, {1, 7}, {1, 8}};

std::int64_t cluster_count(const ConvGeometry& geometry, const Tile& tile, const Sharing& sharing) {
  const std::int64_t pixels = geometry.batch * geometry.out_pixels();
  return ceil_div<std::int64_t>(ceil_div<std::int64_t>(pixels, tile.pixels), sharing.multicast) *
         ceil_div(geometry.out_channels, tile.groups * block_filters);
}

// The constants below are fitted to 1,188 measured combinations of layer, batch, tile and sharing
// (docs/inside/channels_last.md).

/// The same for scaled operands, fitted to 1,100 more. `chains`: of K, for each step. `beside`: blocks that share a
/// multiprocessor, of which one multiplies while the other adds.
double scaled_step_cycles(const Tile& tile, int multicast, double chains, int beside) {
  constexpr double l2_bytes_per_cycle = 62, shared_bytes_per_cycle = 162;
  const bool pairs = tile.operand == Operand::scaled_pairs;
  const double groups = tile.groups, weights = groups * block_bytes, pixels = tile.pixels * double{step_bytes};
  // A step of pairs is three products of half its bytes. Between chains sums are scaled and added.
  const double products = 2.0 * groups * tile.pixels * (pairs ? 1.5 : 1);
  const double adding = 400 + 0.32 * tile.pixels * (pairs ? 2 : 1);
  const double multiplying =
      std::max({products, ((pairs ? 1.5 : 1) * (weights + groups * pixels) + weights + pixels) / shared_bytes_per_cycle,
                (weights / multicast + pixels) / l2_bytes_per_cycle});
  constexpr double crowding = 1.45;  // rings half as long
  return std::max(chains * adding + multiplying, beside > 1 ? beside * crowding * multiplying : 0);
}

/// What a step takes in clock cycles: of the tensor cores, or of shared memory, into which the copies go and out of
/// which both operands come, or of this multiprocessor's share of what L2 delivers.
/// `beside`: blocks that share a multiprocessor.
double step_cycles(const Tile& tile, int multicast, int beside) {
  constexpr double l2_bytes_per_cycle = 62, shared_bytes_per_cycle = 157;
  const bool split = tile.operand == Operand::split_tf32;
  const double products = 2.0 * tile.groups * tile.pixels * (split ? 3 : 1);
  const double weights = tile.groups * double{block_bytes}, pixels = tile.pixels * double{step_bytes};
  // Split: low words are made from pixels, and each of three products reads the pixels; ldmatrix reads the weights
  // once.
  const double read = weights + pixels * (split ? 3 * tile.groups + 1 : tile.groups);
  const double written = weights + pixels * (split ? 2 : 1);
  // Split: those who multiply first split their weights; a warpgroup alone has nobody to multiply meanwhile, unless it
  // runs ahead (split.cuh).
  const double waiting = (!split              ? 89
                          : tile.groups > 1   ? 440
                          : tile.pixels <= 64 ? 350
                                              : 560) +
                         (multicast > 1 ? 33 : 0);
  // Each is held up less than it would be by twice the work, unless that is all that there is to do.
  const double crowding = beside == 1 ? 1 : tile.operand == Operand::codes ? 2.3 : 1.5;
  return waiting + crowding * std::max({products, (read + written) / shared_bytes_per_cycle,
                                        (weights / multicast + pixels) / l2_bytes_per_cycle});
}

/// How a block's shared memory is laid out.
struct Stages {
  int count = 0;
  bool in_ring = false;
  int beside = 1;  // blocks of this launch that share a multiprocessor
  int log2_buffers = 1;
};

/// What a launch takes in clock cycles, `slots` clusters at a time, each block with `stages`.
double expected_cycles(const ConvGeometry& geometry, const Tile& tile, const Sharing& sharing, const Stages& stages,
                       std::int64_t clusters, int slots, const Demands& demands) {
  constexpr double beginning = 3130, reduction = 870, reduction_of_fragment = 21, stage_missing = 60;
  // The code that does more than a clamp, unrolled over a thread's sums, runs once and comes from L2.
  constexpr double finish_of_pixel = 40;
  const int own = ceil_div(step_count(geometry, tile.operand), sharing.splits);
  const int slabs = slab_count(geometry, tile.operand);
  const double chains = static_cast<double>(ceil_div(slabs, chain_slabs(tile.operand))) / slabs;
  const auto waves = static_cast<double>(ceil_div<std::int64_t>(clusters, slots));
  double wave = own * (is_scaled(tile.operand) ? scaled_step_cycles(tile, sharing.multicast, chains, stages.beside)
                                               : step_cycles(tile, sharing.multicast, stages.beside));
  if (sharing.splits > 1) wave += reduction + reduction_of_fragment * tile.groups * tile.pixels;
  if (waves == 1 && demands.longer) wave += finish_of_pixel * tile.pixels / sharing.splits;
  // Behind a ring that holds all steps nobody waits for a stage to be emptied; later waves find the ring in use anyway.
  if (waves == 1) wave += stage_missing * std::max(0, own - stages.count);
  // A warpgroup has nothing to multiply while it stores, which shows where there is but one and it multiplies little.
  constexpr int few_steps = 4;
  constexpr double store = 300, store_of_pixel = 15;
  if (geometry.out_channels <= block_filters && own <= few_steps)
    wave += (store + store_of_pixel * tile.pixels) * (1 - 1 / waves);
  // Codes are finished and stored box by box; to add them to others takes longer.
  if (demands.codes) {
    const double box = stages.beside > 1 ? 130 + 265 * tile.groups : std::max(390, 150 * tile.groups);
    wave += tile.pixels / 32.0 * box * (demands.adds ? 1.6 : 1);
  }
  return beginning + waves * wave;
}

/// What a block may have of a multiprocessor.
struct Room {
  int multiprocessors = 0;
  int shared_bytes = 0;       // of shared memory, for one block alone
  int half_shared_bytes = 0;  // for each of two
};

Room room_of(const DeviceDescription& device) {
  return {.multiprocessors = device.multiprocessors,
          .shared_bytes = device.shared_bytes,
          .half_shared_bytes = device.multiprocessor_shared_bytes / 2 - device.reserved_shared_bytes};
}

/// A chain of scaled operands holds two stages, and waits for the next chain's before it gives them back.
int least_stages(const Tile& tile) { return 2 * chain_slabs(tile.operand); }

/// As many stages as fit and as a block has steps. A block that has but one tile and few steps leaves room for one of
/// the next kernel, if its registers do. Sums of a split tile land in the ring's place where that makes it too short.
Stages stages_for(const Tile& tile, const Sharing& sharing, int steps, std::int64_t clusters, const Room& room,
                  bool adds, int log2_buffers) {
  const int own = ceil_div(steps, sharing.splits);
  const std::int64_t blocks = clusters * sharing.cluster();
  const bool one_wave = blocks <= room.multiprocessors, one_tile = sharing.splits > 1 || one_wave;
  const int wanted = one_tile ? std::clamp(own, least_stages(tile), max_stages) : max_stages;
  const auto most = [&](int shared_bytes, bool in_ring) {
    int stages = wanted;
    while (stages > 0 && tile.shared_bytes(stages, sharing.splits, in_ring, adds, log2_buffers) > shared_bytes)
      --stages;
    return stages;
  };
  // Two blocks on a multiprocessor: one multiplies while the other scales or finishes.
  const bool in_turn = is_scaled(tile.operand) || tile.operand == Operand::codes;
  if (!one_tile && sharing.cluster() == 1 && tile.resident > 1 && in_turn) {
    const int half = most(room.half_shared_bytes, false);
    if (half >= least_stages(tile)) return {half, false, tile.resident};
  }
  if (one_tile && tile.resident > 1) {
    const int beside = most(room.half_shared_bytes, false);
    // Stages that are missing cost less than a start behind the last block of a kernel that left no room: AlexNet's
    // conv2 at N = 1 found 78 of 132 multiprocessors free.
    const bool enough = beside + 4 >= own || (one_wave && 2 * beside >= own);
    if (beside >= least_stages(tile) && enough) return {beside, false};
  }
  // What would be little more than one wave is one, of two blocks on a multiprocessor.
  if (!one_tile && tile.resident > 1 && !is_scaled(tile.operand) && blocks <= 2 * room.multiprocessors) {
    const int half = most(room.half_shared_bytes, false);
    if (half >= least_stages(tile) && 2 * half >= own) return {half, false, tile.resident};
  }
  constexpr int enough = 4;  // by measurement at N = 8 and 32
  const int beside = most(room.shared_bytes, false);
  if (sharing.splits == 1 || beside >= std::min(wanted, enough)) return {beside, false};
  return {most(room.shared_bytes, true), true};
}

/// With as many store buffers for what is added, two tiles' at most, as leave the ring the stages that it needs to keep
/// going; with the two that there always are, if none do.
Stages stages_for(const Tile& tile, const Sharing& sharing, int steps, std::int64_t clusters, const Room& room,
                  bool adds) {
  constexpr int enough = 4;
  for (int log2 = adds && sharing.splits == 1 ? max_log2_buffers : 1; log2 > 1; --log2) {
    if (1 << log2 > 2 * tile.pixels / tile.store_pixels) continue;
    Stages stages = stages_for(tile, sharing, steps, clusters, room, adds, log2);
    stages.log2_buffers = log2;
    if (stages.count >= std::min(enough, std::max(steps, least_stages(tile)))) return stages;
  }
  return stages_for(tile, sharing, steps, clusters, room, adds, 1);
}

/// Images whose scaled rows have room in the workspace, in parts of about the same size; 0 if not even one has.
int images_at_once(const ConvGeometry& geometry, Operand operand, std::size_t limit) {
  if (!is_scaled(operand)) return static_cast<int>(geometry.batch);
  std::int64_t most = std::min(geometry.batch, max_pixels / std::max<std::int64_t>(1, geometry.in_pixels()));
  const std::size_t image = scaled_bytes(geometry, operand, 1).workspace();
  most = std::min(most, static_cast<std::int64_t>(limit / image));
  return most == 0 ? 0 : static_cast<int>(ceil_div(geometry.batch, ceil_div(geometry.batch, most)));
}

/// What scale_rows takes in clock cycles.
double scaling_cycles(const ConvGeometry& geometry) {
  constexpr double launch = 4130, bytes_per_cycle = 650;
  return launch + static_cast<double>(geometry.input_size()) * sizeof(float) / bytes_per_cycle;
}

std::vector<Tile> joined(std::vector<Tile> first, const std::vector<Tile>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace

std::vector<Tile> tiles(Precision precision) {
  switch (precision) {
    case Precision::fp16: return joined(tiles_fp16(), halo_tiles_fp16());
    case Precision::bf16: return joined(tiles_bf16(), halo_tiles_bf16());
    case Precision::tf32: return joined(tiles_tf32(), tiles_scaled_f16());
    case Precision::fp32: return joined(tiles_split_tf32(), tiles_scaled_pairs());
  }
  return {};
}

Demands demands_of(const Epilogue& epilogue, DType output) {
  const Finish finish = finish_of(epilogue, output, true);
  return {.longer = finish.kind != Finish::Kind::clamp,
          .adds = epilogue.reads_operands(),
          .last = finish.addition == Finish::Addition::last,
          .pooled = epilogue.pool.has_value()};
}

ScaledBytes scaled_bytes(const ConvGeometry& geometry, Operand operand, int images) {
  const auto pixels = static_cast<std::size_t>(images * geometry.in_pixels());
  const int slabs = slab_count(geometry, operand);
  return {.rows = pixels * static_cast<std::size_t>(slabs) * step_bytes,
          .scales = pixels * static_cast<std::size_t>(ceil_div(slabs, chain_slabs(operand))) * sizeof(float)};
}

namespace {

/// The fastest by estimate; `like`: among those that add up in its order.
std::optional<Choice> search(const ConvGeometry& geometry, const Preparation& preparation, const Demands& demands,
                             const Choice* like) {
  const Room room = room_of(preparation.device);
  const Tuning& wanted = preparation.tuning;
  const auto all = demands.codes ? tiles_codes() : tiles(preparation.precision);
  std::optional<Choice> best;
  double best_cycles = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tile& tile = all[i];
    if (wanted.tile >= 0 && static_cast<std::size_t>(wanted.tile) != i) continue;
    if ((!demands.scaled && is_scaled(tile.operand)) || ((demands.longer || demands.adds) && !tile.roomy) ||
        (demands.last && !tile.adds_last) || (demands.pooled && !tile.pools) || (demands.single && tile.groups > 1) ||
        (tile.max_filters > 0 && geometry.out_channels > tile.max_filters))
      continue;
    if (demands.group_filters > 0 && (tile.teams > 0 || demands.group_filters % (tile.groups * block_filters) != 0))
      continue;
    if (tile.teams > 0) {
      if (wanted.multicast > 1 || wanted.splits > 1 || (like != nullptr && !like->adds_up_like({.tile = tile})))
        continue;
      const auto choice = fit_rectangles(geometry, tile, preparation.device, demands);
      if (choice && choice->cycles < best_cycles) best_cycles = choice->cycles, best = choice;
      continue;
    }
    const int steps = step_count(geometry, tile.operand);
    ConvGeometry part = geometry;
    part.batch = images_at_once(geometry, tile.operand, preparation.workspace_limit);
    if (part.batch == 0) continue;
    const auto launches = static_cast<double>(ceil_div(geometry.batch, part.batch));
    for (const Sharing& sharing : sharings) {
      if (wanted.multicast > 0 && wanted.multicast != sharing.multicast) continue;
      if (wanted.splits > 0 && wanted.splits != sharing.splits) continue;
      // More blocks cannot share out ten fragments evenly; by measurement slower than the others, and than estimated.
      if (tile.pixels == 80 && sharing.splits > 3 && wanted.splits <= 0) continue;
      if (like != nullptr && !like->adds_up_like({.tile = tile, .splits = sharing.splits})) continue;
      const std::int64_t clusters = cluster_count(part, tile, sharing);
      const Stages stages = stages_for(tile, sharing, steps, clusters, room, demands.adds);
      if (sharing.splits * chain_slabs(tile.operand) > steps || stages.count < least_stages(tile)) continue;
      const int slots = preparation.device.clusters[static_cast<std::size_t>(sharing.cluster())] * stages.beside;
      if (slots == 0 || clusters * sharing.cluster() > std::numeric_limits<int>::max()) continue;
      const double cycles = launches * (expected_cycles(part, tile, sharing, stages, clusters, slots, demands) +
                                        (is_scaled(tile.operand) ? scaling_cycles(part) : 0));
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      // Blocks are persistent, unless they split a tile: those are launched however many there are.
      const std::int64_t launched = sharing.splits > 1 ? clusters : std::min<std::int64_t>(clusters, slots);
      best = Choice{.tile = tile,
                    .multicast = sharing.multicast,
                    .splits = sharing.splits,
                    .stages = stages.count,
                    .in_ring = stages.in_ring,
                    .log2_buffers = stages.log2_buffers,
                    .blocks = static_cast<int>(launched) * sharing.cluster(),
                    .images = static_cast<int>(part.batch),
                    .cycles = cycles};
    }
  }
  return best;
}

}  // namespace

std::optional<Choice> choose(const ConvGeometry& geometry, const Preparation& preparation, const Demands& demands) {
  return lamina::detail::choose_order(geometry, preparation, [&](const ConvGeometry& g, const Choice* like) {
    return search(g, preparation, demands, like);
  });
}

}  // namespace lamina::cuda::channels_last
