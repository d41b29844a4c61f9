// A Plan run again and again: the same bits, nothing allocated, memory flat. LAMINA_TEST_LONG: a million times.

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>

#include "lamina/base/error.h"
#include "lamina/graph/graph.h"
#include "support/allocations.h"
#include "support/file_test.h"
#include "support/networks.h"

namespace lamina::runs_test {
namespace {

long resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

void expect_flat(long runs, int threads) {
  const Graph graph = test::branching_network();
  Plan plan = graph.compile({.batch = 2, .threads = threads});
  const Tensor x = test::random_tensor({2, 3, 16, 16}, 1);
  const Tensor expected = plan.run({&x, 1})[0].clone();
  for (int i = 0; i < 100; ++i) (void)plan.run({&x, 1});
  const long bytes = resident_bytes(), allocations = test::allocations();
  long differ = 0;
  for (long i = 0; i < runs; ++i) {
    differ += std::memcmp(plan.run({&x, 1})[0].raw(), expected.raw(), expected.bytes()) != 0 ? 1 : 0;
  }
  EXPECT_EQ(differ, 0);
  EXPECT_LE(test::allocations(), allocations + runs / 100);  // one, rarely, of a thread that another test leaves
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr long some_pages = 1 << 16;  // touched late for the first time
  EXPECT_LE(resident_bytes(), bytes + some_pages);
#else
  static_cast<void>(bytes);
#endif
}

TEST(PlanRuns, AreAllTheSameInFlatMemory) {
  expect_flat(std::getenv("LAMINA_TEST_LONG") != nullptr ? 1'000'000 : 2'000, 1);
  expect_flat(500, 2);
}

TEST(PlanRuns, OfFewerImagesSeeNothingOfEarlierOnes) {
  const Graph graph = test::meddled_network([](const Tensor& x) {
    for (const float v : x.values<float>()) {
      if (std::isnan(v)) throw Error("this image is poison");
    }
  });
  Plan plan = graph.compile({.batch = 4});
  Tensor three({3, 4});
  three.values<float>()[2 * 4] = NAN;
  EXPECT_THROW((void)plan.run(three), Error);
  EXPECT_NO_THROW((void)plan.run(Tensor({2, 4})));  // the third's place in memory is still there
}

TEST(PlanRuns, EndWhenAskedToAndWhenTimeIsOver) {
  std::stop_source source;
  int ran = 0;
  const auto meddler = std::make_shared<test::Meddler>();
  meddler->meanwhile = [&](const Tensor&) { ++ran, source.request_stop(); };
  Graph graph;
  const Value x = graph.input("x", {batch, 4});
  const Value y = graph.add("y", meddler, {&x, 1});
  graph.output(graph.add("z", meddler, {&y, 1}));
  Plan plan = graph.compile();
  const Tensor input({1, 4});
  Tensor output({1, 4});
  EXPECT_THROW((void)plan.run(input, nullptr, {.stop = source.get_token()}), Stopped);
  EXPECT_EQ(ran, 1);  // and not the second step
  EXPECT_NO_THROW((void)plan.run(input));
  EXPECT_EQ(ran, 3);
  const Limits limits[] = {{.stop = source.get_token()}, {.time = std::chrono::nanoseconds(1)}};
  for (const Limits& limit : limits) {
    EXPECT_THROW((void)plan.run({&input, 1}, nullptr, limit), Stopped);
    EXPECT_THROW(plan.run({{"x", input}}, nullptr, limit), Stopped);
    EXPECT_THROW(plan.run_into({&input, 1}, {&output, 1}, nullptr, limit), Stopped);
  }
  EXPECT_EQ(ran, 3);
  EXPECT_NO_THROW((void)plan.run(input, nullptr, {.stop = {}, .time = std::chrono::nanoseconds::max()}));
  EXPECT_EQ(ran, 5);
  test::expect_error([&] { (void)plan.run(input, nullptr, {.stop = {}, .time = std::chrono::seconds(0)}); },
                     {"run: stopped, it took longer than 0 s"});
}

}  // namespace
}  // namespace lamina::runs_test
