#pragma once

#include "lamina/kernel/preparation.h"

namespace lamina::cuda {

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
};

/// What numbers of `scale` become with others, or times those: codes again, by `rounding`, which does not divide.
struct CodesAgain {
  float scale = 0;
  bool product = false;
  Rounding rounding = {};
};

}  // namespace lamina::cuda
