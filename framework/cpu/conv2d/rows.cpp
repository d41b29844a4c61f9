// Images of planes as they lie: neighbouring pixels are the lanes of vectors, and their sums stay in registers while
// all terms of a filter's reduction are added. Few filters in a group fill no vector of filters, and nothing is turned
// to channels last and back.
//
// A task is a band of rows of a group. The rows that it reads are copied between the zeros of the padding, so that each
// term is a run of neighbours at an offset of its own, through all rows of the band: what is summed between the end of
// a row and the beginning of the next is left out when the sums are copied to their place.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/conv2d/rows.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>
#include <limits>

#include "lamina/base/math.h"
#include "lamina/cpu/conv2d/conv2d.h"
#include "lamina/cpu/vectors-inl.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

constexpr int vectors = 4;

/// A few vectors of neighbours, of one filter or two that read the same. `weight` [filters, terms].
template <int filters>
HWY_INLINE void tile(std::span<const std::int64_t> terms, const float* input, const float* weight, const float* bias,
                     float low, float* output, std::int64_t pitch) {
  constexpr std::size_t longest_chain = 128;  // of additions: see eigen.cpp
  const Tag d;
  Vector total[filters][vectors], sums[filters][vectors];
  for (int f = 0; f < filters; ++f) std::fill_n(total[f], vectors, hn::Set(d, bias == nullptr ? 0.0f : bias[f]));
  for (std::size_t k = 0; k < terms.size();) {
    for (auto& each : sums) std::fill_n(each, vectors, hn::Zero(d));
    for (const std::size_t end = std::min(terms.size(), k + longest_chain); k < end; ++k) {
      for (int v = 0; v < vectors; ++v) {
        const Vector pixels = hn::LoadU(d, input + terms[k] + v * lanes);
        for (int f = 0; f < filters; ++f) {
          sums[f][v] =
              hn::MulAdd(hn::Set(d, weight[static_cast<std::size_t>(f) * terms.size() + k]), pixels, sums[f][v]);
        }
      }
    }
    for (int f = 0; f < filters; ++f) {
      for (int v = 0; v < vectors; ++v) total[f][v] = hn::Add(total[f][v], sums[f][v]);
    }
  }
  const Vector high = hn::Set(d, std::numeric_limits<float>::infinity());
  for (int f = 0; f < filters; ++f, output += pitch) {
    for (int v = 0; v < vectors; ++v) hn::StoreU(clamped(total[f][v], hn::Set(d, low), high), d, output + v * lanes);
  }
}

void copy_rows(const float* from, std::int64_t from_pitch, float* to, std::int64_t to_pitch, std::int64_t rows,
               std::int64_t width) {
  for (; rows-- > 0; from += from_pitch, to += to_pitch) {
    for_vectors(width, [&](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(hn::LoadU(d, from + i), d, to + i); });
  }
}

/// `top`: the band's first row; `group`: of all images.
void run(const ConvGeometry& g, const RowBand& band, const Conv2dPointers& p, std::int64_t top, std::int64_t group,
         std::byte* workspace) {
  const std::int64_t filters = g.group_out_channels(), channels = g.group_in_channels();
  const std::int64_t height = std::min(band.height, g.out_height - top), above = top - g.padding_height;
  const std::int64_t first = std::max<std::int64_t>(0, above);
  const std::int64_t there = std::min<std::int64_t>(g.in_height, above + band.rows) - first;
  const auto count = static_cast<std::size_t>(g.reduction());
  const std::span<std::int64_t> terms(reinterpret_cast<std::int64_t*>(workspace), count);
  auto* const input = reinterpret_cast<float*>(terms.data() + count);
  float* const sums = input + band.input;
  std::fill_n(input, band.input, 0.0f);
  auto term = terms.begin();
  for (std::int64_t c = 0; c < channels; ++c) {
    copy_rows(p.input + ((group * channels + c) * g.in_height + first) * g.in_width, g.in_width,
              input + (c * band.rows + first - above) * band.pitch + g.padding_width, band.pitch, there, g.in_width);
    for (std::int64_t row = 0; row < g.kernel_height; ++row) {
      for (std::int64_t column = 0; column < g.kernel_width; ++column) {
        *term++ = (c * band.rows + row * g.dilation_height) * band.pitch + column * g.dilation_width;
      }
    }
  }
  for (std::int64_t f = 0; f < filters; f += 2) {
    const std::int64_t filter = group % g.groups * filters + f, several = std::min<std::int64_t>(2, filters - f);
    for (std::int64_t i = 0; i < height * band.pitch; i += vectors * lanes) {
      (several == 2 ? tile<2> : tile<1>)(terms, input + i, p.weight + filter * g.reduction(),
                                         p.bias == nullptr ? nullptr : p.bias + filter,
                                         p.relu ? 0.0f : -std::numeric_limits<float>::infinity(), sums + i, band.sums);
    }
    for (std::int64_t i = 0; i < several; ++i) {
      copy_rows(sums + i * band.sums, band.pitch,
                p.output + ((group * filters + f + i) * g.out_height + top) * g.out_width, g.out_width, height,
                g.out_width);
    }
  }
}

constexpr RowKernel kernel = {LAMINA_SIMD_SET, run};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const RowKernel> row_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

RowBand::RowBand(const ConvGeometry& g) {
  constexpr std::int64_t sums_in_l1 = 4096, tile = 64;
  pitch = g.out_width + std::int64_t{g.kernel_width - 1} * g.dilation_width;
  height = std::clamp<std::int64_t>(sums_in_l1 / pitch, 1, g.out_height);
  rows = height + std::int64_t{g.kernel_height - 1} * g.dilation_height;
  const auto read = detail::product_up_to(1 << 22, {g.group_in_channels(), rows, pitch});
  takes = read && g.reduction() <= *read + 1 && g.stride_height * g.stride_width == 1;
  input = detail::round_up(read.value_or(0) + pitch, tile) + tile;  // the last tile reads past the last row
  sums = detail::round_up(height * pitch, tile);
  workspace = static_cast<std::size_t>((input + 2 * sums) * 4 + g.reduction() * 8);
}

}  // namespace lamina::cpu
#endif
