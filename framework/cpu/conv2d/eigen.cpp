// Convolution as products of the weights with columns: whole images at a time (im2col), or tiles that stay in cache.
// Source: Chellapilla, Puri, Simard, "High Performance Convolutional Neural Networks for Document Processing", 2006.

// Eigen packs its operands into scratch memory, on the stack up to this size and on the heap above it. A tile's
// operands stay below, so that running a plan allocates nothing.
#define EIGEN_STACK_ALLOCATION_LIMIT (1 << 20)

#include "lamina/cpu/eigen.h"
//
#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/conv2d.h"
#include "lamina/cpu/conv2d/unfold.h"

namespace lamina::cpu {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Block = Eigen::Map<RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;
using ConstBlock = Eigen::Map<const RowMajor, Eigen::Unaligned, Eigen::OuterStride<>>;

/// Bytes of columns that a tile may take: half of a 512 KB L2 holds them beside the weights.
constexpr std::int64_t tile_bytes = 144 << 10;
/// A whole number of register blocks of Eigen's product, 3 vectors high on AVX2 (24) and AVX-512 (48).
constexpr std::int64_t tile_multiple = 48;

/// The longest chain of additions. On a flat image every addition rounds the same way: 363 equal products summed in one
/// chain err by 5.4e-6 of their sum, and the contract allows 3e-6.
constexpr std::int64_t longest_chain = 128;

/// Computes pixels [first, first + count) of all channels of one group of one image.
void compute_tile(const ConvGeometry& g, const Conv2dPointers& p, std::int64_t n, int group, std::int64_t first,
                  int count, float* columns) {
  const std::int64_t k = g.reduction();
  const std::int64_t channels = g.group_out_channels();
  const std::int64_t oc = group * channels;
  const float* image = p.input + (n * g.in_channels + std::int64_t{group} * g.group_in_channels()) * g.in_pixels();
  unfold(g, image, first, count, columns, count);

  float* out = p.output + (n * g.out_channels + oc) * g.out_pixels() + first;
  Block y(out, channels, count, Eigen::OuterStride<>(g.out_pixels()));

  // The product adds to what is there, so the bias costs nothing.
  for (std::int64_t c = 0; c < channels; ++c) y.row(c).setConstant(p.bias != nullptr ? p.bias[oc + c] : 0.0f);
  const std::int64_t slice = detail::ceil_div(k, detail::ceil_div(k, longest_chain));
  for (std::int64_t begin = 0; begin < k; begin += slice) {
    const std::int64_t depth = std::min(slice, k - begin);
    const ConstBlock weight(p.weight + oc * k + begin, channels, depth, Eigen::OuterStride<>(k));
    const ConstBlock cols(columns + begin * count, depth, count, Eigen::OuterStride<>(count));
    y.noalias() += weight * cols;
  }
  if (p.relu) y = (y.array() < 0.0f).select(0.0f, y);
}

void compute(const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool, std::int64_t tile, float* workspace) {
  const std::int64_t tiles = detail::ceil_div(g.out_pixels(), tile);
  const std::int64_t buffer = g.reduction() * tile;
  pool.parallel_for(g.batch * g.groups * tiles, [&](std::int64_t index, int worker) {
    const std::int64_t first = index % tiles * tile;
    const auto group = static_cast<int>(index / tiles % g.groups);
    const auto count = static_cast<int>(std::min(tile, g.out_pixels() - first));
    compute_tile(g, p, index / tiles / g.groups, group, first, count, workspace + worker * buffer);
  });
}

std::size_t workspace_bytes(const ConvGeometry& g, std::int64_t tile, int threads) {
  const auto floats =
      detail::product_up_to(std::numeric_limits<std::int64_t>::max() / 8, {g.reduction(), tile, threads});
  if (!floats) detail::fail("conv2d: columns of ", g.reduction(), " rows for ", tile, " pixels are too large");
  return static_cast<std::size_t>(*floats) * sizeof(float);
}

}  // namespace

int conv2d_eigen_tile(const ConvGeometry& g) {
  const std::int64_t fits = tile_bytes / (g.reduction() * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t tile = std::max(tile_multiple, fits / tile_multiple * tile_multiple);
  return static_cast<int>(std::min(tile, g.out_pixels()));
}

void conv2d_eigen(const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool, float* workspace) {
  compute(g, p, pool, conv2d_eigen_tile(g), workspace);
}

std::size_t conv2d_eigen_workspace(const ConvGeometry& g, int threads) {
  return workspace_bytes(g, conv2d_eigen_tile(g), threads);
}

void conv2d_im2col(const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool, float* workspace) {
  compute(g, p, pool, g.out_pixels(), workspace);
}

std::size_t conv2d_im2col_workspace(const ConvGeometry& g, int threads) {
  return workspace_bytes(g, g.out_pixels(), threads);
}

}  // namespace lamina::cpu
