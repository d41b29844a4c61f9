#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lamina/kernel/rules/reduce_plan.h"

/// What a thread knows of the elements that it has seen of a reduction, and how two threads put that together.
namespace lamina::cuda {

/// What is the same for every element.
template <class T>
struct Settings {
  Reduction kind;
  bool last;  ///< of equals, arg_max and arg_min find it
  T start;    ///< the function's identity
};

template <class T>
__device__ inline bool is_number(T v) {
  return v == v;
}
template <class T>
__device__ inline bool is_finite(T v) {
  return v - v == T{0};
}

/// Sums, products, the largest and the least.
template <class T>
struct Fold {
  T value;
  T lost;  ///< of a sum of floats: what is to be taken from it

  Fold() = default;
  __device__ explicit Fold(const Settings<T>& s) : value(s.start), lost(T{}) {}
  __device__ Fold(T v, T l) : value(v), lost(l) {}

  __device__ void add(const Settings<T>& s, T x, std::int64_t) {
    switch (s.kind) {
      case Reduction::max: value = value > x || !is_number(value) ? value : x; break;
      case Reduction::min: value = value < x || !is_number(value) ? value : x; break;
      case Reduction::prod: value = multiplied(value, x); break;
      case Reduction::l1: plus(magnitude(x)); break;
      case Reduction::l2:
      case Reduction::sum_square: plus(multiplied(x, x)); break;
      default: plus(x);
    }
  }
  __device__ void join(const Settings<T>& s, const Fold& other) {
    if (s.kind == Reduction::max || s.kind == Reduction::min || s.kind == Reduction::prod) {
      add(s, other.value, 0);
    } else {
      plus(other.value);
      plus(T{0} - other.lost);
    }
  }
  __device__ T result(const Settings<T>& s, std::int64_t count) const {
    if constexpr (std::is_integral_v<T>) {
      if (s.kind != Reduction::mean) return value;
      return count == 0 ? T{0} : value / static_cast<T>(count);
    } else {
      switch (s.kind) {
        case Reduction::mean: return value / static_cast<T>(count);
        case Reduction::l2: return sqrt(value);
        case Reduction::log_sum: return log(value);
        default: return value;
      }
    }
  }

 private:
  __device__ static T magnitude(T x) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      return x;
    } else {
      return x < T{0} ? multiplied(x, T{-1}) : x;
    }
  }
  __device__ void plus(T x) {
    if constexpr (std::is_same_v<T, float>) {
      const float y = x - lost, sum = __fadd_rn(value, y);
      lost = __fsub_rn(__fsub_rn(sum, value), y);
      if (!is_finite(lost)) lost = 0;  // of an infinite sum nothing is lost
      value = sum;
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      value = static_cast<T>(static_cast<std::uint64_t>(value) + static_cast<std::uint64_t>(x));
    } else {
      value += x;
    }
  }
  __device__ static T multiplied(T a, T b) {
    if constexpr (std::is_same_v<T, std::int64_t>) {
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

/// log(sum(exp(x))): the largest, and the sum of exp(x - largest) so far. An infinite or NaN largest is the result.
template <class T>
struct LogSumExp {
  T largest, sum;

  __device__ explicit LogSumExp(const Settings<T>&) : largest(static_cast<T>(-INFINITY)), sum(0) {}
  __device__ LogSumExp(T l, T s) : largest(l), sum(s) {}

  __device__ void add(const Settings<T>& s, T x, std::int64_t) { join(s, {x, T{1}}); }
  __device__ void join(const Settings<T>&, const LogSumExp& other) {
    const T most = largest > other.largest || !is_number(largest) ? largest : other.largest;
    if (is_finite(most)) sum = sum * exp(largest - most) + other.sum * exp(other.largest - most);
    largest = most;
  }
  __device__ T result(const Settings<T>&, std::int64_t) const {
    return is_finite(largest) ? largest + log(sum) : largest;
  }
};

/// The place of the largest or the least; NaN is more than either.
template <class T>
struct Place {
  T value = T{};
  std::int64_t place = -1;  ///< none yet

  __device__ explicit Place(const Settings<T>&) {}
  __device__ Place(T v, std::int64_t p) : value(v), place(p) {}

  __device__ void add(const Settings<T>& s, T x, std::int64_t index) { join(s, {x, index}); }
  __device__ void join(const Settings<T>& s, const Place& other) {
    if (other.place < 0) return;
    const bool equal = value == other.value || (!is_number(value) && !is_number(other.value));
    const bool more = !is_number(other.value) ||
                      (is_number(value) && (s.kind == Reduction::arg_max ? other.value > value : other.value < value));
    const bool nearer = s.last ? other.place > place : other.place < place;
    if (place < 0 || (equal ? nearer : more)) *this = other;
  }
  __device__ std::int64_t result(const Settings<T>&, std::int64_t) const { return place < 0 ? 0 : place; }
};

/// The number that a reduction starts from.
template <class T>
T identity_of(Reduction kind, DType dtype) {
  const auto as = [](double number) {
    if constexpr (std::is_integral_v<T>) {
      if (number >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    }
    return static_cast<T>(number);
  };
  switch (kind) {
    case Reduction::max: return as(detail::least_of(dtype));
    case Reduction::min: return as(detail::max_of(dtype));
    case Reduction::prod: return T{1};
    default: return T{0};
  }
}

}  // namespace lamina::cuda
