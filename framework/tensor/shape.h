#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

#include "lamina/base/export.h"

namespace lamina {

/// The batch dimension in the shape of a graph's input. `Graph::compile` replaces it by the number.
inline constexpr std::int64_t batch = -1;

/// An open dimension in the shape of a graph's input. `CompileOptions::input_shapes` gives the number.
inline constexpr std::int64_t open = -2;

/// The only element of an input's shape whose rank is open too. `CompileOptions::input_shapes` gives the whole shape.
inline constexpr std::int64_t any_rank = -3;

/// The sizes of a tensor's dimensions (its extents), outermost first, e.g. [N, C, H, W]. Rank 0 is a scalar. A Shape
/// allocates nothing.
class LAMINA_API Shape {
 public:
  static constexpr std::size_t max_rank = 8;

  Shape() = default;
  /// Throws Error if there are more than `max_rank` extents. A negative extent has to be `lamina::batch`,
  /// `lamina::open`, or `lamina::any_rank` as the only one; others throw Error too.
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  std::size_t rank() const { return rank_; }
  /// Extent of dimension i; negative i counts from the end. Throws Error if there is no such dimension.
  std::int64_t operator[](int i) const;
  void set(int i, std::int64_t extent);

  const std::int64_t* begin() const { return extents_.data(); }
  const std::int64_t* end() const { return extents_.data() + rank_; }
  std::span<const std::int64_t> extents() const { return {begin(), end()}; }

  /// Product of the extents, 1 for a scalar. Throws Error if it overflows or an extent is not known yet.
  std::int64_t numel() const;

  /// The same shape with every `lamina::batch` replaced by n.
  Shape with_batch(std::int64_t n) const;
  bool has_batch() const;
  /// Every extent is a number.
  bool is_known() const;

  /// Whether an input with this shape, which may have open dimensions, accepts `shape`.
  bool admits(const Shape& shape) const;

  /// "[8, 3, 224, 224]"; the batch dimension prints as N, an open one as ?, a shape of any rank as [...].
  std::string to_string() const;

  friend LAMINA_API bool operator==(const Shape& a, const Shape& b);
  friend LAMINA_API std::ostream& operator<<(std::ostream& out, const Shape& shape);

 private:
  std::size_t index_of(int i) const;

  std::array<std::int64_t, max_rank> extents_{};
  std::size_t rank_ = 0;
};

}  // namespace lamina
