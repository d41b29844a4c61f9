#include "lamina/cuda/nhwc_choice.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lamina/cuda/check.h"
#include "lamina/tensor/math.h"

namespace lamina::cuda::nhwc {
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

// The constants below are fitted to 1,188 measured combinations of layer, batch, tile and sharing (docs/nhwc.md).

/// What a step takes in clock cycles: of the tensor cores, or of shared memory, into which the copies go and out of
/// which both operands come, or of this multiprocessor's share of what L2 delivers.
double step_cycles(const Tile& tile, int multicast, bool split) {
  constexpr double l2_bytes_per_cycle = 62, shared_bytes_per_cycle = 157;
  const double products = 2.0 * tile.groups * tile.pixels * (split ? 3 : 1);
  const double weights = tile.groups * double{block_bytes}, pixels = tile.pixels * double{step_bytes};
  // Split: low words are made from pixels, and each of three products reads the pixels; ldmatrix reads the weights
  // once.
  const double read = weights + pixels * (split ? 3 * tile.groups + 1 : tile.groups);
  const double written = weights + pixels * (split ? 2 : 1);
  // Split: those who multiply first split their weights; a warpgroup alone has nobody to multiply meanwhile, unless it
  // runs ahead (nhwc_split.cuh).
  const double waiting = (!split              ? 89
                          : tile.groups > 1   ? 440
                          : tile.pixels <= 64 ? 350
                                              : 560) +
                         (multicast > 1 ? 33 : 0);
  return waiting + std::max({products, (read + written) / shared_bytes_per_cycle,
                             (weights / multicast + pixels) / l2_bytes_per_cycle});
}

/// What a launch takes in clock cycles, `slots` clusters at a time, each block with `stages`.
double expected_cycles(const Tile& tile, const Sharing& sharing, Precision precision, int steps, int stages,
                       std::int64_t clusters, int slots) {
  constexpr double beginning = 3130, reduction = 870, reduction_of_fragment = 21, stage_missing = 60;
  const int own = ceil_div(steps, sharing.splits);
  const auto waves = static_cast<double>(ceil_div<std::int64_t>(clusters, slots));
  double wave = own * step_cycles(tile, sharing.multicast, precision == Precision::fp32);
  if (sharing.splits > 1) wave += reduction + reduction_of_fragment * tile.groups * tile.pixels;
  // Behind a ring that holds all steps nobody waits for a stage to be emptied; later waves find the ring in use anyway.
  if (waves == 1) wave += stage_missing * std::max(0, own - stages);
  return beginning + waves * wave;
}

/// Clusters of that many blocks, one block to a multiprocessor, that the device holds at a time.
int clusters_at_once(const Tile& tile, int cluster, int all_shared_bytes) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(cluster));
  config.blockDim = dim3(static_cast<unsigned>(tile.threads()));
  config.dynamicSmemBytes = static_cast<std::size_t>(all_shared_bytes);
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  check(cudaOccupancyMaxActiveClusters(&count, tile.kernel, &config));
  return count;
}

/// What a block may have of a multiprocessor.
struct Room {
  int multiprocessors = 0;
  int shared_bytes = 0;       // of shared memory, for one block alone
  int half_shared_bytes = 0;  // for each of two
};

Room room_of(int device) {
  return {.multiprocessors = device_attribute(device, cudaDevAttrMultiProcessorCount),
          .shared_bytes = device_attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin),
          .half_shared_bytes = device_attribute(device, cudaDevAttrMaxSharedMemoryPerMultiprocessor) / 2 -
                               device_attribute(device, cudaDevAttrReservedSharedMemoryPerBlock)};
}

/// How a block's shared memory is laid out.
struct Stages {
  int count = 0;
  bool in_ring = false;
};

/// As many stages as fit and as a block has steps. A block that has but one tile and few steps leaves room for one of
/// the next kernel, if its registers do. Sums of a split tile land in the ring's place where that makes it too short.
Stages stages_for(const Tile& tile, const Sharing& sharing, int steps, std::int64_t clusters, const Room& room) {
  const int own = ceil_div(steps, sharing.splits);
  const bool one_tile = sharing.splits > 1 || clusters * sharing.cluster() <= room.multiprocessors;
  const int wanted = one_tile ? std::clamp(own, 2, most_stages) : most_stages;
  const auto most = [&](int shared_bytes, bool in_ring) {
    int stages = wanted;
    while (stages > 0 && tile.shared_bytes(stages, sharing.splits, in_ring) > shared_bytes) --stages;
    return stages;
  };
  if (one_tile && tile.resident > 1) {
    const int beside = most(room.half_shared_bytes, false);
    // Four stages fewer than steps cost less than a start behind the last block of a kernel that left no room:
    // AlexNet's conv2 at N = 1 found 78 of 132 multiprocessors free.
    if (beside >= 2 && beside + 4 >= own) return {beside, false};
  }
  constexpr int enough = 4;  // by measurement at N = 8 and 32
  const int beside = most(room.shared_bytes, false);
  if (sharing.splits == 1 || beside >= std::min(wanted, enough)) return {beside, false};
  return {most(room.shared_bytes, true), true};
}

}  // namespace

int step_terms(Precision precision) {
  return precision == Precision::fp32 || precision == Precision::tf32 ? step_bytes / 4 : step_bytes / 2;
}

int step_count(const ConvGeometry& geometry, Precision precision) {
  return ceil_div(geometry.in_channels, step_terms(precision)) * geometry.kernel_height * geometry.kernel_width;
}

std::vector<Tile> tiles(Precision precision) {
  switch (precision) {
    case Precision::fp16: return tiles_fp16();
    case Precision::bf16: return tiles_bf16();
    case Precision::tf32: return tiles_tf32();
    case Precision::fp32: return tiles_fp32();
  }
  return {};
}

bool has_code(Precision precision) {
  cudaFuncAttributes attributes{};
  const auto all = tiles(precision);
  if (cudaFuncGetAttributes(&attributes, all.front().kernel) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  return attributes.sharedSizeBytes == 0;  // a kernel for plain sm_90, which has no wgmma, declares some
}

std::optional<Choice> choose(const ConvGeometry& geometry, const Conv2dOptions& options, const NhwcChoice& wanted) {
  const Room room = room_of(options.device);
  const int steps = step_count(geometry, options.precision);
  const auto all = tiles(options.precision);
  std::optional<Choice> best;
  double best_cycles = std::numeric_limits<double>::infinity();
  std::array<int, most_splits + 1> at_once{};  // clusters, by their size
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tile& tile = all[i];
    if (wanted.tile >= 0 && static_cast<std::size_t>(wanted.tile) != i) continue;
    check(cudaFuncSetAttribute(tile.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, room.shared_bytes));
    check(cudaFuncSetAttribute(tile.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared));
    for (const Sharing& sharing : sharings) {
      if (wanted.multicast > 0 && wanted.multicast != sharing.multicast) continue;
      if (wanted.splits > 0 && wanted.splits != sharing.splits) continue;
      const std::int64_t clusters = cluster_count(geometry, tile, sharing);
      const Stages stages = stages_for(tile, sharing, steps, clusters, room);
      if (sharing.splits > steps || stages.count < 2) continue;
      int& slots = at_once[static_cast<std::size_t>(sharing.cluster())];
      if (slots == 0) slots = clusters_at_once(tile, sharing.cluster(), room.shared_bytes);
      if (slots == 0 || clusters * sharing.cluster() > std::numeric_limits<int>::max()) continue;
      const double cycles = expected_cycles(tile, sharing, options.precision, steps, stages.count, clusters, slots);
      if (cycles >= best_cycles) continue;
      best_cycles = cycles;
      // Blocks are persistent, unless they split a tile: those are launched however many there are.
      const std::int64_t launched = sharing.splits > 1 ? clusters : std::min<std::int64_t>(clusters, slots);
      best = Choice{.tile = tile,
                    .multicast = sharing.multicast,
                    .splits = sharing.splits,
                    .stages = stages.count,
                    .in_ring = stages.in_ring,
                    .blocks = static_cast<int>(launched) * sharing.cluster()};
    }
  }
  return best;
}

}  // namespace lamina::cuda::nhwc
