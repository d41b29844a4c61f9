// Products of the dtypes that networks hardly multiply: shapes and indices as whole numbers, constants in f64.

#include <algorithm>
#include <type_traits>

#include "lamina/cpu/product/matmul.h"
#include "lamina/tensor/visit.h"

namespace lamina::cpu {
namespace {

/// What sums of T are kept in: whole numbers wrap, so they are unsigned.
template <class T>
using Accumulator = std::conditional_t<!std::is_integral_v<T>, double,
                                       std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

/// The longest chain of sums: docs/inside/precision.md.
constexpr std::int64_t columns_at_a_time = 64, chain_terms = 128;

/// alpha * sum: whole numbers by a whole alpha stay exact.
template <class A>
A scaled(A sum, double alpha) {
  if constexpr (std::is_integral_v<A>) {
    return alpha == 1 ? sum : sum * static_cast<A>(static_cast<std::int64_t>(alpha));
  } else {
    return sum * static_cast<A>(alpha);
  }
}

/// `column`: elements of b from one column to the next.
template <class T, class Column>
void loops(const detail::MatMulExtents& e, Column column, const T* a_all, const T* b_all, T* c, ThreadPool& pool) {
  using A = Accumulator<T>;
  pool.parallel_for(e.batches * e.m, [&](std::int64_t row, int) {
    const auto at = e.operands(row / e.m);
    const T* const a = a_all + at.a + row % e.m * e.a_row;
    const T* const b = b_all + at.b;
    for (std::int64_t first = 0; first < e.n; first += columns_at_a_time) {
      const std::int64_t count = std::min(columns_at_a_time, e.n - first);
      A sums[columns_at_a_time] = {}, chain[columns_at_a_time];
      for (std::int64_t begin = 0; begin < e.k; begin += chain_terms) {
        std::fill_n(chain, count, A{});
        for (std::int64_t k = begin; k < std::min(e.k, begin + chain_terms); ++k) {
          const A value = static_cast<A>(a[k * e.a_term]);
          const T* const from = b + k * e.b_term + first * column;
          for (std::int64_t i = 0; i < count; ++i) chain[i] += value * static_cast<A>(from[i * column]);
        }
        for (std::int64_t i = 0; i < count; ++i) sums[i] += chain[i];
      }
      for (std::int64_t i = 0; i < count; ++i) c[row * e.n + first + i] = static_cast<T>(scaled(sums[i], e.alpha));
    }
  });
}

}  // namespace

bool matmul_loops_know(DType dtype) { return dtype == DType::f64 || (!is_float(dtype) && dtype != DType::boolean); }

void matmul_loops(DType dtype, const detail::MatMulExtents& extents, const void* a, const void* b, void* c,
                  ThreadPool& pool) {
  detail::visit(dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, double> || (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
      const auto run = [&](auto column) {
        loops(extents, column, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c), pool);
      };
      // A loop of its own for neighbours, which compilers make vectors of.
      extents.b_column == 1 ? run(std::integral_constant<std::int64_t, 1>()) : run(extents.b_column);
    }
  });
}

}  // namespace lamina::cpu
