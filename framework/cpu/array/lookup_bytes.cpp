#include "lamina/cpu/array/array.h"

#include <algorithm>

#include "lamina/base/thread_pool.h"
#include "lamina/kernel/make_operator.h"
#include "lamina/kernel/rules/eight_bits.h"
#include "lamina/tensor/constants.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define LAMINA_VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))
#endif

namespace lamina::cpu {
namespace {

using namespace tables;

#if defined(__x86_64__)
/// AVX512-VBMI: VPERMI2B finds 64 bytes in a half of the table; the upper bit of each says in which.
LAMINA_VBMI std::int64_t lookup_vectors(const std::uint8_t* table, const std::uint8_t* from, std::uint8_t* to,
                                        std::int64_t count) {
  __m512i part[4];
  for (int i = 0; i < 4; ++i) part[i] = _mm512_loadu_si512(table + 64 * i);
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

/// to[i] = table[from[i]]; `to` may be `from`.
void lookup_bytes(const std::uint8_t* table, const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
  std::int64_t i = 0;
#if defined(__x86_64__)
  static const bool vectors = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bw");
  if (vectors) i = lookup_vectors(table, from, to, count);
#endif
  for (; i < count; ++i) to[i] = table[from[i]];
}

}  // namespace

std::unique_ptr<Operator> prepare_table(const PointwiseProblem& problem, const Preparation& p) {
  const CodeTable values = detail::code_table(problem, p);
  const Tensor table = detail::constant(std::vector(values.begin(), values.end()));
  return make_operator("table of 256", [table](Inputs inputs, Outputs outputs, const Execution& execution) {
    constexpr std::int64_t piece = 1 << 16;
    const auto* const codes = static_cast<const std::uint8_t*>(inputs[0].raw());
    auto* const results = static_cast<std::uint8_t*>(outputs[0].raw());
    const std::int64_t count = outputs[0].numel();
    execution.pool->parallel_for((count + piece - 1) / piece, [&](std::int64_t task, int) {
      const std::int64_t first = task * piece;
      lookup_bytes(table.values<std::uint8_t>().data(), codes + first, results + first, std::min(piece, count - first));
    });
  });
}

}  // namespace lamina::cpu
