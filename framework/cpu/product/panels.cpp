#include "lamina/cpu/product/panels.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using bf16::Engine;
using bf16::step_channels;
using detail::ceil_div;
using detail::round_up;

constexpr int whole_pairs = step_channels / 2;

}  // namespace

Steps::Steps(const Engine& engine, std::int64_t terms, Pairs order)
    : steps(ceil_div<std::int64_t>(terms, step_channels)) {
  const auto rest = static_cast<int>(terms - (steps - 1) * step_channels);
  pairs = engine.unit == bf16::Unit::amx ? whole_pairs
          : order == Pairs::in_order     ? ceil_div(rest, 2)
                                         : std::min(rest, whole_pairs);
  whole = pairs == whole_pairs ? steps : steps - 1;
}

std::int64_t column_panel(const Engine& engine, std::int64_t terms) {
  const Steps s(engine, terms, Pairs::in_order);
  const std::int64_t pairs = s.whole * whole_pairs + (s.steps - s.whole) * s.pairs;
  return round_up<std::int64_t>(pairs * 2 * engine.filters, 32);
}

void pack_columns(const Engine& engine, const bfloat16* columns, std::int64_t stride, std::int64_t count,
                  std::int64_t terms, bfloat16* packed) {
  const int filters = engine.filters;
  if (count < filters) std::fill_n(packed, column_panel(engine, terms), bfloat16());
  const Steps s(engine, terms, Pairs::in_order);
  for (std::int64_t step = 0; step < s.steps; ++step) {
    const std::int64_t first = step * step_channels;
    const int pairs = step < s.whole ? whole_pairs : s.pairs;
    const auto there = static_cast<std::size_t>(std::min<std::int64_t>(2 * pairs, terms - first));
    for (std::int64_t f = 0; f < count; ++f) {
      std::uint32_t words[whole_pairs] = {};
      std::memcpy(words, columns + f * stride + first, there * sizeof *columns);
      bfloat16* to = packed + 2 * f;
      for (int pair = 0; pair < pairs; ++pair, to += 2 * filters)
        std::memcpy(static_cast<void*>(to), words + pair, sizeof *words);
    }
    packed += std::int64_t{pairs} * 2 * filters;
  }
}

void pack_columns(const Engine& engine, const float* columns, std::int64_t stride, std::int64_t count,
                  std::int64_t terms, float* packed) {
  std::fill_n(packed, count < engine.filters || terms % 2 != 0 ? column_panel(engine, terms) : 0, 0.0f);
  // So many terms at a time that what is written to stays in the L1 cache.
  constexpr std::int64_t at_once = 64;
  for (std::int64_t begin = 0; begin < terms; begin += at_once) {
    const std::int64_t end = std::min(terms, begin + at_once);
    for (std::int64_t f = 0; f < count; ++f) {
      const float* const from = columns + f * stride;
      for (std::int64_t t = begin; t < end; ++t) packed[t * engine.filters + f] = from[t];
    }
  }
}

std::int64_t row_step(const Engine& engine) { return std::int64_t{step_channels} * engine.filters; }
std::int64_t row_panel(const Engine& engine, std::int64_t terms) {
  return ceil_div<std::int64_t>(terms, step_channels) * row_step(engine);
}

void pack_rows(const Engine& engine, const bfloat16* rows, std::int64_t stride, std::int64_t count, std::int64_t terms,
               Pairs pairs, bfloat16* packed) {
  constexpr bfloat16 zeros[64] = {};
  const int filters = engine.filters;
  if (count < filters) std::fill_n(packed, row_panel(engine, terms), bfloat16());
  for (std::int64_t first = 0; first < terms; first += step_channels) {
    for (int pair = 0; pair < whole_pairs; ++pair, packed += 2 * filters) {
      const auto at = [&](std::int64_t i) { return i < terms ? rows + i * stride : zeros; };
      const bfloat16* const even = at(pairs == Pairs::in_order ? first + 2 * pair : first + pair);
      const bfloat16* const odd = at(pairs == Pairs::in_order ? first + 2 * pair + 1 : first + pair + whole_pairs);
      auto* const to = reinterpret_cast<std::uint16_t*>(packed);
      for (std::int64_t i = 0; i < count; ++i) to[2 * i] = even[i].bits, to[2 * i + 1] = odd[i].bits;
    }
  }
}

void pack_rows(const Engine& engine, const float* rows, std::int64_t stride, std::int64_t count, std::int64_t terms,
               Pairs, float* packed) {
  std::fill_n(packed, count < engine.filters ? row_panel(engine, terms) : 0, 0.0f);
  for (std::int64_t t = 0; t < terms; ++t) std::copy_n(rows + t * stride, count, packed + t * engine.filters);
  std::fill(packed + terms * engine.filters, packed + row_panel(engine, terms), 0.0f);
}

}  // namespace lamina::cpu
