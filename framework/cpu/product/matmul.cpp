#include "lamina/cpu/product/matmul.h"

#include <algorithm>
#include <array>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using detail::ceil_div;
using detail::MatMulExtents;

/// How much of the product is in work at a time. Panels are packed for some batches, or some columns of one, or some
/// terms of these: 8 MB at most, if a panel of one chain of terms is not more than that.
struct Division {
  static constexpr std::int64_t most_floats = std::int64_t{2} << 20;
  static constexpr std::int64_t most_batches = 64;

  std::int64_t panels;       // of all columns
  std::int64_t batches;      // at a time
  std::int64_t columns;      // at a time, in panels
  std::int64_t terms;        // at a time
  std::int64_t row_tiles;    // of an item of work
  std::int64_t item_panels;  // of an item of work
  bool direct;               // full panels are read where they are

  Division(const MatMulKernel& kernel, const MatMulExtents& e, int threads) {
    panels = ceil_div<std::int64_t>(e.n, kernel.columns);
    // One tile of rows reads b once: packing it would take as long as the product.
    direct = e.m <= kernel.rows && e.b_column == 1;
    terms = std::min(e.k, most_floats / kernel.columns / MatMulTile::chain * MatMulTile::chain);
    const std::int64_t panel = std::max<std::int64_t>(1, terms * kernel.columns);
    columns = std::clamp<std::int64_t>(most_floats / panel, 1, std::max<std::int64_t>(panels, 1));
    if (direct) columns = std::max<std::int64_t>(panels, 1);
    batches = 1;
    if (columns >= panels && terms == e.k) {
      const std::int64_t packed = direct ? 1 : columns;
      batches = std::clamp<std::int64_t>(most_floats / (panel * packed), 1,
                                         std::clamp<std::int64_t>(e.batches, 1, most_batches));
    }
    const std::int64_t tiles = std::max<std::int64_t>(1, ceil_div<std::int64_t>(e.m, kernel.rows));
    row_tiles = std::min<std::int64_t>(tiles, 12);
    item_panels = std::min<std::int64_t>(columns, 8);
    const auto items = [&] { return batches * ceil_div(tiles, row_tiles) * ceil_div(columns, item_panels); };
    while (threads > 1 && items() < 4 * threads && row_tiles * item_panels > 2) {
      auto& larger = row_tiles > item_panels ? row_tiles : item_panels;
      larger = ceil_div<std::int64_t>(larger, 2);
    }
  }

  /// Floats of packed panels for one batch.
  std::int64_t packed_batch(const MatMulKernel& kernel) const {
    return (direct ? 1 : columns) * terms * kernel.columns;
  }
  /// Floats of packed rows of one worker.
  std::int64_t packed_rows(const MatMulKernel& kernel) const {
    return detail::round_up<std::int64_t>(row_tiles * kernel.rows * MatMulTile::chain, 16);
  }
};

/// Some batches, columns and terms of the product.
struct Part {
  std::int64_t first_batch, batches;
  std::int64_t first_panel, panels;
  std::int64_t first_term, terms;
};

class Product {
 public:
  Product(const MatMulKernel& kernel, const MatMulExtents& e, const float* a, const float* b, float* c,
          ThreadPool& pool, float* workspace)
      : kernel_(kernel), e_(e), division_(kernel, e, pool.threads()), a_(a), b_(b), c_(c), pool_(pool) {
    rows_ = workspace;
    packed_ = workspace + pool.threads() * division_.packed_rows(kernel);
  }

  void run() {
    for (std::int64_t batch = 0; batch < e_.batches; batch += division_.batches) {
      for (std::int64_t panel = 0; panel < division_.panels; panel += division_.columns) {
        for (std::int64_t term = 0; term < e_.k; term += division_.terms) {
          const Part part = {batch, std::min(division_.batches, e_.batches - batch),
                             panel, std::min(division_.columns, division_.panels - panel),
                             term,  std::min(division_.terms, e_.k - term)};
          pack(part);
          multiply(part);
        }
      }
    }
  }

 private:
  void pack(const Part& part) {
    // Batches that share b with the one before them share its panels.
    std::int64_t distinct = 0;
    for (std::int64_t i = 0; i < part.batches; ++i) {
      const auto at = static_cast<std::size_t>(i);
      a_offset_[at] = e_.operands(part.first_batch + i).a;
      b_offset_[at] = e_.operands(part.first_batch + i).b;
      if (i == 0 || b_offset_[at] != b_offset_[at - 1]) source_[static_cast<std::size_t>(distinct++)] = b_offset_[at];
      packed_at_[at] = distinct - 1;
    }
    const std::int64_t full = e_.n / kernel_.columns, skipped = division_.direct ? std::min(full, part.panels) : 0;
    const std::int64_t packed = part.panels - skipped;
    pool_.parallel_for(distinct * packed, [&](std::int64_t index, int) {
      const std::int64_t i = index / packed, panel = part.first_panel + skipped + index % packed;
      const std::int64_t column = panel * kernel_.columns;
      pack_columns(
          kernel_, b_ + source_[static_cast<std::size_t>(i)] + part.first_term * e_.b_term + column * e_.b_column,
          e_.b_term, e_.b_column, part.terms, static_cast<int>(std::min<std::int64_t>(kernel_.columns, e_.n - column)),
          packed_panel(part, i, panel));
    });
  }

  float* packed_panel(const Part& part, std::int64_t source, std::int64_t panel) const {
    const std::int64_t at = division_.direct ? 0 : panel - part.first_panel;
    return packed_ + source * division_.packed_batch(kernel_) + at * part.terms * kernel_.columns;
  }

  void multiply(const Part& part) {
    const std::int64_t tiles = ceil_div<std::int64_t>(e_.m, kernel_.rows);
    const std::int64_t down = ceil_div(tiles, division_.row_tiles),
                       across = ceil_div(part.panels, division_.item_panels);
    pool_.parallel_for(part.batches * down * across, [&](std::int64_t index, int worker) {
      const std::int64_t i = index / (down * across), first_tile = index / across % down * division_.row_tiles;
      const std::int64_t first_panel = part.first_panel + index % across * division_.item_panels;
      block(part, i, first_tile, std::min(tiles, first_tile + division_.row_tiles), first_panel,
            std::min(part.first_panel + part.panels, first_panel + division_.item_panels), worker);
    });
  }

  void block(const Part& part, std::int64_t batch, std::int64_t first_tile, std::int64_t last_tile,
             std::int64_t first_panel, std::int64_t last_panel, int worker) const {
    const auto at = static_cast<std::size_t>(batch);
    const int rows = kernel_.rows, columns = kernel_.columns;
    float* const scratch = rows_ + worker * division_.packed_rows(kernel_);
    const float* const a = a_ + a_offset_[at];
    float* const c = c_ + (part.first_batch + batch) * e_.m * e_.n;
    const std::int64_t end = part.first_term + part.terms;
    for (std::int64_t k = part.first_term; k < end; k += MatMulTile::chain) {
      const int terms = static_cast<int>(std::min<std::int64_t>(MatMulTile::chain, end - k));
      const auto rows_of = [&](std::int64_t tile) {
        return static_cast<int>(std::min<std::int64_t>(rows, e_.m - tile * rows));
      };
      for (std::int64_t tile = first_tile; tile < last_tile; ++tile) {
        pack_rows(kernel_, a + tile * rows * e_.a_row + k * e_.a_term, e_.a_row, e_.a_term, rows_of(tile), terms,
                  scratch + (tile - first_tile) * rows * MatMulTile::chain);
      }
      for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
        const std::int64_t column = panel * columns;
        const bool there = division_.direct && column + columns <= e_.n;
        MatMulTile t;
        t.b = there ? b_ + b_offset_[at] + k * e_.b_term + column
                    : packed_panel(part, packed_at_[at], panel) + (k - part.first_term) * columns;
        t.b_stride = there ? e_.b_term : columns;
        t.c_stride = e_.n;
        t.terms = terms;
        t.columns = static_cast<int>(std::min<std::int64_t>(columns, e_.n - column));
        t.add = k > 0;
        t.alpha = k + terms == e_.k ? static_cast<float>(e_.alpha) : 1.0f;
        for (std::int64_t tile = first_tile; tile < last_tile; ++tile) {
          t.a = scratch + (tile - first_tile) * rows * MatMulTile::chain;
          t.c = c + tile * rows * e_.n + column;
          t.rows = rows_of(tile);
          kernel_.multiply(t);
        }
      }
    }
  }

  using Batches = std::array<std::int64_t, Division::most_batches>;

  const MatMulKernel& kernel_;
  const MatMulExtents& e_;
  const Division division_;
  const float* a_;
  const float* b_;
  float* c_;
  ThreadPool& pool_;
  float* rows_;
  float* packed_;
  Batches a_offset_{}, b_offset_{};  // of the batches in work
  Batches source_{};                 // b_offset_ without repetitions
  Batches packed_at_{};              // which of these a batch has
};

}  // namespace

std::size_t matmul_workspace(const MatMulKernel& kernel, const MatMulExtents& e, int threads) {
  const Division division(kernel, e, threads);
  return static_cast<std::size_t>(threads * division.packed_rows(kernel) +
                                  division.batches * division.packed_batch(kernel)) *
         sizeof(float);
}

void matmul(const MatMulKernel& kernel, const MatMulExtents& e, const float* a, const float* b, float* c,
            ThreadPool& pool, float* workspace) {
  if (e.batches == 0 || e.m == 0 || e.n == 0) return;
  if (e.k == 0) {
    std::fill_n(c, e.batches * e.m * e.n, 0.0f);
    return;
  }
  Product(kernel, e, a, b, c, pool, workspace).run();
}

}  // namespace lamina::cpu
