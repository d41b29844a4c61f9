// Plans that take 8-bit pictures.

#include "support/photos.h"

#include "support/allocations.h"
#include "support/file_test.h"

namespace lamina::test::photos_test {
namespace {

void expect_same_bits(const Tensor& a, const Tensor& b, const char* what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << what;
}

TEST(Photos, GiveTheBitsOfANormalizedTensor) {
  const Graph graph = branching_network();
  for (const Preprocess& settings : normalizations()) {
    for (const std::int64_t n : {1, 3}) {
      for (const bool keep_all : {false, true}) {
        const CompileOptions plain = {.batch = n, .threads = 2, .keep_all = keep_all};
        CompileOptions taking_photos = plain;
        taking_photos.photos = settings;
        Plan plan = graph.compile(taking_photos), expected_plan = graph.compile(plain);
        EXPECT_EQ(plan.input_shapes()[0], (Shape{n, 16, 16, 3}));
        EXPECT_EQ(plan.input_dtypes()[0], DType::u8);
        EXPECT_EQ(expected_plan.input_dtypes()[0], DType::f32);
        for (unsigned seed = 0; seed < 2; ++seed) {
          const std::vector<Tensor> photos = {random_photos({n, 16, 16, 3}, seed)};
          const std::vector<Tensor> numbers = {normalized(photos[0], settings)};
          const auto found = plan.run(photos);
          const auto expected = expected_plan.run(numbers);
          expect_same_bits(found[0], expected[0], "flat");
          expect_same_bits(found[1], expected[1], "side");
          if (keep_all) expect_same_bits(plan.activation("input"), numbers[0], "input");
        }
      }
    }
  }
}

/// A picture larger than a task of the normalisation, with several readers.
TEST(Photos, AreNormalizedOnceForAllReaders) {
  Graph g;
  const Value x = g.input("input", {batch, 3, 83, 101});
  g.output(g.add("conv", Conv2d({.in = 3, .out = 32, .kernel = 5}), x));
  g.output(g.add("norm", MaxPool2d({.kernel = 1}), x));
  g.output(x);
  randomize(g);
  const Preprocess settings = caffe_imagenet();
  Plan plan = g.compile({.batch = 2, .threads = 2, .photos = settings});
  const std::vector<Tensor> photos = {random_photos({2, 83, 101, 3}, 1)};
  EXPECT_EQ(plan.profile(photos, 1).size(), 3u);
  const auto results = plan.run(photos);
  const Tensor numbers = normalized(photos[0], settings);
  expect_same_bits(results[1], numbers, "norm");
  expect_same_bits(results[2], numbers, "input");
  Plan plain = g.compile({.batch = 2, .threads = 2});
  expect_same_bits(results[0], plain.run(std::vector<Tensor>{numbers})[0], "conv");
}

TEST(Photos, OtherInputsStayAsTheyAre) {
  const Graph graph = two_inputs();
  Plan plan = graph.compile({.batch = 2, .threads = 1, .photos = torchvision_imagenet()});
  EXPECT_EQ(plan.input_shapes()[0], (Shape{2, 9, 7, 3}));
  EXPECT_EQ(plan.input_shapes()[1], (Shape{2, 5}));
  EXPECT_EQ(plan.input_dtypes()[1], DType::f32);
  const Tensor photos = random_photos({2, 9, 7, 3}, 3), vector = random_tensor({2, 5}, 4);
  plan.run({{"vector", vector}, {"picture", photos}});
  const Tensor numbers = normalized(photos, torchvision_imagenet());
  Plan plain = graph.compile({.batch = 2, .threads = 1});
  plain.run({{"vector", vector}, {"picture", numbers}});
  for (const char* output : {"flat", "pool", "same", "picture"}) {
    expect_same_bits(plan.output(output), plain.output(output), output);
  }
  expect_same_bits(plan.output("picture"), numbers, "picture");
}

TEST(Photos, AnImageIsTakenAsItIs) {
  const Graph graph = branching_network();
  Preprocess settings = torchvision_imagenet();
  settings.resize = settings.crop = 16;
  const Image seen = resize_and_crop(read_image(LAMINA_TEST_DATA "/golden/images/tiny.png"), settings);
  Plan plan = graph.compile({.photos = settings}), plain = graph.compile();
  const Tensor bytes = Tensor::from(seen.rgb, plan.input_shapes()[0]);
  Tensor numbers({1, 3, 16, 16});
  normalize_into(seen, settings, numbers.values<float>());
  expect_same_bits(plan.run(std::vector<Tensor>{bytes})[0], plain.run(std::vector<Tensor>{numbers})[0], "flat");
}

TEST(Photos, TheNormalizationIsAStepLikeOthers) {
  const Graph graph = branching_network();
  const CompileOptions options = {.batch = 2, .threads = 1, .photos = caffe_imagenet()};
  Plan plan = graph.compile(options);
  const std::vector<Tensor> photos = {random_photos({2, 16, 16, 3}, 1)};
  const std::vector<StepTime> steps = plan.profile(photos, 1);
  ASSERT_EQ(steps.size(), 5u);
  EXPECT_EQ(steps[0].name, "input");
  EXPECT_EQ(steps[0].kernel, "normalisation from u8 nhwc to f32 nchw, bgr");
  EXPECT_EQ(steps[0].bytes, 2u * 16 * 16 * 3 * 5 + sizeof(detail::LevelTable));
  EXPECT_NE(plan.summary().find("normalisation"), std::string::npos);
  EXPECT_EQ(graph.plan_memory(options).total(), plan.memory().total());
}

TEST(Photos, ARunAllocatesNothing) {
  Plan plan = branching_network().compile({.batch = 2, .threads = 2, .photos = torchvision_imagenet()});
  const std::vector<Tensor> photos = {random_photos({2, 16, 16, 3}, 5)};
  plan.run(photos);
  const long before = allocations();
  plan.run(photos);
  EXPECT_EQ(allocations() - before, 0);
}

TEST(Photos, ErrorsSayWhatWasExpected) {
  const Graph graph = branching_network();
  Plan plan = graph.compile({.batch = 2, .photos = torchvision_imagenet()});
  const auto run = [&](const Tensor& input) { return [&plan, input] { (void)plan.run(std::vector<Tensor>{input}); }; };
  expect_error(run(random_tensor({2, 3, 16, 16}, 1)),
               {"input: expected u8 [2, 16, 16, 3] as compiled, got f32 [2, 3, 16, 16]"});
  for (const Shape& shape : {Shape{2, 3, 16, 16}, Shape{3, 16, 16, 3}, Shape{2, 16, 16, 4}, Shape{2, 16, 3, 16}}) {
    expect_error(run(random_photos(shape, 1)), {"expected u8 [2, 16, 16, 3] as compiled, got u8 "});
  }
  expect_error(run(Tensor()), {"expected u8", "undefined"});
  Plan plain = graph.compile({.batch = 2});
  expect_error(
      [&] {
        (void)plain.run(std::vector<Tensor>{random_photos({2, 16, 16, 3}, 1)});
      },
      {"expected f32 [2, 3, 16, 16] as compiled, got u8 [2, 16, 16, 3]"});

  Graph grey;
  grey.output(grey.add("relu", ReLU(), grey.input("grey", {batch, 1, 8, 8})));
  expect_error([&] { (void)grey.compile({.photos = Preprocess{}}); },
               {"photos", "expected a graph with an input [N, 3, H, W]", "grey [1, 1, 8, 8]"});
  expect_error([&] { (void)graph.compile({.photos = Preprocess{.std = {1, 0, 1}}}); }, {"input", "std", "got 0"});
  expect_error([&] { (void)graph.compile({.photos = Preprocess{.divisor = 0}}); }, {"input", "divisor", "got 0"});
}

TEST(Photos, PinnedTensorsAreTensors) {
  Tensor pinned = Tensor::pinned({2, 3}, DType::u8);
  EXPECT_EQ(pinned.shape(), (Shape{2, 3}));
  EXPECT_TRUE(pinned.device().is_cpu());
  for (std::uint8_t& value : pinned.values<std::uint8_t>()) value = 7;
  EXPECT_EQ(pinned.clone().values<std::uint8_t>()[5], 7);
  EXPECT_TRUE(Tensor::pinned({0}).defined());
}

}  // namespace
}  // namespace lamina::test::photos_test
