#include "lamina/cpu/product/matmul.h"

#include <algorithm>

#include "lamina/base/math.h"
#include "lamina/cpu/product/panels.h"

namespace lamina::cpu {
namespace {

using bf16::step_channels;
using detail::ceil_div;
using detail::round_up;

/// Numbers of b: of one batch, and of several together.
constexpr std::int64_t packed_at_most = std::int64_t{4} << 20, packed_together = std::int64_t{1} << 20;
/// Bytes of rows that a panel meets one after the other, a fraction of an L2 cache, and tiles of them.
constexpr std::int64_t rows_at_once = 256 << 10, max_row_tiles = 4;
constexpr float no_bias[64] = {};

}  // namespace

template <class T>
MatMul<T>::MatMul(const bf16::Engine& engine, const detail::MatMulExtents& extents)
    : engine_(&engine),
      moves_(&bf16::moves_of(engine.set, !engine.widened)),
      e_(extents),
      tile_(std::max(16, engine.positions)),  // AMX reads and writes sixteen whatever it is asked for
      // A few rows read b once: packing it would take as long as the product.
      direct_(sizeof(T) == 4 && extents.m <= engine.positions && extents.b_column == 1 && extents.k % 2 == 0),
      shared_(std::ranges::all_of(extents.b_strides, [](std::int64_t stride) { return stride == 0; })),
      panels_(ceil_div<std::int64_t>(extents.n, engine.filters)),
      panel_(extents.b_term == 1 ? column_panel(engine, extents.k) : row_panel(engine, extents.k)) {
  const auto fit = [&](std::int64_t numbers, std::int64_t of) { return numbers / std::max<std::int64_t>(1, of); };
  columns_ = std::clamp<std::int64_t>(fit(packed_at_most, panel_), 1, std::max<std::int64_t>(1, panels_));
  const std::int64_t max_batches = columns_ < panels_ ? 1 : std::max<std::int64_t>(1, e_.batches);
  batches_ = std::clamp<std::int64_t>(fit(packed_together, columns_ * panel_), 1, max_batches);
  const Steps steps(engine, e_.k, Pairs::in_order);
  for (std::int64_t s = 0; s < steps.steps; ++s) offsets_.push_back(s * tile_ * step_channels);
  row_tiles_ = std::clamp<std::int64_t>(rows_at_once / std::max<std::int64_t>(1, rows_bytes()), 1, max_row_tiles);
}

template <class T>
std::int64_t MatMul<T>::packed_bytes() const {
  return round_up<std::int64_t>(batches_ * columns_ * panel_ * static_cast<std::int64_t>(sizeof(T)), 64);
}
template <class T>
std::int64_t MatMul<T>::rows_bytes() const {
  return static_cast<std::int64_t>(offsets_.size()) * tile_ * step_channels * (engine_->widened ? 4 : 2);
}
template <class T>
std::int64_t MatMul<T>::in_order_bytes() const {
  return e_.a_term == 1 ? 0 : round_up<std::int64_t>(tile_ * e_.k * static_cast<std::int64_t>(sizeof(T)), 64);
}
template <class T>
std::int64_t MatMul<T>::sums_bytes() const {
  return round_up<std::int64_t>(tile_ * engine_->filters * 4, 64);
}
template <class T>
std::size_t MatMul<T>::workspace(int threads) const {
  return static_cast<std::size_t>(packed_bytes() + threads * worker_bytes());
}

template <class T>
void MatMul<T>::pack(const T* b, std::int64_t panel, T* packed) const {
  const std::int64_t column = panel * engine_->filters, count = std::min<std::int64_t>(engine_->filters, e_.n - column);
  if (e_.b_term == 1) {
    pack_columns(*engine_, b + column * e_.b_column, e_.b_column, count, e_.k, packed);
  } else {
    pack_rows(*engine_, b + column * e_.b_column, e_.b_term, count, e_.k, Pairs::in_order, packed);
  }
}

/// To [step, tile_, step_channels]. `in_order` is for what lies apart.
template <class T>
void MatMul<T>::copy_rows(const T* a, std::int64_t count, std::byte* to, T* in_order) const {
  if (e_.a_term != 1) {
    for (std::int64_t t = 0; t < e_.k; ++t) {
      for (std::int64_t r = 0; r < count; ++r) in_order[r * e_.k + t] = a[t * e_.a_term + r * e_.a_row];
    }
  }
  bf16::spread_of<T>(*moves_, *engine_)({.from = e_.a_term == 1 ? a : in_order,
                                         .pixel = e_.a_term == 1 ? e_.a_row : e_.k,
                                         .count = count,
                                         .channels = static_cast<int>(e_.k),
                                         .to = to,
                                         .block = tile_ * step_channels});
}

/// `tile` has its rows, weights and sums.
template <class T>
void MatMul<T>::multiply(bf16::Tile tile, std::int64_t count, std::int64_t column, T* c) const {
  const std::int64_t filters = engine_->filters;
  const Steps steps(*engine_, e_.k, Pairs::in_order);
  tile.offsets = offsets_.data();
  tile.steps = static_cast<int>(steps.steps), tile.whole_steps = static_cast<int>(steps.whole);
  tile.pairs = steps.pairs;
  tile.sums_row = filters;
  engine_->multiply(tile, static_cast<int>(count));
  const auto alpha = static_cast<float>(e_.alpha);
  for (std::int64_t i = 0; alpha != 1 && i < count * filters; ++i) tile.sums[i] *= alpha;
  const bf16::Write write = {.sums = tile.sums,
                             .row = filters,
                             .bias = no_bias,
                             .output = c + column,
                             .pixel = e_.n,
                             .count = count,
                             .filters = static_cast<int>(std::min(filters, e_.n - column))};
  sizeof(T) == 2 ? moves_->write_bf16(write) : moves_->write_f32(write);
}

template <class T>
void MatMul<T>::operator()(const T* a, const T* b, T* c, ThreadPool& pool, std::byte* workspace) const {
  if (e_.m == 0 || e_.n == 0) return;
  auto* const packed = reinterpret_cast<T*>(workspace);
  const std::int64_t task_rows = row_tiles_ * engine_->positions, tasks = ceil_div(e_.m, task_rows);
  for (std::int64_t first = 0; first < e_.batches; first += batches_) {
    const std::int64_t count = std::min(batches_, e_.batches - first);
    for (std::int64_t from = 0; from < panels_; from += columns_) {
      const std::int64_t panels = std::min(columns_, panels_ - from);
      pool.parallel_for((shared_ ? 1 : count) * panels, [&](std::int64_t index, int) {
        const std::int64_t panel = from + index % panels;
        if (!is_direct(panel)) pack(b + e_.operands(first + index / panels).b, panel, packed + index * panel_);
      });
      // Panels are shared out too where there are few rows.
      const std::int64_t parts =
          std::clamp<std::int64_t>(ceil_div<std::int64_t>(4 * pool.threads(), count * tasks), 1, panels);
      pool.parallel_for(count * tasks * parts, [&](std::int64_t index, int worker) {
        const std::int64_t part = index % parts, batch = index / parts / tasks;
        const std::int64_t row = index / parts % tasks * task_rows, rows = std::min(task_rows, e_.m - row);
        std::byte* const own = workspace + packed_bytes() + worker * worker_bytes();
        auto* const in_order = reinterpret_cast<T*>(own + row_tiles_ * rows_bytes());
        auto* const sums = reinterpret_cast<float*>(own + row_tiles_ * rows_bytes() + in_order_bytes());
        const auto for_each_tile = [&](const auto& body) {
          for (std::int64_t r = 0; r < rows; r += engine_->positions) {
            body(row + r, std::min<std::int64_t>(engine_->positions, rows - r),
                 own + r / engine_->positions * rows_bytes());
          }
        };
        for_each_tile([&](std::int64_t r, std::int64_t some, std::byte* to) {
          copy_rows(a + e_.operands(first + batch).a + r * e_.a_row, some, to, in_order);
        });
        if (engine_->begin != nullptr) engine_->begin(16);
        for (std::int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
          const std::int64_t column = (from + p) * engine_->filters;
          const bool direct = is_direct(from + p);
          const T* const weights = direct ? b + e_.operands(first + batch).b + column
                                          : packed + ((shared_ ? 0 : batch) * panels + p) * panel_;
          for_each_tile([&](std::int64_t r, std::int64_t some, const std::byte* there) {
            multiply({.input = there, .weights = weights, .weights_row = direct ? e_.b_term : 0, .sums = sums}, some,
                     column, c + ((first + batch) * e_.m + r) * e_.n);
          });
        }
        if (engine_->end != nullptr) engine_->end();
      });
    }
  }
}

template class MatMul<float>;
template class MatMul<bfloat16>;

}  // namespace lamina::cpu
