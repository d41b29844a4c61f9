#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <type_traits>

#include "lamina/cpu/arithmetic.h"
#include "lamina/cpu/array/fold.h"

/// What a FoldKernel does with floats, of double, std::int64_t and std::uint64_t, too.
namespace lamina::cpu {

/// What many numbers of T are put together in.
template <class T>
using Sum = std::conditional_t<std::is_same_v<T, float>, double, T>;

/// Calls f with what becomes of an element, and with the function that two partial results are put together by.
template <class T, class F>
void with_fold(Fold fold, F f) {
  const auto same = [](T x, T) { return x; };
  const auto sum = [](T a, T b) { return wrapped_sum(a, b); };
  switch (fold) {
    case Fold::largest: return f(same, [](T a, T b) { return greater_of(a, b); });
    case Fold::least: return f(same, [](T a, T b) { return lesser_of(a, b); });
    case Fold::product: return f(same, [](T a, T b) { return wrapped_product(a, b); });
    case Fold::absolute: return f([](T x, T) { return x < T{0} ? static_cast<T>(T{0} - x) : x; }, sum);
    case Fold::squares: return f([](T x, T) { return wrapped_product(x, x); }, sum);
    case Fold::powers:  // of floats alone: whole numbers are made double
      return f([](T x, T below) { return static_cast<T>(std::exp(static_cast<double>(x - below))); }, sum);
    case Fold::sum: return f(same, sum);
  }
}

template <class T>
void fold_columns(const FoldKernel& kernel, Fold fold, std::span<const T* const> lines, std::int64_t count,
                  Sum<T>* value, const T* below) {
  if constexpr (std::is_same_v<T, float>) {
    kernel.columns[static_cast<int>(fold)](lines, count, value, below);
  } else {
    with_fold<T>(fold, [&](auto become, auto join) {
      for (const T* line : lines) {
        for (std::int64_t j = 0; j < count; ++j) value[j] = join(value[j], become(line[j], below[j]));
      }
    });
  }
}

/// `value` is what nothing is folded to, or what came before.
template <class T>
Sum<T> fold_row(const FoldKernel& kernel, Fold fold, const T* x, std::int64_t count, Sum<T> value, T below) {
  if constexpr (std::is_same_v<T, float>) {
    return kernel.row[static_cast<int>(fold)](x, count, value, below);
  } else {
    with_fold<T>(fold, [&](auto become, auto join) {
      constexpr std::int64_t lanes = 16;  // side by side
      T lane[lanes];
      std::fill_n(lane, lanes, fold >= Fold::largest ? value : static_cast<T>(fold == Fold::product));
      for (std::int64_t i = 0; i < count; i += lanes) {
        const std::int64_t here = std::min(lanes, count - i);
        for (std::int64_t l = 0; l < here; ++l) lane[l] = join(lane[l], become(x[i + l], below));
      }
      for (const T& one : lane) value = join(value, one);
    });
    return value;
  }
}

}  // namespace lamina::cpu
