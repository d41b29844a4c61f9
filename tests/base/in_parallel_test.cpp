#include "lamina/base/in_parallel.h"

#include <atomic>
#include <vector>

#include "support/scarce.h"

namespace lamina::detail::in_parallel_test {
namespace {

TEST(InParallel, EveryIndexOnceInPiecesOfAtMostTheSizeAsked) {
  for (const std::size_t count : {0u, 1u, 6u, 7u, 8u, 700u, 1001u}) {
    std::vector<std::atomic<int>> visits(count);
    in_parallel(count, 7, [&](std::size_t begin, std::size_t end) {
      EXPECT_EQ(begin % 7, 0u);
      EXPECT_LE(end - begin, 7u);
      for (std::size_t i = begin; i < end; ++i) ++visits[i];
    });
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(visits[i], 1) << i << " of " << count;
  }
}

TEST(InParallel, WithoutAThreadToBeHadTheCallerDoesItAll) {
  LAMINA_SKIP_UNDER_SANITIZERS();
  test::expect_in_scarcity(rlim_t{1} << 20, [] {
    std::atomic<int> visits = 0;
    in_parallel(1000, 7, [&](std::size_t begin, std::size_t end) { visits += static_cast<int>(end - begin); });
    return visits == 1000;
  });
}

}  // namespace
}  // namespace lamina::detail::in_parallel_test
