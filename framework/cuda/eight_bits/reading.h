#pragma once

#include <cstdint>

#include "lamina/kernel/preparation.h"

namespace lamina::cuda {

/// What codes stand for, and what the arithmetic of `Meaning` needs. One of i8 is read as u8, 128 more, by turning its
/// upper bit.
struct Reading {
  std::uint32_t flip = 0;  ///< of four codes
  float zero = 0;          ///< of what is read, and 2^23 more
  float scale = 0;         ///< 0: they stand for nothing but themselves

  Reading() = default;
  explicit Reading(const View& view) : scale(view.quantization.scale) {
    const bool is_signed = view.format.dtype == DType::i8;
    flip = is_signed ? 0x80808080u : 0;
    zero = static_cast<float>((1 << 23) + view.quantization.zero_point + (is_signed ? 128 : 0));
  }
};

}  // namespace lamina::cuda
