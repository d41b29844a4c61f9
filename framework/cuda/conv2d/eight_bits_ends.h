#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "lamina/cuda/runtime/launched.h"
#include "lamina/kernel/rules/eight_bits.h"

/// What becomes of the sums of a convolution in eight bits, on a GPU; eight_bits_ends.cuh has the arithmetic.
namespace lamina::cuda::eight_bits {

using detail::SumsEnd;

struct Ends {
  SumsEnd end = {};
  const std::int32_t* offset = nullptr;  // [channels], added to the sums
  const float* factor = nullptr;         // [channels]
  const float* bias = nullptr;           // [channels]
  const std::uint8_t* table = nullptr;   // [256], where codes are looked up
};

/// How numbers of less than 2^22 become codes where to clamp them is to saturate: what their bits lack, rounded, to be
/// codes of u8, and what turns four of those into i8.
struct Saturation {
  std::int32_t to_code = 0;
  std::uint32_t flip = 0;

  Saturation() = default;
  Saturation(DType type, const Quantization& codes)
      : to_code(codes.zero_point + (type == DType::i8 ? 128 : 0) - 0x4b400000),
        flip(type == DType::i8 ? 0x80808080u : 0) {}
};

/// Whether it is for these ends, of sums of so many products.
inline bool saturates(const detail::ChannelEnd& all, std::int64_t terms) {
  const float low = static_cast<float>((all.end.type == DType::u8 ? 0 : -128) - all.end.quantization.zero_point);
  if (!all.end.codes || all.end.low != low || all.end.high != low + 255) return false;
  const double products = 255.0 * 128 * static_cast<double>(terms);
  for (std::size_t c = 0; c < all.factor.size(); ++c) {
    if (!(all.factor[c] * (products + std::abs(static_cast<double>(all.bias[c]))) < 0x1p22)) return false;
  }
  return true;
}

/// Of codes that are added to others, a row for each of their own codes (detail::table_of_sums). Not 256 bytes apart:
/// neighbours' codes, which differ, are then in other banks of shared memory.
inline constexpr int sums_pitch = 260, sums_bytes = 256 * sums_pitch;

inline std::vector<std::uint8_t> rows_of_sums(const std::vector<std::uint8_t>& table) {
  std::vector<std::uint8_t> rows(sums_bytes);
  for (std::ptrdiff_t own = 0; own < 256; ++own) {
    std::copy_n(table.begin() + own * 256, 256, rows.begin() + own * sums_pitch);
  }
  return rows;
}

/// For `channels`, of which those that there are not get zeros. `constants` keeps the memory.
inline Ends ends_of(const detail::ChannelEnd& end, int channels, Constants& constants,
                    const CodeTable* table = nullptr) {
  const auto add = [&](auto values) {
    values.resize(static_cast<std::size_t>(channels));
    return constants.add(values);
  };
  return {end.end, add(end.bias), add(end.factor), add(end.float_bias),
          table == nullptr ? nullptr : constants.add(std::vector<std::uint8_t>(table->begin(), table->end()))};
}

}  // namespace lamina::cuda::eight_bits
