// Pools of CPU plans: batches, limits, and what is refused. What fails in the middle is in faults_test.cpp.

#include "lamina/pool/plan_pool.h"
#include "pool/gate.h"
#include "support/file_test.h"

namespace lamina::test::pool_test {
namespace {

TEST(PlanPool, AnswersHaveTheBitsOfThePlanAlone) {
  const Graph graph = branching_network();
  PlanPool pool(graph, {.threads = 4}, {.plans_per_device = 3, .batches = {1, 2, 4, 8}});
  EXPECT_EQ(pool.max_batch(), 8);
  std::vector<Tensor> inputs;
  std::vector<std::vector<Tensor>> expected;
  for (unsigned i = 0; i < 6; ++i) {
    const auto images = static_cast<std::int64_t>(1 + i % 3);
    inputs.push_back(random_tensor({images, 3, 16, 16}, i));
    Plan alone = graph.compile({.batch = images, .threads = 1});
    expected.emplace_back();
    for (const Tensor& result : alone.run({&inputs[i], 1})) expected[i].push_back(result.clone());
  }
  std::atomic<int> wrong = 0;
  in_threads(6, [&](std::size_t t) {
    for (std::size_t i = 0; i < 30; ++i) {
      const std::size_t which = (t + i) % inputs.size();
      const std::vector<Tensor> outputs = pool.submit({inputs[which]}).get();
      if (outputs.size() != 2 || !same_bits(outputs[0], expected[which][0]) ||
          !same_bits(outputs[1], expected[which][1])) {
        ++wrong;
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  std::int64_t images = 0;
  for (const PoolWorker& worker : pool.workers()) {
    images += worker.images;
    EXPECT_EQ(worker.lost, "");
  }
  EXPECT_EQ(images, 6 * 30 * 2);  // each thread sends each input five times: of 2 images on average
  EXPECT_EQ(pool.waiting(), 0);
}

TEST(PlanPool, WaitsForOthersAsLongAsItMay) {
  const Graph graph = branching_network();
  PlanPool pool(graph, {.batch = 4, .threads = 1}, {.plans_per_device = 2, .max_delay = std::chrono::minutes(10)});
  std::vector<std::promise<PoolAnswer>> answers(4);
  for (std::promise<PoolAnswer>& answer : answers) {
    pool.submit({random_tensor({1, 3, 16, 16}, 1)}, [&](PoolAnswer a) { answer.set_value(std::move(a)); });
  }
  for (std::promise<PoolAnswer>& answer : answers) {
    const PoolAnswer got = answer.get_future().get();
    EXPECT_EQ(got.error, "");
    EXPECT_EQ(got.batch, 4);
    EXPECT_EQ(got.outputs[0].shape()[0], 1);
  }
  // A batch that does not become full is taken when its first request has waited.
  PlanPool brief(graph, {.batch = 4, .threads = 1}, {.max_delay = std::chrono::milliseconds(5)});
  std::promise<PoolAnswer> answer;
  brief.submit({random_tensor({3, 3, 16, 16}, 1)}, [&](PoolAnswer a) { answer.set_value(std::move(a)); });
  const PoolAnswer got = answer.get_future().get();
  EXPECT_EQ(got.batch, 3);
  EXPECT_GE(got.waited, std::chrono::milliseconds(5));
}

TEST(PlanPool, RefusesBeyondItsQueue) {
  Gate gate;
  const Graph graph = gated_network(gate);
  PlanPool pool(graph, {.batch = 2}, {.max_queue = 3});
  auto running = pool.submit({Tensor::zeros({1, 4})});
  gate.await(1);  // it has left the queue
  std::vector<std::future<std::vector<Tensor>>> waiting;
  waiting.push_back(pool.submit({Tensor::zeros({2, 4})}));
  waiting.push_back(pool.submit({Tensor::zeros({1, 4})}));
  EXPECT_EQ(pool.waiting(), 3);
  EXPECT_THROW((void)pool.submit({Tensor::zeros({1, 4})}), PoolFull);
  expect_error([&] { (void)pool.submit({Tensor::zeros({1, 4})}); }, {"3 images wait", "limit of 3"});
  gate.open();
  EXPECT_NO_THROW((void)running.get());
  for (auto& one : waiting) EXPECT_NO_THROW((void)one.get());
  EXPECT_NO_THROW((void)pool.submit({Tensor::zeros({1, 4})}).get());
}

TEST(PlanPool, WaitsForRoomWhereAskedTo) {
  Gate gate;
  const Graph graph = gated_network(gate);
  PlanPool pool(graph, {}, {.max_queue = 1, .wait_when_full = true});
  auto running = pool.submit({Tensor::zeros({1, 4})});
  gate.await(1);
  auto waiting = pool.submit({Tensor::zeros({1, 4})});
  std::stop_source stop;
  std::thread stopped([&] {
    expect_error([&] { (void)pool.submit({Tensor::zeros({1, 4})}, stop.get_token()); }, {"stopped"});
  });
  std::thread third([&] { EXPECT_NO_THROW((void)pool.submit({Tensor::zeros({1, 4})}).get()); });
  stop.request_stop();
  stopped.join();
  gate.open();
  third.join();
  EXPECT_NO_THROW((void)running.get());
  EXPECT_NO_THROW((void)waiting.get());
}

TEST(PlanPool, StoppedRequestsAreNotComputed) {
  Gate gate;
  const Graph graph = gated_network(gate);
  PlanPool pool(graph, {.batch = 4});
  auto running = pool.submit({Tensor::zeros({1, 4})});
  gate.await(1);
  std::stop_source stop;
  auto stopped = pool.submit({Tensor::zeros({1, 4})}, stop.get_token());
  auto alone = pool.submit({Tensor::zeros({1, 4})});
  (void)pool.submit({Tensor::zeros({1, 4})});  // nobody waits for it
  stop.request_stop();
  gate.open();
  EXPECT_NO_THROW((void)alone.get());
  EXPECT_NO_THROW((void)running.get());
  pool.close();
  EXPECT_THROW((void)stopped.get(), Stopped);
  EXPECT_EQ(pool.workers()[0].images, 3);
}

TEST(PlanPool, ARequestThatIsAloneIsStoppedBetweenItsSteps) {
  std::stop_source stop;
  int ran = 0;
  const auto meddler = std::make_shared<Meddler>();
  meddler->meanwhile = [&](const Tensor&) { ++ran, stop.request_stop(); };
  Graph graph;
  const Value x = graph.input("x", {batch, 4});
  const Value y = graph.add("y", meddler, {&x, 1});
  graph.output(graph.add("z", meddler, {&y, 1}));
  PlanPool pool(graph);
  expect_error([&] { (void)pool.submit({Tensor::zeros({1, 4})}, stop.get_token()).get(); }, {"run: stopped"});
  EXPECT_EQ(ran, 1);  // nor is the device tried, which has not failed
  EXPECT_NO_THROW((void)pool.submit({Tensor::zeros({1, 4})}).get());
  EXPECT_EQ(pool.workers()[0].images, 1);
}

TEST(PlanPool, ClosingAnswersWhatWasAccepted) {
  Gate gate;
  const Graph graph = gated_network(gate);
  std::vector<std::future<std::vector<Tensor>>> answers;
  std::thread opener;
  {
    PlanPool pool(graph, {.batch = 2}, {.plans_per_device = 2, .max_delay = std::chrono::minutes(10)});
    for (int i = 0; i < 9; ++i) answers.push_back(pool.submit({Tensor::zeros({1, 4})}));
    gate.await(2);
    opener = std::thread([&] { gate.open(); });
  }
  opener.join();
  for (auto& answer : answers) EXPECT_NO_THROW((void)answer.get());
  PlanPool closed(graph);
  closed.close();
  closed.close();
  expect_error([&] { (void)closed.submit({Tensor::zeros({1, 4})}); }, {"closed"});
}

TEST(PlanPool, InputsThatDoNotFitAreAnErrorAtOnce) {
  const Graph graph = branching_network();
  PlanPool pool(graph, {.batch = 2, .threads = 1});
  expect_error([&] { (void)pool.submit({}); }, {"expected 1 inputs, got 0"});
  expect_error([&] { (void)pool.submit({Tensor()}); }, {"input", "expected f32 [2, 3, 16, 16] or fewer images"});
  expect_error([&] { (void)pool.submit({Tensor({3, 3, 16, 16})}); }, {"input", "got f32 [3, 3, 16, 16]"});
  expect_error([&] { (void)pool.submit({Tensor({0, 3, 16, 16})}); }, {"input", "got f32 [0, 3, 16, 16]"});
  expect_error([&] { (void)pool.submit({Tensor({3, 16, 16})}); }, {"input", "got f32 [3, 16, 16]"});
  expect_error([&] { (void)pool.submit({Tensor({1, 3, 16, 16}, DType::u8)}); }, {"input", "got u8"});
  expect_error([&] { PlanPool(graph, {.batch = 8}, {.max_queue = 7}); },
               {"queue of at least a batch, 8 images, got 7"});
  expect_error([&] { PlanPool(graph, {}, {.max_delay = std::chrono::milliseconds(-2)}); }, {"max_delay of 0 or more"});
  expect_error([&] { PlanPool(graph, {}, {.plans_per_device = -1}); }, {"expected 0 plans", "got -1"});
  expect_error([&] { PlanPool(graph, {}, {.devices = {Device::cpu(), Device::cuda(99)}}); }, {"cuda:99"});
}

TEST(PlanPool, ImagesThatAreNotByThemselvesDoNotShareABatch) {
  Graph graph;
  const Value x = graph.input("x", {2, 4});
  graph.output(graph.add("relu", ReLU(), x));
  PlanPool pool(graph, {.batch = 1, .threads = 1}, {.max_delay = std::chrono::milliseconds(1)});
  std::vector<std::future<std::vector<Tensor>>> answers;
  for (unsigned i = 0; i < 3; ++i) answers.push_back(pool.submit({random_tensor({2, 4}, i)}));
  for (unsigned i = 0; i < 3; ++i) {
    const Tensor output = answers[i].get()[0];
    EXPECT_EQ(output.shape(), (Shape{2, 4}));
    const Tensor input = random_tensor({2, 4}, i);
    for (std::size_t k = 0; k < 8; ++k) {
      EXPECT_EQ(output.values<float>()[k], std::max(0.0f, input.values<float>()[k]));
    }
  }
  expect_error([&] { (void)pool.submit({Tensor({1, 4})}); }, {"expected f32 [2, 4] on the cpu"});
}

TEST(ParseDevices, Lists) {
  EXPECT_EQ(parse_devices("cpu"), std::vector{Device::cpu()});
  EXPECT_EQ(parse_devices("auto"), std::vector{best_device()});
  expect_error([] { (void)parse_devices("cpu,cpu"); }, {"cpu is named twice"});
  expect_error([] { (void)parse_devices("cuda:99"); }, {"cuda:99"});
  expect_error([] { (void)parse_devices("cpu,cuda:99"); }, {"cuda:99"});
  expect_error([] { (void)parse_devices("cpu,"); }, {"expected auto, cpu, cuda or cuda:INDEX, got \"\""});
  expect_error([] { (void)parse_devices(""); }, {"got \"\""});
}

}  // namespace
}  // namespace lamina::test::pool_test
