#include "lamina/plan/arena.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/math.h"

namespace lamina::detail {

namespace {

/// Offsets are added and rounded up below, and become extents of 64 bits.
constexpr std::size_t max_bytes = std::numeric_limits<std::size_t>::max() / 4;

/// Parts of the arena that are taken; parts that touch are kept as one.
class Parts {
 public:
  void add(std::size_t begin, std::size_t end) {
    auto next = parts_.upper_bound(begin);
    if (next != parts_.begin() && std::prev(next)->second >= begin) --next;
    for (; next != parts_.end() && next->first <= end; next = parts_.erase(next))
      begin = std::min(begin, next->first), end = std::max(end, next->second);
    parts_.emplace_hint(next, begin, end);
  }
  const std::map<std::size_t, std::size_t>& all() const { return parts_; }  // begin and end

 private:
  std::map<std::size_t, std::size_t> parts_;
};

/// Which parts of the arena are taken in which steps, as a binary tree over the steps: what is taken in some of them is
/// found without looking at every buffer.
class Taken {
 public:
  explicit Taken(std::span<const Lifetime> buffers) {
    for (const Lifetime& buffer : buffers) {
      while (leaves_ <= static_cast<std::size_t>(buffer.last)) leaves_ *= 2;
    }
    nodes_.resize(2 * leaves_);
  }

  void add(const Lifetime& buffer, std::size_t offset) {
    if (buffer.bytes == 0) return;
    const std::size_t end = round_up(offset + buffer.bytes, arena_alignment);
    for (std::size_t node : nodes_of(buffer)) {
      nodes_[node].all_along.add(offset, end);
      for (; node > 0; node /= 2) nodes_[node].at_times.add(offset, end);
    }
  }

  /// The parts that are taken at some time in a buffer's life, by their beginning.
  std::vector<std::pair<std::size_t, std::size_t>> in(const Lifetime& life) const {
    std::vector<std::pair<std::size_t, std::size_t>> result;
    const auto append = [&](const Parts& parts) {
      result.insert(result.end(), parts.all().begin(), parts.all().end());
    };
    for (const std::size_t node : nodes_of(life)) append(nodes_[node].at_times);
    for (const int step : {life.first, life.last}) {
      for (std::size_t node = leaves_ + static_cast<std::size_t>(step); node > 0; node /= 2)
        append(nodes_[node].all_along);
    }
    std::ranges::sort(result);
    return result;
  }

 private:
  struct Node {
    Parts all_along, at_times;  // parts that are taken in all steps of the node, and those that are taken in some
  };

  /// The nodes whose steps, together, are those of a buffer's life.
  std::vector<std::size_t> nodes_of(const Lifetime& life) const {
    std::vector<std::size_t> result;
    std::size_t low = leaves_ + static_cast<std::size_t>(life.first);
    std::size_t high = leaves_ + static_cast<std::size_t>(life.last) + 1;
    for (; low < high; low /= 2, high /= 2) {
      if (low % 2 == 1) result.push_back(low++);
      if (high % 2 == 1) result.push_back(--high);
    }
    return result;
  }

  std::size_t leaves_ = 1;
  std::vector<Node> nodes_;  // the root is 1, below each are 2 i and 2 i + 1
};

}  // namespace

Arena plan_arena(std::span<const Lifetime> buffers) {
  std::size_t total = 0;
  for (const Lifetime& buffer : buffers) {
    const auto sum = checked_add(total, buffer.bytes);
    if (!sum || *sum > max_bytes) fail("compile: the activations are too large for any memory");
    total = *sum + arena_alignment;
  }
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(buffers[b].bytes, a) < std::pair(buffers[a].bytes, b);  // the largest first, then by number
  });

  Arena arena;
  arena.offsets.resize(buffers.size());
  Taken taken(buffers);
  for (const std::size_t current : order) {
    const Lifetime& buffer = buffers[current];
    std::size_t offset = 0;
    for (const auto& [begin, end] : taken.in(buffer)) {
      if (offset + buffer.bytes <= begin) break;  // the gap before it is wide enough
      offset = std::max(offset, end);
    }
    arena.offsets[current] = offset;
    arena.bytes = std::max(arena.bytes, offset + buffer.bytes);
    taken.add(buffer, offset);
  }
  return arena;
}

}  // namespace lamina::detail
