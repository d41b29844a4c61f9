// Steps of recurrent layers, a block of as many units as a vector has lanes at a time: the products of all its gates,
// whose sums stay in registers, and then the cell. Weights stream from the cache once for all rows of a step.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lamina/cpu/recurrent/steps.cpp"
#include "lamina/cpu/simd_targets.h"

#include <algorithm>

#include "lamina/cpu/recurrent/recurrent.h"
#include "lamina/cpu/vector_math-inl.h"
#include "lamina/cpu/vectors-inl.h"
#include "lamina/kernel/make_operator.h"

LAMINA_SIMD_BEGIN(lamina::cpu);

// Sixteen registers hold the sums of two rows and what is multiplied, thirty-two those of four.
constexpr int widest = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? RecurrentKernel::most_rows : 2;
constexpr int most_gates = 4;

/// sums[block][row][gate] of `blocks` blocks one after the other. One row has two of them, for one is but four chains
/// of sums; every sum is in the order of the terms, so that no row's bits depend on the others.
template <int gates, int rows, int blocks, class W>
void products(const W* weights, const float* const* h, std::int64_t terms, float* sums) {
  const Tag d;
  Vector sum[blocks][rows][gates];
#pragma GCC unroll 16
  for (int i = 0; i < blocks * rows * gates; ++i) sum[i / (rows * gates)][i / gates % rows][i % gates] = hn::Zero(d);
  for (std::int64_t k = 0; k < terms; ++k) {
#pragma GCC unroll 8
    for (int i = 0; i < blocks * gates; ++i) {
      const int b = i / gates, g = i % gates;
      const Vector weight = load_floats(d, weights + ((b * terms + k) * gates + g) * lanes);
#pragma GCC unroll 8
      for (int n = 0; n < rows; ++n) sum[b][n][g] = hn::MulAdd(hn::Set(d, h[n][k]), weight, sum[b][n][g]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < blocks * rows * gates; ++i)
    hn::StoreU(sum[i / (rows * gates)][i / gates % rows][i % gates], d, sums + i * lanes);
}

/// What a cell makes of the sums of one block of one row.
class Finish {
 public:
  Finish(const RecurrentProblem& problem, int direction, const StepRow& row, std::int64_t unit, const float* sums)
      : problem_(problem), row_(row), direction_(direction), unit_(unit), hidden_(problem.hidden), sums_(sums) {}

  HWY_ATTR void run(int first_gate) const {
    switch (problem_.cell) {
      case Cell::rnn: return store(function(0, pre(0)), row_.y);
      case Cell::lstm: return lstm();
      case Cell::gru: break;
    }
    if (first_gate == 2) return mix(load(row_.y), function(1, clipped(hn::Add(x(2), sum(0)))));
    const Vector z = function(0, pre(0)), r = function(0, pre(1));
    if (problem_.reset_after) {
      const Vector product = hn::Add(sum(2), load(detail::floats(problem_.bias) + direction_ * hidden_));
      return mix(z, function(1, clipped(hn::MulAdd(r, product, x(2)))));
    }
    store(z, row_.y);
    store(hn::Mul(r, load(row_.h)), row_.more);
  }

 private:
  /// How many of the units there are.
  HWY_ATTR HWY_INLINE int left() const { return static_cast<int>(std::min<std::int64_t>(lanes, hidden_ - unit_)); }
  HWY_ATTR HWY_INLINE Vector load(const float* row) const { return load_part(row + unit_, left()); }
  HWY_ATTR HWY_INLINE void store(Vector v, float* row) const { store_part(v, left(), row + unit_); }
  HWY_ATTR HWY_INLINE Vector x(int gate) const { return load(row_.x + gate * hidden_); }
  HWY_ATTR HWY_INLINE Vector sum(int gate) const {
    const Vector sum = hn::LoadU(Tag(), sums_ + gate * lanes);
    if (!problem_.scale.defined()) return sum;
    const Vector scale = load(detail::floats(problem_.scale) + (direction_ * problem_.gates() + gate) * hidden_);
    return hn::Mul(sum, hn::Mul(scale, hn::Set(Tag(), row_.scale)));
  }
  HWY_ATTR HWY_INLINE Vector clipped(Vector v) const {
    return clamped(v, hn::Set(Tag(), -problem_.clip), hn::Set(Tag(), problem_.clip));
  }
  HWY_ATTR HWY_INLINE Vector pre(int gate) const { return clipped(hn::Add(x(gate), sum(gate))); }
  /// Of an LSTM's gate that c has a part in.
  HWY_ATTR HWY_INLINE Vector pre(int gate, int peephole, Vector c) const {
    if (!problem_.peepholes.defined()) return pre(gate);
    const float* const row = detail::floats(problem_.peepholes) + (direction_ * 3 + peephole) * hidden_;
    return clipped(hn::MulAdd(load(row), c, hn::Add(x(gate), sum(gate))));
  }
  HWY_ATTR HWY_INLINE Vector function(int which, Vector v) const {
    const std::size_t each = problem_.functions.size() / static_cast<std::size_t>(problem_.directions);
    const PointwiseStep& f =
        problem_.functions[static_cast<std::size_t>(direction_) * each + static_cast<std::size_t>(which)];
    const Tag d;
    const auto set = [&](double number) HWY_ATTR { return hn::Set(d, static_cast<float>(number)); };
    switch (f.function) {
      case Pointwise::sigmoid: return vector_sigmoid(d, v);
      case Pointwise::tanh: return vector_tanh(d, v);
      case Pointwise::relu: return vector_max(hn::Zero(d), v);
      default: return clamped(hn::MulAdd(set(f.a), v, set(f.b)), hn::Zero(d), set(1));
    }
  }

  HWY_ATTR HWY_INLINE void lstm() const {
    const Vector c = load(row_.c), i = function(0, pre(0, 0, c));
    const Vector f = problem_.input_forget ? hn::Sub(hn::Set(Tag(), 1.0f), i) : function(0, pre(2, 2, c));
    const Vector next = hn::MulAdd(f, c, hn::Mul(i, function(1, pre(3))));
    store(next, row_.more);
    store(hn::Mul(function(0, pre(1, 1, next)), function(2, next)), row_.y);
  }
  /// A GRU's h: (1 - z) h~ + z h.
  HWY_ATTR HWY_INLINE void mix(Vector z, Vector candidate) const {
    store(hn::MulAdd(z, hn::Sub(load(row_.h), candidate), candidate), row_.y);
  }

  const RecurrentProblem& problem_;
  const StepRow& row_;
  int direction_;
  std::int64_t unit_, hidden_;
  const float* sums_;
};

template <class W>
using Products = void (*)(const W*, const float* const*, std::int64_t, float*);

/// By gates and rows; of no rows: one row, two blocks.
template <class W, int... gates>
constexpr Products<W> all_products[sizeof...(gates)][5] = {
    {products<gates, 1, 2, W>, products<gates, 1, 1, W>, products<gates, 2, 1, W>,
     products<gates, std::min(widest, 3), 1, W>, products<gates, widest, 1, W>}...};

template <class W>
void step_of(const RecurrentProblem& problem, int direction, RecurrentProblem::Phase phase, const W* weights,
             std::span<const StepRow> rows, std::int64_t first, std::int64_t last, bool from_last) {
  const std::int64_t hidden = problem.hidden, blocks_of_gate = (hidden + lanes - 1) / lanes;
  weights += (direction * problem.gates() + phase.first) * blocks_of_gate * lanes * hidden;
  const auto& table = all_products<W, 1, 2, 3, most_gates>[phase.gates - 1];
  HWY_ALIGN float sums[std::max(widest, 2) * most_gates * lanes];
  for (std::int64_t done = first, blocks = 1; done < last; done += blocks) {
    blocks = rows.size() == 1 && done + 1 < last ? 2 : 1;
    const std::int64_t block = from_last ? first + last - done - blocks : done;
    for (std::size_t row = 0, count = 0; row < rows.size(); row += count) {
      count = std::min<std::size_t>(widest, rows.size() - row);
      const float* h[widest];
      for (std::size_t n = 0; n < count; ++n) h[n] = phase.first == 0 ? rows[row + n].h : rows[row + n].more;
      table[blocks == 2 ? 0 : count](weights + block * hidden * phase.gates * lanes, h, hidden, sums);
      for (std::size_t i = 0; i < static_cast<std::size_t>(blocks) * count; ++i) {
        const std::int64_t unit = (block + static_cast<std::int64_t>(i / count)) * lanes;
        const float* const of_block = sums + i * static_cast<std::size_t>(phase.gates * lanes);
        Finish(problem, direction, rows[row + i % count], unit, of_block).run(phase.first);
      }
    }
  }
}

void step(const RecurrentProblem& problem, int direction, int phase, const Tensor& weights,
          std::span<const StepRow> rows, std::int64_t first, std::int64_t last, bool from_last) {
  const auto of = [&](const auto* numbers) {
    step_of(problem, direction, problem.phase(phase), numbers, rows, first, last, from_last);
  };
  weights.dtype() == DType::bf16 ? of(static_cast<const bfloat16*>(weights.raw())) : of(detail::floats(weights));
}

constexpr RecurrentKernel kernel = {LAMINA_SIMD_SET, lanes, step};

LAMINA_SIMD_END;

#if HWY_ONCE
namespace lamina::cpu {

std::span<const RecurrentKernel> recurrent_kernels() { return LAMINA_SIMD_KERNELS(kernel); }

}  // namespace lamina::cpu
#endif
