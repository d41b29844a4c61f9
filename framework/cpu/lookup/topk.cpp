#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "lamina/kernel/make_operator.h"
#include "lamina/tensor/visit.h"

namespace lamina::cpu {
namespace {

using namespace tables;
using detail::LineExtents;

/// An element as it is compared: by key, equals by place.
struct Candidate {
  std::uint64_t key;
  std::int64_t place;
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  }
};

/// An unsigned number in the order of the values: NaN is the largest, both zeros are equal.
template <class T>
std::uint64_t key_of(T value) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return key_of(to_float(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return ~std::uint64_t{0};
    const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(value) + 0.0);  // -0 + 0 = 0
    constexpr std::uint64_t sign = std::uint64_t{1} << 63;
    return (bits & sign) != 0 ? ~bits : bits | sign;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value)) ^ (std::uint64_t{1} << 63);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

/// Puts the first k in order at the front.
void put_in_front(Candidate* begin, Candidate* end, std::int64_t k) {
  Candidate* const middle = begin + k;
  if (k * 16 < end - begin) return std::partial_sort(begin, middle, end);
  if (middle != end) std::nth_element(begin, middle, end);
  std::sort(begin, middle);
}

template <class T>
void lines(const TopKProblem& problem, const LineExtents& e, const T* input, void* output, ThreadPool& pool,
           Candidate* workspace) {
  pool.parallel_for(e.outer * e.inner, [&](std::int64_t line, int worker) {
    const T* const x = input + line / e.inner * e.extent * e.inner + line % e.inner;
    Candidate* const candidates = workspace + worker * e.extent;
    for (std::int64_t i = 0; i < e.extent; ++i) {
      const std::uint64_t key = key_of(x[i * e.inner]);
      candidates[i] = {problem.largest ? ~key : key, i};
    }
    put_in_front(candidates, candidates + e.extent, problem.k);
    const std::int64_t first = line / e.inner * problem.k * e.inner + line % e.inner;
    for (std::int64_t i = 0; i < problem.k; ++i) {
      const std::int64_t place = candidates[i].place;
      if (problem.places) {
        static_cast<std::int64_t*>(output)[first + i * e.inner] = place;
      } else {
        static_cast<T*>(output)[first + i * e.inner] = x[place * e.inner];
      }
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_topk(const TopKProblem& problem, const Preparation& p) {
  const LineExtents e = detail::line_extents(p.input().shape, problem.dim);
  const auto candidates = static_cast<std::size_t>(e.extent) * static_cast<std::size_t>(p.threads);
  return make_operator("partial sort", {.workspace = candidates * sizeof(Candidate)},
                       [problem, e](Inputs inputs, Outputs outputs, const Execution& execution) {
                         detail::visit(inputs[0].dtype(), [&]<class T>(std::type_identity<T>) {
                           lines(problem, e, static_cast<const T*>(inputs[0].raw()), outputs[0].raw(), *execution.pool,
                                 static_cast<Candidate*>(execution.workspace));
                         });
                       });
}

}  // namespace lamina::cpu
