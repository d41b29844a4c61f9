// The readable reference: an image unfolded to columns, and Eigen's product of the weights with them. Source:
// Chellapilla, Puri, Simard, "High Performance Convolutional Neural Networks for Document Processing", 2006.

#include "lamina/cpu/eigen.h"
//
#include <algorithm>
#include <limits>

#include "lamina/base/error.h"
#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/conv2d.h"

namespace lamina::cpu {
namespace {

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// The longest chain of additions. On a flat image every addition rounds the same way: 363 equal products summed in one
/// chain err by 5.4e-6 of their sum, and the contract allows 3e-6.
constexpr Eigen::Index longest_chain = 128;

/// columns [C / groups * KH * KW, OH * OW]: what each weight meets at each output, 0 on padding. `image`: the group's
/// first channel.
void unfold(const ConvGeometry& g, const float* image, float* columns) {
  for (int c = 0; c < g.group_in_channels(); ++c) {
    for (int kh = 0; kh < g.kernel_height; ++kh) {
      for (int kw = 0; kw < g.kernel_width; ++kw) {
        for (int row = 0; row < g.out_height; ++row) {
          const std::int64_t y =
              std::int64_t{row} * g.stride_height - g.padding_height + std::int64_t{kh} * g.dilation_height;
          for (int column = 0; column < g.out_width; ++column) {
            const std::int64_t x =
                std::int64_t{column} * g.stride_width - g.padding_width + std::int64_t{kw} * g.dilation_width;
            const bool inside = y >= 0 && y < g.in_height && x >= 0 && x < g.in_width;
            *columns++ = inside ? image[c * g.in_pixels() + y * g.in_width + x] : 0.0f;
          }
        }
      }
    }
  }
}

}  // namespace

void conv2d_eigen(const ConvGeometry& g, const Conv2dPointers& p, ThreadPool& pool, float* workspace) {
  const Eigen::Index terms = g.reduction(), pixels = g.out_pixels(), filters = g.group_out_channels();
  pool.parallel_for(g.batch * g.groups, [&](std::int64_t task, int worker) {
    const std::int64_t image = task / g.groups, group = task % g.groups, first = group * filters;
    float* const own = workspace + worker * terms * pixels;
    unfold(g, p.input + (image * g.in_channels + group * g.group_in_channels()) * g.in_pixels(), own);
    const Eigen::Map<const RowMajor> weight(p.weight + first * terms, filters, terms), columns(own, terms, pixels);
    Eigen::Map<RowMajor> y(p.output + (image * g.out_channels + first) * pixels, filters, pixels);
    for (Eigen::Index f = 0; f < filters; ++f) y.row(f).setConstant(p.bias != nullptr ? p.bias[first + f] : 0.0f);
    for (Eigen::Index k = 0; k < terms; k += longest_chain) {
      const Eigen::Index depth = std::min(longest_chain, terms - k);
      y.noalias() += weight.middleCols(k, depth) * columns.middleRows(k, depth);
    }
    if (p.relu) y = (y.array() < 0.0f).select(0.0f, y);
  });
}

std::size_t conv2d_eigen_workspace(const ConvGeometry& g, int threads) {
  const auto floats =
      detail::product_up_to(std::numeric_limits<std::int64_t>::max() / 8, {g.reduction(), g.out_pixels(), threads});
  if (!floats)
    detail::fail("conv2d: columns of ", g.reduction(), " rows for ", g.out_pixels(), " pixels are too large");
  return static_cast<std::size_t>(*floats) * sizeof(float);
}

}  // namespace lamina::cpu
