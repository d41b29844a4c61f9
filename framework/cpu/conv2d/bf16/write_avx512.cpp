// Results to bf16 by VCVTNEPS2BF16, which rounds to nearest even whatever MXCSR says and takes subnormal numbers for 0.

#include "lamina/cpu/conv2d/bf16/moves.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define LAMINA_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#endif

namespace lamina::cpu::bf16 {

#if defined(__x86_64__)
namespace {

template <bool adds, bool clamps>
LAMINA_DOT void write_rows(const Write& w) {
  const __m512 low = _mm512_set1_ps(w.low), high = _mm512_set1_ps(w.high);
  const auto* addend = static_cast<const bfloat16*>(w.addend);
  auto* output = static_cast<bfloat16*>(w.output);
  const float* sums = w.sums;
  for (std::int64_t i = 0; i < w.count; ++i, sums += w.row, output += w.pixel) {
    for (int f = 0; f < w.filters; f += 16) {
      const int rest = w.filters - f;
      const auto there = static_cast<__mmask16>(rest >= 16 ? 0xffff : (1 << rest) - 1);
      __m512 y = _mm512_add_ps(_mm512_maskz_loadu_ps(there, sums + f), _mm512_maskz_loadu_ps(there, w.bias + f));
      if constexpr (adds) {
        const __m512i words = _mm512_maskz_cvtepu16_epi32(there, _mm256_maskz_loadu_epi16(there, addend + f));
        y = _mm512_add_ps(y, _mm512_castsi512_ps(_mm512_maskz_slli_epi32(there, words, 16)));
      }
      if constexpr (clamps) {  // their second operand if one is NaN
        y = _mm512_maskz_min_ps(there, high, _mm512_maskz_max_ps(there, low, y));
      }
      _mm256_mask_storeu_epi16(output + f, there, (__m256i)_mm512_cvtneps_pbh(y));
    }
    if constexpr (adds) addend += w.pixel;
  }
}

void write(const Write& w) {
  if (w.addend != nullptr) return w.clamps ? write_rows<true, true>(w) : write_rows<true, false>(w);
  return w.clamps ? write_rows<false, true>(w) : write_rows<false, false>(w);
}

}  // namespace

const Moves& rounding_moves(const Moves& moves, bool avx512_bf16) {
  static const Moves rounding = [] {
    Moves result = bf16::moves().front();
    result.write_bf16 = write;
    return result;
  }();
  return avx512_bf16 && moves.set == InstructionSet::avx512 && rounding.set == moves.set ? rounding : moves;
}
#else
const Moves& rounding_moves(const Moves& moves, bool) { return moves; }
#endif

}  // namespace lamina::cpu::bf16
