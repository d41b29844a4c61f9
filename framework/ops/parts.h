#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/ops/expansion.h"

/// What rows of several parts of the op table are made of.
namespace lamina::detail {

/// A list of positions can be no longer than that: a file of some bytes may ask for any padding.
constexpr std::int64_t longest_list = std::int64_t{1} << 26;

inline Shape to_shape(const std::vector<std::int64_t>& extents) {
  return Shape(std::span<const std::int64_t>(extents));
}
inline std::vector<std::int64_t> extents_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

/// The number of elements of dimensions [first, last).
std::int64_t count_of(const Shape& shape, int first, int last);

/// How far elements are from one another along each dimension of a row-major tensor.
std::vector<std::int64_t> row_major_strides(const Shape& shape);

/// As a number of a layer's options. Throws Error if it does not fit.
int to_int(const Expansion& e, std::int64_t value);

/// Throws Error unless an attribute's text is one of the names.
void require_one_of(const Expansion& e, std::string_view what, const std::string& text,
                    const std::vector<std::string>& names);

/// What an attribute's text stands for. Throws Error unless it is one of the `choices`.
template <class T>
T choice(const Expansion& e, std::string_view what, const std::string& wanted,
         std::initializer_list<std::pair<std::string_view, T>> choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == wanted) return value;
    names.emplace_back(name);
  }
  require_one_of(e, what, wanted, names);
  return {};
}

/// The node in f32, for what computes in nothing else. Throws Error unless it holds floats.
int as_f32(Expansion& e, int node);
/// An operand that must be known, in f32.
Tensor known_f32(const Expansion& e, int i);

/// The places along one dimension that an output is made of; -1: none.
struct Picks {
  int axis = 0;
  std::vector<std::int64_t> places;
};
/// The elements at those places, every element of the other dimensions; `fill` where there is none.
int pick(Expansion& e, int node, const std::vector<Picks>& picks, double fill = 0);
/// Places begin, begin + 1, ..., `length` of them, of a dimension of `extent`.
Picks places_of(const Expansion& e, int axis, std::int64_t begin, std::int64_t length, std::int64_t extent);

/// The places [capacity, 1], with a count, of what is not 0 in x, which has any shape, in row-major order.
int places_of_true(Expansion& e, int x);

/// Slices of an axis at places, known or not, i64 or i32.
int take(Expansion& e, int data, int indices, int axis);

/// A number for each element of `shape`, in the type of others.
int constant_of(Expansion& e, const std::vector<double>& values, Shape shape, DType dtype);

/// The places 0, 1, ... along dimension `axis` of so many, i64, to broadcast over `rank` dimensions.
int places_along(Expansion& e, int axis, int rank, std::int64_t count);

/// All dimensions that the attribute or operand lists, counted from the front. Throws Error for one that is there
/// twice.
std::vector<int> axes_of(const Expansion& e, const std::vector<std::int64_t>& listed, int rank);

}  // namespace lamina::detail
