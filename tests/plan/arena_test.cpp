#include "lamina/plan/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace lamina::detail::arena_test {
namespace {

TEST(MemoryPlanner, NeverOverlapsWhatLivesTogether) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0, count = 1 + below(30); i < count; ++i) {
      const int first = below(20);
      buffers.push_back({static_cast<std::size_t>(below(5000)), first, first + below(6)});
    }
    const Arena arena = plan_arena(buffers);
    for (std::size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(arena.offsets[a] % arena_alignment, 0u);
      EXPECT_LE(arena.offsets[a] + buffers[a].bytes, arena.bytes);
      for (std::size_t b = 0; b < a; ++b) {
        const bool together = buffers[a].first <= buffers[b].last && buffers[b].first <= buffers[a].last;
        const bool apart = arena.offsets[a] + buffers[a].bytes <= arena.offsets[b] ||
                           arena.offsets[b] + buffers[b].bytes <= arena.offsets[a];
        ASSERT_TRUE(!together || apart || buffers[a].bytes == 0 || buffers[b].bytes == 0);
      }
    }
  }
}

TEST(MemoryPlanner, AChainNeedsRoomForTwo) {
  const Lifetime chain[] = {{1024, 0, 1}, {2048, 1, 2}, {1024, 2, 3}, {2048, 3, 4}};
  EXPECT_EQ(plan_arena(chain).bytes, 1024u + 2048u);
}

TEST(MemoryPlanner, NothingNeedsNothing) { EXPECT_EQ(plan_arena({}).bytes, 0u); }

}  // namespace
}  // namespace lamina::detail::arena_test
