#include "lamina/cpu/product/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "lamina/base/math.h"
#include "lamina/cpu/product/attention_division.h"
#include "lamina/cpu/product/panels.h"

namespace lamina::cpu {
namespace {

using bf16::Engine;
using bf16::step_channels;
using bf16::Tile;
using detail::AttentionExtents;
using detail::ceil_div;
using detail::round_up;

constexpr std::int64_t block = AttentionDivision::block;
constexpr int max_rows = 32;
float number(float x) { return x; }
float number(bfloat16 x) { return to_float(x); }
constexpr float lowest = -std::numeric_limits<float>::infinity();

/// As AttentionRows::weigh writes them.
Pairs order_of_weights(const Engine& engine) { return engine.widened ? Pairs::in_order : Pairs::halves; }

template <class T>
class Attention {
 public:
  Attention(const AttentionKernel& kernel, const AttentionExtents& e, const AttentionPointers<T>& p, ThreadPool& pool,
            std::byte* workspace)
      : kernel_(kernel), engine_(*kernel.engine), e_(e), p_(p), d_(engine_, e, pool.threads()), pool_(pool) {
    packed_ = reinterpret_cast<T*>(workspace);
    offsets_ = reinterpret_cast<std::int64_t*>(workspace + d_.packed_bytes(engine_));
    workers_ = reinterpret_cast<std::byte*>(offsets_) + d_.offsets;
    for (std::int64_t s = 0; s < d_.offsets / 8; ++s) offsets_[s] = s * d_.tile * step_channels;
  }

  void run() {
    const std::int64_t tasks = ceil_div(d_.rows, d_.task_tiles * engine_.positions);
    for (std::int64_t first = 0; first < d_.pairs; first += d_.batch) {
      const std::int64_t count = std::min(d_.batch, d_.pairs - first), panels = d_.key_blocks + d_.width_blocks;
      pool_.parallel_for(count * panels, [&](std::int64_t index, int) {
        pack(first + index / panels, index % panels, packed_ + index / panels * d_.packed);
      });
      pool_.parallel_for(count * tasks, [&](std::int64_t index, int worker) {
        const std::int64_t rows = d_.task_tiles * engine_.positions, row = index % tasks * rows;
        if (engine_.begin != nullptr) engine_.begin(16);
        for (std::int64_t r = row; r < std::min(d_.rows, row + rows); r += engine_.positions) {
          TileOfRows(*this, first + index / tasks, packed_ + index / tasks * d_.packed, r,
                     workers_ + worker * d_.worker)
              .run();
        }
        if (engine_.end != nullptr) engine_.end();
      });
    }
  }

 private:
  void pack(std::int64_t pair, std::int64_t panel, T* packed) const {
    const std::int64_t filters = engine_.filters, column = (panel - d_.key_blocks) * filters;
    if (panel < d_.key_blocks) {
      const std::int64_t first = panel * filters;
      pack_columns(engine_, p_.k + at_position(e_, e_.k, pair, first), e_.k.row,
                   std::min(filters, e_.positions - first), e_.depth, packed + panel * column_panel(engine_, e_.depth));
    } else {
      pack_rows(engine_, p_.v + at_position(e_, e_.v, pair, 0) + column, e_.v.row, std::min(filters, e_.width - column),
                e_.positions, order_of_weights(engine_),
                packed + d_.keys + column / filters * row_panel(engine_, e_.positions));
    }
  }

  /// Up to Engine::positions rows of one pair.
  struct TileOfRows {
    TileOfRows(const Attention& all, std::int64_t which, const T* panels, std::int64_t row, std::byte* memory)
        : a(all), d(all.d_), e(all.e_), pair(which), packed(panels), first(row) {
      count = static_cast<int>(std::min<std::int64_t>(a.engine_.positions, d.rows - first));
      queries = memory, weights = queries + d.queries;
      scores = reinterpret_cast<float*>(weights + d.weights);
      values = scores + d.scores / 4, more = values + d.values / 4;
    }

    std::int64_t seen(int row) const { return e.seen((first + row) % e.length); }

    void run() {
      bf16::spread_of<T>(*a.kernel_.moves, a.engine_)({.from = a.p_.q + at_row(e, e.q, pair, first),
                                                       .pixel = e.q.row,
                                                       .count = count,
                                                       .channels = static_cast<int>(e.depth),
                                                       .to = queries,
                                                       .block = d.tile * step_channels});
      std::fill_n(largest, count, lowest);
      std::fill_n(sums, count, 0.0f);
      std::int64_t end = 0;
      for (int row = 0; row < count; ++row) end = std::max(end, seen(row));
      if (end == 0) std::fill_n(values, count * d.width, 0.0f);
      for (std::int64_t position = 0; position < end; position += block) {
        const std::int64_t positions = std::min(block, end - position);
        score(position, positions);
        const bool ragged = weigh(position, positions);
        add_values(position, positions, ragged);
      }
      for (int row = 0; row < count; ++row) {
        // A row that sees nothing is 0.
        AttentionRows::divide_to<T> (*a.kernel_.rows)(values + row * d.width, sums[row] == 0.0f ? 1.0f : sums[row],
                                                      e.width, a.p_.output + at_row(e, e.output, pair, first + row));
      }
    }

    /// scores = q k'
    void score(std::int64_t position, std::int64_t positions) const {
      const std::int64_t filters = a.engine_.filters, panel = column_panel(a.engine_, e.depth);
      for (std::int64_t at = 0; at < positions; at += filters) {
        const Tile t = {.input = queries,
                        .offsets = a.offsets_,
                        .steps = static_cast<int>(d.depth.steps),
                        .whole_steps = static_cast<int>(d.depth.whole),
                        .pairs = d.depth.pairs,
                        .weights = packed + (position + at) / filters * panel,
                        .sums = scores + at,
                        .sums_row = block};
        a.engine_.multiply(t, count);
      }
    }

    /// weights = exp(scale * scores + mask - largest); whether some rows see less than others.
    bool weigh(std::int64_t position, std::int64_t positions) {
      const bool narrow = !a.engine_.widened;
      const auto kind = std::is_same_v<T, float> ? AttentionRows::Weights::f32
                        : narrow                 ? AttentionRows::Weights::bf16
                                                 : AttentionRows::Weights::widened;
      const std::int64_t padded = round_up<std::int64_t>(positions, step_channels);
      bool ragged = false;
      for (int row = 0; row < count; ++row) {
        float* const s = scores + row * block;
        const std::int64_t visible = std::clamp<std::int64_t>(seen(row) - position, 0, positions);
        ragged = ragged || visible < positions;
        if (e.masked) mask(row, position, visible, s);
        const std::int64_t to = std::int64_t{row} * step_channels * (narrow ? 2 : 4);
        factors[row] = a.kernel_.rows->weigh(s, visible, padded, e.masked ? 1.0f : static_cast<float>(e.scale),
                                             weights + to, d.tile * step_channels, kind, largest[row], sums[row]);
      }
      return ragged;
    }

    void mask(int row, std::int64_t position, std::int64_t visible, float* s) const {
      const std::int64_t head = pair % e.groups * (e.heads / e.groups) + (first + row) / e.length;
      const T* const from = a.p_.mask + pair / e.groups % e.mask_images * e.mask[0] + head * e.mask[1] +
                            (first + row) % e.length * e.mask[2] + position * e.mask[3];
      for (std::int64_t i = 0; i < visible; ++i)
        s[i] = s[i] * static_cast<float>(e.scale) + number(from[i * e.mask[3]]);
    }

    /// values = values * factors + weights v
    void add_values(std::int64_t position, std::int64_t positions, bool ragged) const {
      float* const to = position == 0 ? values : more;
      const T* const v = a.p_.v + at_position(e, e.v, pair, position);
      // What a row does not see may not be finite, and its weight, 0, times that is NaN.
      const std::int64_t read = std::min(round_up<std::int64_t>(positions, step_channels), e.positions - position);
      if ((ragged || read > positions) && !all_finite(v, read)) {
        add_seen(v, position, positions, to);
      } else {
        const Steps steps(a.engine_, positions, order_of_weights(a.engine_));
        const std::int64_t panel = row_panel(a.engine_, e.positions);
        for (std::int64_t b = 0; b < d.width_blocks; ++b) {
          const Tile t = {.input = weights,
                          .offsets = a.offsets_,
                          .steps = static_cast<int>(steps.steps),
                          .whole_steps = static_cast<int>(steps.whole),
                          .pairs = steps.pairs,
                          .weights = packed + d.keys + b * panel + position / step_channels * row_step(a.engine_),
                          .sums = to + b * a.engine_.filters,
                          .sums_row = d.width};
          a.engine_.multiply(t, count);
        }
      }
      for (int row = 0; to == more && row < count; ++row) {
        a.kernel_.rows->add(values + row * d.width, factors[row], more + row * d.width, e.width);
      }
    }

    bool all_finite(const T* v, std::int64_t positions) const {
      bool finite = true;
      for (std::int64_t i = 0; i < positions; ++i) {
        for (std::int64_t x = 0; x < e.width; ++x)
          finite &= std::abs(number(v[i * e.v.row + x])) <= std::numeric_limits<float>::max();
      }
      return finite;
    }

    void add_seen(const T* v, std::int64_t position, std::int64_t positions, float* to) const {
      for (int row = 0; row < count; ++row) {
        const std::int64_t visible = std::clamp<std::int64_t>(seen(row) - position, 0, positions);
        for (std::int64_t x = 0; x < e.width; ++x) {
          float sum = 0;
          for (std::int64_t i = 0; i < visible; ++i) sum += weight(row, i) * number(v[i * e.v.row + x]);
          to[row * d.width + x] = sum;
        }
      }
    }
    float weight(int row, std::int64_t i) const {
      const std::int64_t line = (i / step_channels * d.tile + row) * step_channels, in_step = i % step_channels;
      if (a.engine_.widened) return reinterpret_cast<const float*>(weights)[line + in_step];
      return to_float(reinterpret_cast<const bfloat16*>(weights)[line + AttentionRows::bf16_place(in_step)]);
    }

    const Attention& a;
    const AttentionDivision& d;
    const AttentionExtents& e;
    std::int64_t pair;
    const T* packed;  // of the pair
    std::int64_t first;
    int count;
    std::byte *queries, *weights;  // [steps, tile, step_channels]
    float* scores;                 // [tile, block]
    float *values, *more;          // [tile, width]
    float largest[max_rows], sums[max_rows], factors[max_rows];
  };

  const AttentionKernel& kernel_;
  const Engine& engine_;
  const AttentionExtents& e_;
  const AttentionPointers<T>& p_;
  const AttentionDivision d_;
  ThreadPool& pool_;
  T* packed_;
  std::int64_t* offsets_;  // of steps of a tile
  std::byte* workers_;
};

}  // namespace

AttentionKernel attention_kernel(const bf16::Engine& engine) {
  DeviceDescription device;
  device.instructions = engine.set;
  return {&engine, &best_kernel(bf16::moves(), device), &best_kernel(attention_rows_kernels(), device)};
}

std::size_t attention_workspace(const AttentionKernel& kernel, const AttentionExtents& e, int threads) {
  const AttentionDivision d(*kernel.engine, e, threads);
  return static_cast<std::size_t>(d.packed_bytes(*kernel.engine) + d.offsets + threads * d.worker);
}

template <class T>
void attention(const AttentionKernel& kernel, const AttentionExtents& e, const AttentionPointers<T>& p,
               ThreadPool& pool, std::byte* workspace) {
  if (e.images == 0 || e.heads == 0 || e.length == 0 || e.width == 0) return;
  Attention<T>(kernel, e, p, pool, workspace).run();
}

template void attention(const AttentionKernel&, const AttentionExtents&, const AttentionPointers<float>&, ThreadPool&,
                        std::byte*);
template void attention(const AttentionKernel&, const AttentionExtents&, const AttentionPointers<bfloat16>&,
                        ThreadPool&, std::byte*);

}  // namespace lamina::cpu
