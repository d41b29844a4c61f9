#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lamina/cpu/conv2d/bf16/engine.h"

/// AMX's driver over its tiles, or over tests' model of them, for machines that have none: numbers of tiles are
/// template arguments. Tiles are of 16 rows of 64 bytes, but for fewer than 32 channels: then 4 and 5, values of
/// positions, have shorter rows and 6 and 7, weights, fewer rows.
namespace lamina::cpu::bf16 {

#if defined(__x86_64__)
/// In assembly, since the compilers' own functions take literals only, no template arguments.
struct Tiles {
  static void begin(int pairs) {
    struct alignas(64) Configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static_assert(sizeof(Configuration) == 64);
    Configuration configuration;
    configuration.row_bytes[4] = configuration.row_bytes[5] = static_cast<std::uint16_t>(4 * pairs);
    configuration.rows[6] = configuration.rows[7] = static_cast<std::uint8_t>(pairs);
    __asm__ volatile("ldtilecfg %0" ::"m"(configuration));
  }
  static void end() { __asm__ volatile("tilerelease"); }
  template <int t>
  static void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  static void load(const void* from, std::int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* to, std::int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(t) : "memory");
  }
  /// Of bf16, or of u8 or i8 with weights of i8.
  template <DType of, int c, int a, int b>
  static void multiply() {
    if constexpr (of == DType::u8) {
      __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    } else if constexpr (of == DType::i8) {
      __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    } else {
      __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
    }
  }
};
#endif

inline constexpr int amx_filters = 32, amx_rows = 16;
inline constexpr std::int64_t amx_weights_row = amx_filters * 2 * sizeof(std::uint16_t);

/// R times 16 positions, the last 16 of which may be some that the ones before have too: they are computed twice, to
/// the same bits, so that nothing is read past the last.
template <class Tiles, DType of, int R>
void amx_multiply_rows(const Tile& t, int positions) {
  const auto* const input = static_cast<const std::uint16_t*>(t.input);
  const std::int64_t row = t.pixel * static_cast<std::int64_t>(sizeof(std::uint16_t));
  const std::int64_t second = R == 2 ? positions - amx_rows : 0;
  float* const sums = t.sums;
  float* const second_sums = sums + second * t.sums_row;
  const std::int64_t sums_row = t.sums_row * static_cast<std::int64_t>(sizeof(float));
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  const auto* weights = static_cast<const std::uint16_t*>(t.weights);
  const std::int64_t step_weights = std::int64_t{t.pairs} * amx_filters * 2;
  const std::uint16_t* fetch = t.fetch;
  for (int step = 0; step < t.steps; ++step, weights += step_weights) {
    const std::uint16_t* const x = input + t.offsets[step];
    fetch = fetch_ahead(fetch, t.fetch_lines);
    Tiles::template load<6>(weights, amx_weights_row);
    Tiles::template load<4>(x, row);
    Tiles::template multiply<of, 0, 4, 6>();
    Tiles::template load<7>(weights + 2 * 16, amx_weights_row);
    Tiles::template multiply<of, 1, 4, 7>();
    if constexpr (R == 2) {
      Tiles::template load<5>(x + second * t.pixel, row);
      Tiles::template multiply<of, 2, 5, 6>();
      Tiles::template multiply<of, 3, 5, 7>();
    }
  }
  Tiles::template store<0>(sums, sums_row);
  Tiles::template store<1>(sums + 16, sums_row);
  if constexpr (R == 2) {
    Tiles::template store<2>(second_sums, sums_row);
    Tiles::template store<3>(second_sums + 16, sums_row);
  }
}

template <class Tiles, DType of>
void amx_multiply(const Tile& tile, int positions) {
  positions > amx_rows ? amx_multiply_rows<Tiles, of, 2>(tile, positions)
                       : amx_multiply_rows<Tiles, of, 1>(tile, positions);
}

template <class Tiles, DType of>
constexpr Engine amx_engine(std::string_view what) {
  return {.unit = Unit::amx,
          .operand = of,
          .set = InstructionSet::avx512,
          .what = what,
          .filters = amx_filters,
          .positions = 2 * amx_rows,
          .rate = 512,
          .cache = 2 << 20,
          .begin = Tiles::begin,
          .end = Tiles::end,
          .multiply = amx_multiply<Tiles, of>};
}

template <class Tiles>
std::span<const Engine> amx_engines_of(std::string_view what) {
  static const Engine engines[] = {amx_engine<Tiles, DType::bf16>(what), amx_engine<Tiles, DType::u8>(what),
                                   amx_engine<Tiles, DType::i8>(what)};
  return engines;
}

}  // namespace lamina::cpu::bf16
