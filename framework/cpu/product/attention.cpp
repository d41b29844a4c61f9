#include "lamina/cpu/product/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lamina/base/math.h"

namespace lamina::cpu {
namespace {

using detail::AttentionExtents;
using detail::ceil_div;
using detail::round_up;

constexpr int block = OnlineSoftmax::block;
constexpr float lowest = -std::numeric_limits<float>::infinity();

/// Heads that share keys are rows of one matrix: `rows` of them for each of `pairs` of image and group. A task is some
/// tiles of rows. Keys are packed once, for some pairs at a time.
struct Division {
  static constexpr std::int64_t most_floats = std::int64_t{4} << 20;

  std::int64_t pairs, rows, panels;
  std::int64_t packed_keys;  // floats of one pair
  std::int64_t batch;        // pairs at a time
  std::int64_t task_rows;
  std::int64_t queries, scores, weights, values, panel, states;  // floats of a worker's pieces, whole cache lines
  std::int64_t worker;                                           // their sum

  Division(const MatMulKernel& kernel, const AttentionExtents& e, int threads) {
    const std::int64_t tile = kernel.rows;
    pairs = e.images * e.groups;
    rows = e.groups > 0 ? e.heads / e.groups * e.length : 0;
    panels = ceil_div<std::int64_t>(e.positions, kernel.columns);
    packed_keys = panels * e.depth * kernel.columns;
    batch = std::clamp<std::int64_t>(most_floats / std::max<std::int64_t>(1, packed_keys), 1,
                                     std::max<std::int64_t>(1, pairs));
    std::int64_t tiles =
        std::clamp<std::int64_t>(ceil_div<std::int64_t>(rows, tile), 1, std::max<std::int64_t>(1, 56 / tile));
    while (tiles > 1 && threads > 1 && batch * ceil_div(rows, tiles * tile) < 3 * threads) {
      tiles = ceil_div<std::int64_t>(tiles, 2);
    }
    task_rows = tiles * tile;
    const auto lines = [](std::int64_t floats) { return round_up<std::int64_t>(floats, 16); };
    queries = lines(task_rows * e.depth);
    scores = lines(task_rows * block);
    weights = lines(tile * block);
    values = lines(task_rows * e.width);
    panel = lines(packed_panels(kernel, e) * block * kernel.columns);
    states = lines(2 * task_rows);
    worker = queries + scores + weights + values + panel + states;
  }

  /// Panels of values that are not read where they are: the last, if it is incomplete, or all that lie apart.
  static std::int64_t packed_panels(const MatMulKernel& kernel, const AttentionExtents& e) {
    return e.v.row == e.width ? 1 : ceil_div<std::int64_t>(e.width, kernel.columns);
  }
};

bool all_finite(const float* values, std::int64_t rows, std::int64_t width, std::int64_t stride) {
  bool finite = true;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const v = values + row * stride;
    for (std::int64_t i = 0; i < width; ++i) finite &= std::abs(v[i]) <= std::numeric_limits<float>::max();
  }
  return finite;
}

class Attention {
 public:
  Attention(const MatMulKernel& kernel, const OnlineSoftmax& softmax, const AttentionExtents& e,
            const AttentionPointers& p, ThreadPool& pool, float* workspace)
      : kernel_(kernel),
        softmax_(softmax),
        e_(e),
        p_(p),
        division_(kernel, e, pool.threads()),
        pool_(pool),
        workers_(workspace),
        keys_(workspace + pool.threads() * division_.worker) {}

  void run() {
    const Division& d = division_;
    for (std::int64_t first = 0; first < d.pairs; first += d.batch) {
      const std::int64_t count = std::min(d.batch, d.pairs - first), tasks = ceil_div(d.rows, d.task_rows);
      pool_.parallel_for(count * d.panels, [&](std::int64_t index, int) {
        const std::int64_t pair = index / d.panels, position = index % d.panels * kernel_.columns;
        pack_columns(kernel_, p_.k + at_position(e_, e_.k, first + pair, position), 1, e_.k.row, e_.depth,
                     static_cast<int>(std::min<std::int64_t>(kernel_.columns, e_.positions - position)),
                     keys_ + pair * d.packed_keys + position * e_.depth);
      });
      pool_.parallel_for(count * tasks, [&](std::int64_t index, int worker) {
        const std::int64_t pair = index / tasks, row = index % tasks * d.task_rows;
        Task{*this,
             first + pair,
             keys_ + pair * d.packed_keys,
             row,
             std::min(d.task_rows, d.rows - row),
             workers_ + worker * d.worker}
            .run();
      });
    }
  }

 private:
  /// Some rows of one pair.
  struct Task {
    Task(const Attention& all, std::int64_t which, const float* packed_keys, std::int64_t row, std::int64_t count,
         float* memory)
        : a(all), pair(which), keys(packed_keys), first(row), rows(count) {
      const Division& d = a.division_;
      queries = memory, scores = queries + d.queries, weights = scores + d.scores, values = weights + d.weights;
      panel = values + d.values, largest = panel + d.panel, sums = largest + d.task_rows;
    }

    void run() {
      const AttentionExtents& e = a.e_;
      for_each_tile([&](std::int64_t row, int count) {
        pack_rows(a.kernel_, a.p_.q + at_row(e, e.q, pair, first + row), e.q.row, 1, count, static_cast<int>(e.depth),
                  queries + row * e.depth);
      });
      std::fill_n(values, rows * e.width, 0.0f);
      std::fill_n(largest, rows, lowest);
      std::fill_n(sums, rows, 0.0f);
      std::int64_t end = 0;
      for (std::int64_t row = 0; row < rows; ++row) end = std::max(end, e.seen((first + row) % e.length));
      for (std::int64_t position = 0; position < end; position += block) {
        const int count = static_cast<int>(std::min<std::int64_t>(block, e.positions - position));
        score(position, count);
        const bool ragged = weigh(position, count);
        add_values(position, count, ragged);
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        float* const out = a.p_.output + at_row(e, e.output, pair, first + row);
        const float* const from = values + row * e.width;
        const float sum = sums[row] == 0.0f ? 1.0f : sums[row];  // a row that sees nothing is 0
        for (std::int64_t i = 0; i < e.width; ++i) out[i] = from[i] / sum;
      }
    }

    template <class Body>
    void for_each_tile(const Body& body) const {
      for (std::int64_t row = 0; row < rows; row += a.kernel_.rows) {
        body(row, static_cast<int>(std::min<std::int64_t>(a.kernel_.rows, rows - row)));
      }
    }

    /// scores = scale * q k'
    void score(std::int64_t position, int count) const {
      const AttentionExtents& e = a.e_;
      const int columns = a.kernel_.columns;
      if (e.depth == 0) std::fill_n(scores, rows * block, 0.0f);
      for (int column = 0; column < count; column += columns) {
        MatMulTile t;
        t.columns = std::min(columns, count - column);
        t.b_stride = columns;
        t.c_stride = block;
        for (std::int64_t k = 0; k < e.depth; k += MatMulTile::chain) {
          t.b = keys + (position + column) * e.depth + k * columns;
          t.terms = static_cast<int>(std::min<std::int64_t>(MatMulTile::chain, e.depth - k));
          t.add = k > 0;
          t.alpha = k + t.terms == e.depth ? static_cast<float>(e.scale) : 1.0f;
          for_each_tile([&](std::int64_t row, int tile_rows) {
            t.a = queries + row * e.depth + k * a.kernel_.rows;
            t.c = scores + row * block + column;
            t.rows = tile_rows;
            a.kernel_.multiply(t);
          });
        }
      }
    }

    /// The positions from `position` on that a row sees, of `count`.
    int seen(std::int64_t row, std::int64_t position, int count) const {
      return static_cast<int>(std::clamp<std::int64_t>(a.e_.seen((first + row) % a.e_.length) - position, 0, count));
    }

    /// scores = exp(scores + mask - largest); whether some rows see less than others.
    bool weigh(std::int64_t position, int count) const {
      const AttentionExtents& e = a.e_;
      bool ragged = false;
      for (std::int64_t row = 0; row < rows; ++row) {
        float* const s = scores + row * block;
        const int visible = seen(row, position, count);
        if (e.masked) {
          const std::int64_t image = pair / e.groups;
          const std::int64_t head = pair % e.groups * (e.heads / e.groups) + (first + row) / e.length;
          const float* const mask = a.p_.mask + image % e.mask_images * e.mask[0] + head * e.mask[1] +
                                    (first + row) % e.length * e.mask[2] + position * e.mask[3];
          for (int i = 0; i < visible; ++i) s[i] += mask[i * e.mask[3]];
        }
        std::fill(s + visible, s + block, lowest);
        ragged = ragged || visible < count;
        a.softmax_.weigh(s, largest[row], sums[row], values + row * e.width, e.width);
      }
      return ragged;
    }

    /// values += scores v. Where a row does not see all positions, what it does not see may not be finite.
    void add_values(std::int64_t position, int count, bool ragged) const {
      const AttentionExtents& e = a.e_;
      const float* const v = a.p_.v + at_position(e, e.v, pair, position);
      const bool by_row = ragged && !all_finite(v, count, e.width, e.v.row);
      const int columns = a.kernel_.columns;
      // Rows far apart would meet in few sets of the cache, once for every tile.
      const std::int64_t in_place = e.v.row == e.width ? e.width / columns * columns : 0;
      const auto packed = [&](std::int64_t column) { return panel + (column - in_place) * block; };
      for (std::int64_t column = in_place; column < e.width; column += columns) {
        const auto some = static_cast<int>(std::min<std::int64_t>(columns, e.width - column));
        pack_columns(a.kernel_, v + column, e.v.row, 1, count, some, packed(column));
      }
      const int step = by_row ? 1 : a.kernel_.rows;
      for (std::int64_t row = 0; row < rows; row += step) {
        MatMulTile t;
        t.a = weights;
        t.rows = static_cast<int>(std::min<std::int64_t>(step, rows - row));
        t.terms = by_row ? seen(row, position, count) : count;
        t.c_stride = e.width;
        t.add = true;
        pack_rows(a.kernel_, scores + row * block, block, 1, t.rows, t.terms, weights);
        for (std::int64_t column = 0; column < e.width; column += columns) {
          t.b = column < in_place ? v + column : packed(column);
          t.b_stride = column < in_place ? e.v.row : columns;
          t.c = values + row * e.width + column;
          t.columns = static_cast<int>(std::min<std::int64_t>(columns, e.width - column));
          a.kernel_.multiply(t);
        }
      }
    }

    const Attention& a;
    std::int64_t pair;
    const float* keys;  // [panels, D, columns] of the pair
    std::int64_t first, rows;
    float* queries;  // [tiles, D, tile]
    float* scores;   // [rows, block]
    float* weights;  // [block, tile]
    float* values;   // [rows, E]
    float* panel;    // [panels, block, columns]: those of v that are packed
    float* largest;  // [rows]
    float* sums;     // [rows]
  };

  const MatMulKernel& kernel_;
  const OnlineSoftmax& softmax_;
  const AttentionExtents& e_;
  const AttentionPointers& p_;
  const Division division_;
  ThreadPool& pool_;
  float* workers_;
  float* keys_;
};

}  // namespace

std::size_t attention_workspace(const MatMulKernel& kernel, const AttentionExtents& e, int threads) {
  const Division d(kernel, e, threads);
  return static_cast<std::size_t>(threads * d.worker + d.batch * d.packed_keys) * sizeof(float);
}

void attention(const MatMulKernel& kernel, const OnlineSoftmax& softmax, const AttentionExtents& e,
               const AttentionPointers& p, ThreadPool& pool, float* workspace) {
  if (e.images == 0 || e.heads == 0 || e.length == 0 || e.width == 0) return;
  Attention(kernel, softmax, e, p, pool, workspace).run();
}

}  // namespace lamina::cpu
