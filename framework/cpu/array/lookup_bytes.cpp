#include "lamina/cpu/array/lookup_bytes.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LAMINA_VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))
#endif

namespace lamina::cpu {
namespace {

#if defined(__x86_64__)
/// AVX512-VBMI: VPERMI2B finds 64 bytes in a half of the table; the upper bit of each says in which.
LAMINA_VBMI std::int64_t lookup_vectors(const std::array<std::uint8_t, 256>& table, const std::uint8_t* from,
                                        std::uint8_t* to, std::int64_t count) {
  __m512i part[4];
  for (int i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(table.data() + 64 * i);
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    const __m512i places = _mm512_loadu_si512(from + i);
    const __m512i lower = _mm512_permutex2var_epi8(part[0], places, part[1]);
    const __m512i upper = _mm512_permutex2var_epi8(part[2], places, part[3]);
    _mm512_storeu_si512(to + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(places), lower, upper));
  }
  return i;
}
#endif

}  // namespace

void lookup_bytes(const std::array<std::uint8_t, 256>& table, const std::uint8_t* from, std::uint8_t* to,
                  std::int64_t count) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  static const bool vectors = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw");
  if (vectors) i = lookup_vectors(table, from, to, count);
#endif
  for (; i < count; ++i) to[i] = table[from[i]];
}

}  // namespace lamina::cpu
