#pragma once

#include <algorithm>
#include <cstdint>

#include "lamina/kernel/preparation.h"

namespace lamina::cuda {

/// What codes stand for: what the arithmetic of `Meaning` needs. One of i8 is read as u8, 128 more, by turning its
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

/// How results are stored, and the codes of numbers: what the arithmetic of `Results` needs.
struct Rounding {
  DType dtype = DType::u8;                 ///< codes of u8 or i8; or f32, f16 or bf16
  float scale = 0, inverse = 0, rest = 0;  ///< inverse of 0: divide
  float low = 0, high = 0;                 ///< of the number; of the quotient, where it is divided
  std::int32_t zero = 0;

  Rounding() = default;
  explicit Rounding(const View& view)
      : dtype(view.format.dtype), scale(view.quantization.scale), zero(view.quantization.zero_point) {
    low = static_cast<float>((dtype == DType::i8 ? -128 : 0) - zero), high = low + 255;
    if (!(scale > 1e-15f && scale < 1e15f)) return;
    inverse = 1 / scale;
    rest = static_cast<float>((1 - static_cast<double>(inverse) * scale) / scale);
    low *= scale, high *= scale;
  }

  /// What is not divided is no less and no more than these first.
  void clamp(float least, float most) {
    const float lowest = low;
    low = std::clamp(least, lowest, high), high = std::clamp(most, lowest, high);
  }
};

/// How codes times numbers are the product's codes, of the same type (ConvProblem::prologue): what `multiplied`
/// needs.
struct Multiplier {
  Reading image = {};
  std::uint32_t zero = 0;  ///< the product's zero point, 128 more of i8, in both halves

  Multiplier() = default;
  Multiplier(const View& of, const Quantization& product)
      : image(of),
        zero(static_cast<std::uint32_t>(product.zero_point + (of.format.dtype == DType::i8 ? 128 : 0)) * 0x10001u) {}
};

/// What numbers of `scale` become with others, or times those: codes again, by `rounding`, which does not divide.
struct CodesAgain {
  float scale = 0;
  bool product = false;
  Rounding rounding = {};
};

}  // namespace lamina::cuda
