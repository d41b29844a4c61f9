#include "lamina/plan/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "lamina/base/error.h"
#include "lamina/base/math.h"

namespace lamina::detail {

namespace {

/// Offsets are added and rounded up below, and become extents of 64 bits.
constexpr std::size_t most_bytes = std::numeric_limits<std::size_t>::max() / 4;

}  // namespace

Arena plan_arena(std::span<const Lifetime> buffers) {
  std::size_t total = 0;
  for (const Lifetime& buffer : buffers) {
    const auto sum = checked_add(total, buffer.bytes);
    if (!sum || *sum > most_bytes) fail("compile: the activations are too large for any memory");
    total = *sum + arena_alignment;
  }
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(buffers[b].bytes, a) < std::pair(buffers[a].bytes, b);  // the largest first, then by number
  });

  Arena arena;
  arena.offsets.resize(buffers.size());
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t current : order) {
    const Lifetime& buffer = buffers[current];
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      const bool together = buffers[other].first <= buffer.last && buffer.first <= buffers[other].last;
      if (!together) continue;
      if (offset + buffer.bytes <= arena.offsets[other]) break;  // the gap before `other` is wide enough
      offset = std::max(offset, round_up(arena.offsets[other] + buffers[other].bytes, arena_alignment));
    }
    arena.offsets[current] = offset;
    arena.bytes = std::max(arena.bytes, offset + buffer.bytes);
    const auto before = [&](std::size_t a, std::size_t b) { return arena.offsets[a] < arena.offsets[b]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), current, before), current);
  }
  return arena;
}

}  // namespace lamina::detail
