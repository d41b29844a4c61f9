// Depthwise layers of codes by AVX512-VNNI: up to four rows of taps of a channel are a four of bytes that VPDPBUSD
// multiplies and sums at once. Rows are brought together once for each column that a tile reads, by instructions within
// 128 bits: a vector of fours has channels 16 l + 4 v + (0 ... 3), l = 0 ... 3, and packing what becomes of four
// vectors of sums brings them back in order.

#include "lamina/cpu/conv2d/lanes/tile.h"
#include "lamina/kernel/rules/eight_bits.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>

#define LAMINA_DOT __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

namespace lamina::cpu {
namespace {

constexpr int tile_channels = 64, tile_positions = 4;

/// R rows of 64 channels, or `there` of them, in fours.
template <bool is_signed, int R>
LAMINA_DOT inline __attribute__((always_inline)) void load_fours(const std::uint8_t* const (&rows)[R], __mmask64 there,
                                                                 __m512i (&fours)[4]) {
  __m512i row[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) {
    const std::uint8_t* const from = rows[std::min(r, R - 1)];
    row[r] = r >= R ? _mm512_setzero_si512() : _mm512_maskz_loadu_epi8(there, from);
    // 128 more than i8 is u8.
    if (is_signed && r < R) row[r] = _mm512_xor_si512(row[r], _mm512_set1_epi8(-128));
  }
  const __m512i low = _mm512_unpacklo_epi8(row[0], row[1]), high = _mm512_unpackhi_epi8(row[0], row[1]);
  const __m512i low2 = R > 2 ? _mm512_unpacklo_epi8(row[2], row[3]) : row[3];
  const __m512i high2 = R > 2 ? _mm512_unpackhi_epi8(row[2], row[3]) : row[3];
  fours[0] = _mm512_unpacklo_epi16(low, low2), fours[1] = _mm512_unpackhi_epi16(low, low2);
  fours[2] = _mm512_unpacklo_epi16(high, high2), fours[3] = _mm512_unpackhi_epi16(high, high2);
}

/// R rows of K taps from `first` on. `inside`: a tile that reads no column outside of the image.
template <bool is_signed, int K, int S, int R, bool inside, int P>
LAMINA_DOT inline __attribute__((always_inline)) void add_rows(const LanesTile& t, int first, std::int64_t channel,
                                                               const std::int8_t* weights, __mmask64 there,
                                                               __m512i (&sums)[P][4]) {
  constexpr int columns = (P - 1) * S + K;
  const std::int64_t pixel = t.pixel, left = t.left, width = t.columns;
  const auto* const zeros = static_cast<const std::uint8_t*>(t.zeros) + channel;
  const std::uint8_t* x[R];
  for (int r = 0; r < R; ++r) x[r] = static_cast<const std::uint8_t*>(t.rows[first + r]) + left * pixel + channel;
#pragma GCC unroll 16
  for (int column = 0; column < columns; ++column) {
    const bool seen = inside || (left + column >= 0 && left + column < width);
    const std::uint8_t* from[R];
    for (int r = 0; r < R; ++r) from[r] = seen ? x[r] + column * pixel : zeros;
    __m512i fours[4];
    load_fours<is_signed, R>(from, there, fours);
#pragma GCC unroll 8
    for (int k = 0; k < K; ++k) {
      const int p = (column - k) / S;
      if (column < k || (column - k) % S != 0 || p >= P) continue;
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const __m512i taps = _mm512_load_si512(weights + (k * 4 + v) * 64);
        sums[p][v] = _mm512_dpbusd_epi32(sums[p][v], fours[v], taps);
      }
    }
  }
}

/// P vectors of outputs: of one each, or of half as many channels two neighbours, whose columns are two apart.
template <bool is_signed, int K, int S, bool inside, int P = tile_positions>
LAMINA_DOT void run_blocks(const LanesTile& t) {
  constexpr __mmask16 all = 0xffff;
  const detail::SumsEnd& end = *t.end;
  const auto zero = static_cast<std::int16_t>(end.quantization.zero_point);
  const bool bytes = end.type == DType::u8;
  const auto bound = [&](float value) { return static_cast<char>(static_cast<int>(value) + zero); };
  const __m512i low = _mm512_set1_epi8(bound(end.low)), high = _mm512_set1_epi8(bound(end.high));
  const __m512i zero_point = _mm512_set1_epi16(zero);
  const bool some = t.channels < tile_channels && P == tile_positions;
  const __mmask64 there = some ? (__mmask64{1} << t.channels) - 1 : ~__mmask64{0};
  const auto* weights = reinterpret_cast<const std::int8_t*>(t.weights);
  const std::int32_t* offset = t.offset;
  const float* factor = t.factor;
  for (int block = 0; block < t.count; ++block, offset += tile_channels, factor += tile_channels) {
    __m512i sums[P][4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      sums[0][v] = _mm512_loadu_si512(offset + 16 * v);
#pragma GCC unroll 4
      for (int p = 1; p < P; ++p) sums[p][v] = sums[0][v];
    }
    const std::int64_t channel = t.blocks[block].input;
    add_rows<is_signed, K, S, std::min(K, 4), inside, P>(t, 0, channel, weights, there, sums);
    if constexpr (K > 4) add_rows<is_signed, K, S, K - 4, inside, P>(t, 4, channel, weights + K * 256, there, sums);
    weights += t.block_weights * 4;
    auto* to = static_cast<std::uint8_t*>(t.output) + t.blocks[block].output;
#pragma GCC unroll 4
    for (int p = 0; p < P; ++p, to += t.output_pixel * (tile_positions / P)) {
      if (p >= t.positions) break;
      __m512i whole[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        const __m512 sum = _mm512_maskz_cvtepi32_ps(all, sums[p][v]),
                     y = _mm512_mul_ps(sum, _mm512_loadu_ps(factor + 16 * v));
        whole[v] = _mm512_maskz_cvt_roundps_epi32(all, y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      }
      const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(whole[0], whole[1]), zero_point);
      const __m512i second = _mm512_adds_epi16(_mm512_packs_epi32(whole[2], whole[3]), zero_point);
      const __m512i codes = bytes ? _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(first, second), low), high)
                                  : _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(first, second), low), high);
      _mm512_mask_storeu_epi8(to, there, codes);
    }
  }
}

template <bool is_signed, int K, int S>
void run(const LanesTile& t) {
  const bool inside = t.left >= 0 && t.left + (tile_positions - 1) * S + K <= t.columns;
  if constexpr (S == 1) {
    const bool side_by_side = t.pixel == t.channels && t.output_pixel == t.channels && t.positions == tile_positions;
    if (inside && side_by_side && 2 * t.channels == tile_channels)
      return run_blocks<is_signed, K, 2, true, tile_positions / 2>(t);
  }
  inside ? run_blocks<is_signed, K, S, true>(t) : run_blocks<is_signed, K, S, false>(t);
}

template <bool is_signed>
void run(const LanesTile& t) {
  if (t.kernel_columns == 3) return t.stride == 1 ? run<is_signed, 3, 1>(t) : run<is_signed, 3, 2>(t);
  if (t.kernel_columns == 5) return t.stride == 1 ? run<is_signed, 5, 1>(t) : run<is_signed, 5, 2>(t);
  run<is_signed, 7, 1>(t);
}

}  // namespace

const LanesKernel* dot_lanes_kernel(DType input) {
  constexpr auto kernel = [](void (*run)(const LanesTile&)) {
    return LanesKernel{.set = InstructionSet::avx512,
                       .channels = tile_channels,
                       .positions = tile_positions,
                       .run = run,
                       .finishes = true};
  };
  static constexpr LanesKernel of_u8 = kernel(run<false>), of_i8 = kernel(run<true>);
  return input == DType::u8 ? &of_u8 : &of_i8;
}

}  // namespace lamina::cpu
#else
const lamina::cpu::LanesKernel* lamina::cpu::dot_lanes_kernel(DType) { return nullptr; }
#endif
