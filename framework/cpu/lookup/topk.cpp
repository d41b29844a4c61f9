#include "lamina/cpu/lookup/lookup.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "lamina/base/math.h"
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

template <class T>
using Key = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
template <class T>
constexpr Key<T> sign_bit = static_cast<Key<T>>(Key<T>{1} << (8 * sizeof(Key<T>) - 1));

/// An unsigned number in the order of the values: NaN is the largest, both zeros are equal.
template <class T>
Key<T> key_of(T value) {
  if constexpr (std::is_same_v<T, half> || std::is_same_v<T, bfloat16>) {
    return key_of(to_float(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto bits = std::bit_cast<Key<T>>(value + T{0});  // -0 + 0 = 0
    const Key<T> key = bits >= sign_bit<T> ? ~bits : bits | sign_bit<T>;
    return value != value ? ~Key<T>{0} : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key<T>>(value) ^ sign_bit<T>;
  } else {
    return static_cast<Key<T>>(value);
  }
}

/// Puts the first k of a line's elements in order at the front of `found`, which has room for all.
///
/// If these are few, the least key of each of some interleaved groups is found first: at least k elements have no
/// greater keys than the k-th of these, and mostly little more than k, which alone are compared one by one.
template <class T>
void find(const T* x, std::int64_t count, std::int64_t k, Key<T> flip, Candidate* found) {
  Key<T> bound = ~Key<T>{0};
  const std::int64_t groups = std::min(count / 4, std::max<std::int64_t>(32, 8 * k));
  if (k > 0 && groups >= 2 * k) {
    auto* const least = reinterpret_cast<Key<T>*>(found);
    std::fill_n(least, groups, bound);
    for (std::int64_t i = 0; i < count; i += groups) {
      const std::int64_t some = std::min(groups, count - i);
      for (std::int64_t j = 0; j < some; ++j) least[j] = std::min<Key<T>>(least[j], key_of(x[i + j]) ^ flip);
    }
    std::nth_element(least, least + k - 1, least + groups);
    bound = least[k - 1];
  }
  std::int64_t size = 0;
  const auto take = [&](std::int64_t first, auto some) {
    constexpr std::int64_t most = 32;
    Key<T> keys[most], near = 0;
    for (std::int64_t j = 0; j < some; ++j) {
      keys[j] = key_of(x[first + j]) ^ flip;
      near |= static_cast<Key<T>>(keys[j] <= bound);
    }
    if (near == 0) return;
    for (std::int64_t j = 0; j < some; ++j) {
      found[size] = {keys[j], first + j};
      size += keys[j] <= bound;
    }
  };
  constexpr std::integral_constant<std::int64_t, 32> block;
  const std::int64_t whole = count / block * block;
  for (std::int64_t i = 0; i < whole; i += block) take(i, block);
  take(whole, count - whole);
  if (k < size / 2) std::nth_element(found, found + k, found + size);
  std::sort(found, found + (k < size / 2 ? k : size));
}

/// Lines whose elements are not neighbours are brought together, some side by side at a time.
constexpr std::int64_t side_by_side = 16;

template <class T>
void lines(const TopKProblem& problem, const LineExtents& e, const T* input, std::int64_t* output, ThreadPool& pool,
           std::byte* workspace, std::size_t share) {
  const std::int64_t pieces = detail::ceil_div(e.inner, side_by_side);
  const Key<T> flip = problem.largest ? ~Key<T>{0} : 0;
  pool.parallel_for(e.outer * pieces, [&](std::int64_t item, int worker) {
    auto* const found = reinterpret_cast<Candidate*>(workspace + static_cast<std::size_t>(worker) * share);
    auto* const together = reinterpret_cast<T*>(found + e.extent);
    const std::int64_t outer = item / pieces, first = item % pieces * side_by_side;
    const std::int64_t here = std::min(side_by_side, e.inner - first);
    const T* x = input + outer * e.extent * e.inner + first;
    if (e.inner > 1) {
      for (std::int64_t i = 0; i < e.extent; ++i) {
        for (std::int64_t j = 0; j < here; ++j) together[j * e.extent + i] = x[i * e.inner + j];
      }
      x = together;
    }
    for (std::int64_t j = 0; j < here; ++j, x += e.extent) {
      find(x, e.extent, problem.k, flip, found);
      const std::int64_t to = outer * problem.k * e.inner + first + j;
      for (std::int64_t i = 0; i < problem.k; ++i) {
        output[to + i * e.inner] = found[i].place;
      }
    }
  });
}

}  // namespace

std::unique_ptr<Operator> prepare_topk(const TopKProblem& problem, const Preparation& p) {
  const LineExtents e = detail::line_extents(p.input().shape, problem.dim);
  const auto extent = static_cast<std::size_t>(e.extent);
  const std::size_t together = e.inner > 1 ? extent * side_by_side * size_of(p.input().format.dtype) : 0;
  const std::size_t share = detail::round_up<std::size_t>(extent * sizeof(Candidate) + together, 64);
  return make_operator("partial sort", {.workspace = share * static_cast<std::size_t>(p.threads)},
                       [problem, e, share](Inputs inputs, Outputs outputs, const Execution& execution) {
                         detail::visit(inputs[0].dtype(), [&]<class T>(std::type_identity<T>) {
                           lines(problem, e, static_cast<const T*>(inputs[0].raw()),
                                 outputs[0].values<std::int64_t>().data(), *execution.pool,
                                 static_cast<std::byte*>(execution.workspace), share);
                         });
                       });
}

}  // namespace lamina::cpu
