#include "lamina/cpu/product/bf16_matmul.h"

#include <algorithm>
#include <cstring>

#include "lamina/base/math.h"
#include "lamina/cpu/product/bf16_panels.h"

namespace lamina::cpu::bf16 {
namespace {

using detail::ceil_div;

constexpr std::int64_t packed_at_once = std::int64_t{1} << 20;
constexpr float no_bias[64] = {};

}  // namespace

MatMul::MatMul(const Engine& engine, const detail::MatMulExtents& extents)
    : engine_(&engine),
      moves_(&moves_of(engine.set, !engine.widened)),
      e_(extents),
      tile_(std::max(16, engine.positions)),  // AMX reads and writes sixteen whatever it is asked for
      panels_(ceil_div<std::int64_t>(extents.n, engine.filters)),
      panel_(extents.b_term == 1 ? column_panel(engine, extents.k) : row_panel(engine, extents.k)),
      batches_(std::clamp<std::int64_t>(packed_at_once / std::max<std::int64_t>(1, panels_ * panel_), 1,
                                        std::max<std::int64_t>(1, extents.batches))) {
  const Steps steps(engine, e_.k, Pairs::in_order);
  for (std::int64_t s = 0; s < steps.steps; ++s) offsets_.push_back(s * tile_ * step_channels);
}

std::int64_t MatMul::rows_bytes() const {
  return static_cast<std::int64_t>(offsets_.size()) * tile_ * step_channels * (engine_->widened ? 4 : 2);
}
std::int64_t MatMul::worker_bytes() const {
  // A row of a in order as well, for copies of what lies apart.
  return rows_bytes() + detail::round_up<std::int64_t>(tile_ * e_.k * 2, 64) +
         detail::round_up<std::int64_t>(tile_ * engine_->filters * 4, 64);
}
std::size_t MatMul::workspace(int threads) const {
  return static_cast<std::size_t>(detail::round_up<std::int64_t>(batches_ * packed_batch() * 2, 64) +
                                  threads * worker_bytes());
}

void MatMul::pack(const bfloat16* b, std::int64_t panel, std::uint16_t* packed) const {
  const std::int64_t column = panel * engine_->filters, count = std::min<std::int64_t>(engine_->filters, e_.n - column);
  if (e_.b_term == 1) {
    pack_columns(*engine_, b + column * e_.b_column, e_.b_column, count, e_.k, packed);
  } else {
    pack_rows(*engine_, b + column, e_.b_term, count, e_.k, Pairs::in_order, packed);
  }
}

/// To [step, tile_, step_channels].
void MatMul::copy_rows(const bfloat16* a, std::int64_t count, std::byte* to) const {
  auto* const in_order = reinterpret_cast<bfloat16*>(to + rows_bytes());
  if (e_.a_term != 1) {
    for (std::int64_t t = 0; t < e_.k; ++t) {
      for (std::int64_t r = 0; r < count; ++r) in_order[r * e_.k + t] = a[t * e_.a_term + r * e_.a_row];
    }
  }
  const Spread s = {.from = e_.a_term == 1 ? a : in_order,
                    .pixel = e_.a_term == 1 ? e_.a_row : e_.k,
                    .count = count,
                    .channels = static_cast<int>(e_.k),
                    .to = to,
                    .block = tile_ * step_channels};
  engine_->widened ? moves_->spread_widened(s) : moves_->spread(s);
}

void MatMul::multiply(const std::byte* rows, const std::uint16_t* panel, std::int64_t count, std::int64_t column,
                      float* sums, bfloat16* c) const {
  const std::int64_t filters = engine_->filters;
  const Steps steps(*engine_, e_.k, Pairs::in_order);
  engine_->multiply({.input = rows,
                     .offsets = offsets_.data(),
                     .steps = static_cast<int>(steps.steps),
                     .whole_steps = static_cast<int>(steps.whole),
                     .pairs = steps.pairs,
                     .weights = panel,
                     .sums = sums,
                     .sums_row = filters},
                    static_cast<int>(count));
  const auto alpha = static_cast<float>(e_.alpha);
  for (std::int64_t i = 0; alpha != 1 && i < count * filters; ++i) sums[i] *= alpha;
  moves_->write_bf16({.sums = sums,
                      .row = filters,
                      .bias = no_bias,
                      .output = c + column,
                      .pixel = e_.n,
                      .count = count,
                      .filters = static_cast<int>(std::min(filters, e_.n - column))});
}

void MatMul::operator()(const bfloat16* a, const bfloat16* b, bfloat16* c, ThreadPool& pool,
                        std::byte* workspace) const {
  if (e_.m == 0 || e_.n == 0) return;
  auto* const packed = reinterpret_cast<std::uint16_t*>(workspace);
  std::byte* const workers = workspace + detail::round_up<std::int64_t>(batches_ * packed_batch() * 2, 64);
  const std::int64_t tiles = ceil_div<std::int64_t>(e_.m, engine_->positions);
  for (std::int64_t first = 0; first < e_.batches; first += batches_) {
    const std::int64_t count = std::min(batches_, e_.batches - first);
    pool.parallel_for(count * panels_, [&](std::int64_t index, int) {
      const std::int64_t batch = index / panels_;
      pack(b + e_.operands(first + batch).b, index % panels_, packed + index * panel_);
    });
    // Panels are shared out too where there are few tiles.
    const std::int64_t parts =
        std::clamp<std::int64_t>(ceil_div<std::int64_t>(4 * pool.threads(), count * tiles), 1, panels_);
    pool.parallel_for(count * tiles * parts, [&](std::int64_t index, int worker) {
      const std::int64_t part = index % parts, tile = index / parts % tiles, batch = index / parts / tiles;
      const std::int64_t row = tile * engine_->positions;
      const std::int64_t rows = std::min<std::int64_t>(engine_->positions, e_.m - row);
      std::byte* const own = workers + worker * worker_bytes();
      copy_rows(a + e_.operands(first + batch).a + row * e_.a_row, rows, own);
      auto* const sums = reinterpret_cast<float*>(own + worker_bytes() -
                                                  detail::round_up<std::int64_t>(tile_ * engine_->filters * 4, 64));
      if (engine_->begin != nullptr) engine_->begin(16);
      for (std::int64_t p = panels_ * part / parts; p < panels_ * (part + 1) / parts; ++p) {
        multiply(own, packed + (batch * panels_ + p) * panel_, rows, p * engine_->filters, sums,
                 c + ((first + batch) * e_.m + row) * e_.n);
      }
      if (engine_->end != nullptr) engine_->end();
    });
  }
}

}  // namespace lamina::cpu::bf16
