#include "lamina/cuda/conv2d/channels_last/weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "lamina/base/in_parallel.h"
#include "lamina/cuda/tensor_core/scaled_rows.h"
#include "lamina/cuda/tensor_core/weights.h"
#include "lamina/tensor/dtype.h"

namespace lamina::cuda::channels_last {
namespace {

/// Packs [blocks of 64 filters, steps, 64, 128 bytes]. `store(row, term, w, filter)` writes a term of a row, whose
/// bytes `row` gives by their place in it.
template <class Store>
std::vector<unsigned char> pack(const ConvGeometry& g, Operand operand, int filter_blocks, const float* weight,
                                Store&& store) {
  const int terms = step_terms(operand), taps = g.kernel_height * g.kernel_width, slabs = slab_count(g, operand);
  const auto steps = static_cast<std::size_t>(step_count(g, operand));
  std::vector<unsigned char> packed(static_cast<std::size_t>(filter_blocks) * steps * block_bytes);
  const auto pack_filter = [&](int filter) {
    const float* w = weight + static_cast<std::int64_t>(filter) * g.reduction();
    unsigned char* block = packed.data() + static_cast<std::size_t>(filter / block_filters) * steps * block_bytes;
    for (int channel = 0; channel < g.in_channels; ++channel) {
      for (int tap = 0; tap < taps; ++tap) {
        const int step = step_of(channel / terms, tap, slabs, taps, chain_slabs(operand));
        unsigned char* rows = block + static_cast<std::size_t>(step) * block_bytes;
        const auto put = [&](int byte, const auto& value) {
          std::memcpy(rows + swizzled(filter % block_filters, byte / 16 * 16) + byte % 16, &value, sizeof(value));
        };
        store(put, channel % terms, *w++, filter);
      }
    }
  };
  lamina::detail::in_parallel(static_cast<std::size_t>(g.out_channels), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t filter = begin; filter < end; ++filter) pack_filter(static_cast<int>(filter));
  });
  return packed;
}

/// Each weight rounded by itself to the operand's type.
template <class Round>
std::vector<unsigned char> pack_rounded(const ConvGeometry& g, Operand operand, int filter_blocks, const float* weight,
                                        Round&& round) {
  return pack(g, operand, filter_blocks, weight, [&](const auto& put, int term, float w, int filter) {
    const auto value = round(w, filter);
    put(term * static_cast<int>(sizeof(value)), value);
  });
}

}  // namespace

ScaledWeights examine_scaled(const ConvGeometry& g, Operand operand, const float* weight) {
  const int terms = chain_slabs(operand) * step_terms(operand), taps = g.kernel_height * g.kernel_width;
  // A pixel's words miss at most 2^-50 of its block's largest magnitude, or 2^-39 without low words. That is little
  // beside the product of that largest if the weight that meets it, whichever it is, is not too small a share of the
  // sum of those that meet the block.
  const double least_share = operand == Operand::scaled_pairs ? 0x1p-29 : 0x1p-22;
  std::atomic<bool> representable = true, strict = false;
  std::vector<int> shifts(static_cast<std::size_t>(g.out_channels));
  lamina::detail::in_parallel(static_cast<std::size_t>(g.out_channels), 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t filter = begin; filter < end && representable; ++filter) {
      const float* w = weight + static_cast<std::int64_t>(filter) * g.reduction();
      const auto shift = shift_of_scaled(w, g.reduction());
      if (!shift) representable = false;
      shifts[filter] = shift.value_or(0);
      for (int first = 0; first < g.in_channels && !strict; first += terms) {
        const int last = std::min(first + terms, g.in_channels);
        for (int tap = 0; tap < taps; ++tap) {
          double sum = 0;
          float least = std::numeric_limits<float>::infinity();
          for (int channel = first; channel < last; ++channel) {
            const float magnitude = std::abs(w[channel * taps + tap]);
            sum += static_cast<double>(magnitude), least = std::min(least, magnitude);
          }
          if (static_cast<double>(least) < sum * least_share) strict = true;
        }
      }
    }
  });
  return {representable, strict, std::move(shifts)};
}

std::vector<unsigned char> pack_weights(const ConvGeometry& geometry, Operand operand, int filter_blocks,
                                        const float* weight, std::vector<int> shifts,
                                        std::vector<FilterRange>& ranges) {
  shifts.resize(static_cast<std::size_t>(geometry.out_channels));
  const bool ranged = operand == Operand::split_tf32 || is_scaled(operand);
  if (ranged) ranges.resize(static_cast<std::size_t>(filter_blocks * block_filters));
  const auto set_range = [&](std::size_t filter) {
    if (is_scaled(operand)) {
      ranges[filter].scale = std::ldexp(1.0f, -shifts[filter]);
    } else {
      ranges[filter] = find_range(weight + static_cast<std::int64_t>(filter) * geometry.reduction(),
                                  geometry.reduction(), shifts[filter]);
    }
  };
  lamina::detail::in_parallel(ranged ? shifts.size() : 0, 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t filter = begin; filter < end; ++filter) set_range(filter);
  });
  const auto shifted = [&](float w, int filter) { return std::ldexp(w, shifts[static_cast<std::size_t>(filter)]); };
  switch (operand) {
    case Operand::fp16:
      return pack_rounded(geometry, operand, filter_blocks, weight, [](float w, int) { return to_half(w).bits; });
    case Operand::bf16:
      return pack_rounded(geometry, operand, filter_blocks, weight, [](float w, int) { return to_bfloat16(w).bits; });
    case Operand::split_tf32: return pack_rounded(geometry, operand, filter_blocks, weight, shifted);
    case Operand::scaled_f16:
      return pack_rounded(geometry, operand, filter_blocks, weight,
                          [&](float w, int filter) { return to_half(shifted(w, filter)).bits; });
    case Operand::scaled_pairs:
      return pack(geometry, operand, filter_blocks, weight, [&](const auto& put, int term, float w, int filter) {
        const float scaled = shifted(w, filter);
        const half high = to_half(scaled);
        put(term * 2, high.bits);
        put(step_bytes / 2 + term * 2, to_half((scaled - to_float(high)) * low_word_scale).bits);
      });
    case Operand::tf32:
    case Operand::codes: break;  // codes.cpp packs them
  }
  return pack_rounded(geometry, operand, filter_blocks, weight,
                      [](float w, int) { return round_to_tf32(std::bit_cast<std::uint32_t>(w)); });
}

}  // namespace lamina::cuda::channels_last
