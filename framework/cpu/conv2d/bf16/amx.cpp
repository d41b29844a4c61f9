// AMX: tiles of 16 rows of 64 bytes. 2 x 2 of them hold the sums of 32 positions and 32 filters; two more hold the
// values of the positions and two the weights, and each is used twice. A step is 4 products of 16 cycles and 4 loads of
// 1 KB.
//
// Source: Intel, "Intel 64 and IA-32 Architectures Optimization Reference Manual", chapter on AMX.

#include "lamina/cpu/conv2d/bf16/engine.h"
#include "lamina/cpu/conv2d/bf16/tiles.h"

namespace lamina::cpu::bf16 {
namespace {

constexpr int filters = 32, rows = 16;
constexpr std::int64_t weights_row = filters * 2 * sizeof(std::uint16_t);

/// R times 16 positions, the last 16 of which may be some that the ones before have too: they are computed twice, to
/// the same bits, so that nothing is read past the last.
template <class Tiles, DType of, int R>
void multiply_rows(const Tile& t, int positions) {
  const auto* const input = static_cast<const std::uint16_t*>(t.input);
  const std::int64_t row = t.pixel * static_cast<std::int64_t>(sizeof(std::uint16_t));
  const std::int64_t second = R == 2 ? positions - rows : 0;
  float* const sums = t.sums;
  float* const second_sums = sums + second * t.sums_row;
  const std::int64_t sums_row = t.sums_row * static_cast<std::int64_t>(sizeof(float));
  Tiles::template zero<0>();
  Tiles::template zero<1>();
  Tiles::template zero<2>();
  Tiles::template zero<3>();
  const auto* weights = static_cast<const std::uint16_t*>(t.weights);
  const std::int64_t step_weights = std::int64_t{t.pairs} * filters * 2;
  const std::uint16_t* fetch = t.fetch;
  for (int step = 0; step < t.steps; ++step, weights += step_weights) {
    const std::uint16_t* const x = input + t.offsets[step];
    fetch = fetch_ahead(fetch, t.fetch_lines);
    Tiles::template load<6>(weights, weights_row);
    Tiles::template load<4>(x, row);
    Tiles::template multiply<of, 0, 4, 6>();
    Tiles::template load<7>(weights + 2 * 16, weights_row);
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
void multiply(const Tile& tile, int positions) {
  positions > rows ? multiply_rows<Tiles, of, 2>(tile, positions) : multiply_rows<Tiles, of, 1>(tile, positions);
}

template <class Tiles, DType of>
constexpr Engine engine(std::string_view what) {
  return {.unit = Unit::amx,
          .operand = of,
          .set = InstructionSet::avx512,
          .what = what,
          .filters = filters,
          .positions = 2 * rows,
          .rate = 512,
          .cache = 2 << 20,
          .begin = Tiles::begin,
          .end = Tiles::end,
          .multiply = multiply<Tiles, of>};
}

template <class Tiles>
std::span<const Engine> engines_of(std::string_view what) {
  static const Engine engines[] = {engine<Tiles, DType::bf16>(what), engine<Tiles, DType::u8>(what),
                                   engine<Tiles, DType::i8>(what)};
  return engines;
}

}  // namespace

std::span<const Engine> amx_engines() {
#if defined(__x86_64__)
  return engines_of<Tiles>("AMX");
#else
  return {};
#endif
}

std::span<const Engine> amx_models() { return engines_of<TileModel>("a model of AMX"); }

}  // namespace lamina::cpu::bf16
