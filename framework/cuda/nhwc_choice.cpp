#include "lamina/cuda/nhwc_choice.h"

#include <algorithm>
#include <array>
#include <limits>

#include "lamina/cuda/check.h"
#include "lamina/tensor/math.h"

namespace lamina::cuda::nhwc {
namespace {

using lamina::detail::ceil_div;

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

/// What a step takes in clock cycles: of the tensor cores, or of shared memory, into which the copies go and out of
/// which both operands come, or of this multiprocessor's share of what L2 delivers. The constants, here and in
/// `choose`, are fitted to 1,188 measured combinations of layer, batch, tile and sharing on an H200 (docs/nhwc.md).
double step_cycles(const Tile& tile, int multicast, bool split) {
  constexpr double l2_bytes_per_cycle = 60, shared_bytes_per_cycle = 157, waiting = 13, waiting_for_others = 60;
  const double products = 2.0 * tile.groups * tile.pixels * (split ? 3 : 1);
  const double weights = tile.groups * 64.0 * step_bytes, pixels = tile.pixels * double{step_bytes};
  // Split: low words are made from pixels; each product reads the pixels again, and the weights come once, by ldmatrix.
  const double read = split ? weights + pixels * (3 * tile.groups + 1) : weights + pixels * tile.groups;
  const double written = weights + pixels * (split ? 2 : 1);
  return std::max({products, (read + written) / shared_bytes_per_cycle,
                   (weights / multicast + pixels) / l2_bytes_per_cycle}) +
         waiting + (multicast > 1 ? waiting_for_others : 0.0);
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

/// As many stages as fit.
int stages_that_fit(const Tile& tile, int splits, int limit) {
  int stages = most_stages;
  while (stages > 0 && tile.shared_bytes(stages, splits) > limit) --stages;
  return stages;
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

std::optional<Choice> choose(const ConvGeometry& geometry, const Conv2dOptions& options, const NhwcChoice& wanted) {
  const int limit = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, options.device);
  const int filter_blocks = ceil_div(geometry.out_channels, block_filters);
  const int steps = step_count(geometry, options.precision);
  const std::int64_t pixels = geometry.batch * geometry.out_pixels();
  const auto all = tiles(options.precision);

  std::optional<Choice> best;
  double best_cycles = std::numeric_limits<double>::infinity();
  std::array<int, most_splits + 1> at_once{};  // by size of cluster; every tile fills a multiprocessor
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tile& tile = all[i];
    if (wanted.tile >= 0 && static_cast<std::size_t>(wanted.tile) != i) continue;
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, tile.kernel) != cudaSuccess) {
      (void)cudaGetLastError();
      continue;
    }
    if (attributes.sharedSizeBytes != 0) continue;  // a build for plain sm_90, which has no wgmma
    for (const int cluster : {1, 2, 3, 4, 5, 6, 7, 8}) {
      for (const bool sharing_weights : {true, false}) {
        const int multicast = sharing_weights ? cluster : 1, splits = sharing_weights ? 1 : cluster;
        if (cluster == 1 && !sharing_weights) continue;
        if (multicast != 1 && multicast != 2 && multicast != 4) continue;
        if (wanted.multicast > 0 && wanted.multicast != multicast) continue;
        if (wanted.splits > 0 && wanted.splits != splits) continue;
        if (splits > steps) continue;
        const int stages = stages_that_fit(tile, splits, limit);
        if (stages < 2) continue;
        check(cudaFuncSetAttribute(tile.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, limit));
        int& slots = at_once[static_cast<std::size_t>(cluster)];
        if (slots == 0) slots = clusters_at_once(tile, cluster, limit);
        if (slots == 0) continue;

        const std::int64_t clusters = ceil_div<std::int64_t>(ceil_div<std::int64_t>(pixels, tile.pixels), multicast) *
                                      ceil_div(filter_blocks, tile.groups);
        if (clusters * cluster > std::numeric_limits<int>::max()) continue;
        const auto waves = static_cast<double>(ceil_div<std::int64_t>(clusters, slots));
        constexpr double beginning = 3200, reduction = 1040, reduction_of_pixel = 13;
        const double step = step_cycles(tile, multicast, options.precision == Precision::fp32);
        const double cycles =
            beginning + waves * (ceil_div(steps, splits) * step +
                                 (splits > 1 ? reduction + reduction_of_pixel * tile.groups * tile.pixels : 0.0));
        if (cycles >= best_cycles) continue;
        best_cycles = cycles;
        // Split tiles are no persistent blocks: one to a cluster, however many.
        const std::int64_t launched = splits > 1 ? clusters : std::min<std::int64_t>(clusters, slots);
        best = Choice{tile, multicast, splits, stages, static_cast<int>(launched) * cluster};
      }
    }
  }
  return best;
}

}  // namespace lamina::cuda::nhwc
