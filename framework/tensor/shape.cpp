#include "lamina/tensor/shape.h"

#include <algorithm>

#include "lamina/base/error.h"
#include "lamina/base/math.h"

namespace lamina {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) : rank_(extents.size()) {
  if (rank_ > max_rank) detail::fail("shape: expected at most ", max_rank, " dimensions, got ", rank_);
  std::copy(extents.begin(), extents.end(), extents_.begin());
  for (const std::int64_t extent : extents) {
    if (extent < 0 && extent != batch && extent != open && (extent != any_rank || rank_ > 1))
      detail::fail("shape: expected extents of 0 or more, got ", *this);
  }
}

std::size_t Shape::index_of(int i) const {
  const auto rank = static_cast<int>(rank_);
  if (i < -rank || i >= rank) detail::fail("shape ", *this, " has no dimension ", i);
  return static_cast<std::size_t>(i < 0 ? i + rank : i);
}

std::int64_t Shape::operator[](int i) const { return extents_[index_of(i)]; }

void Shape::set(int i, std::int64_t extent) { extents_[index_of(i)] = extent; }

std::int64_t Shape::numel() const {
  if (!is_known()) detail::fail("shape ", *this, " has no size until its batch is known");
  // A zero anywhere makes the product zero, even if the others would overflow before it is met.
  if (std::find(begin(), end(), 0) != end()) return 0;
  std::int64_t product = 1;
  for (const std::int64_t extent : extents()) {
    const auto next = detail::checked_mul(product, extent);
    if (!next) detail::fail("shape ", *this, " has more elements than 64 bits can count");
    product = *next;
  }
  return product;
}

bool Shape::has_batch() const { return std::find(begin(), end(), batch) != end(); }

bool Shape::is_known() const {
  return std::all_of(begin(), end(), [](std::int64_t extent) { return extent >= 0; });
}

Shape Shape::with_batch(std::int64_t n) const {
  Shape result = *this;
  std::replace(result.extents_.begin(), result.extents_.begin() + static_cast<std::ptrdiff_t>(rank_), batch, n);
  return result;
}

bool Shape::admits(const Shape& shape) const {
  if (rank_ == 1 && extents_[0] == any_rank) return true;
  return std::equal(begin(), end(), shape.begin(), shape.end(), [](std::int64_t wanted, std::int64_t extent) {
    return extent == wanted || wanted == open || wanted == batch;
  });
}

std::string Shape::to_string() const {
  if (rank_ == 1 && extents_[0] == any_rank) return "[...]";
  std::string text = "[";
  for (const std::int64_t extent : extents()) {
    if (text.size() > 1) text += ", ";
    text += extent == batch ? "N" : extent == open ? "?" : std::to_string(extent);
  }
  return text += ']';
}

bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }

}  // namespace lamina
