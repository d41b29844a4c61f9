// The normalisation of 8-bit pictures on a GPU; skipped where there is none.

#include "support/photos.h"

#include "lamina/cuda/kernels.h"
#include "lamina/cuda/runtime/stream.h"
#include "lamina/graph/model.h"
#include "lamina/tensor/device_memory.h"
#include "support/file_test.h"
#include "support/on_gpu.h"

namespace lamina::test::photos_test {
namespace {

class CudaPhotos : public OnGpu {};
LAMINA_ON_GPUS(CudaPhotos);

/// [N, 3, H, W] -> the same elements in the order of [N, H, W, 3].
Tensor channels_last(const Tensor& nchw) {
  Tensor result(nchw.shape());
  const auto pixels = static_cast<std::size_t>(nchw.shape()[2] * nchw.shape()[3]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(nchw.numel()); ++i) {
    const std::size_t image = i / 3 / pixels, channel = i / pixels % 3, pixel = i % pixels;
    result.values<float>()[(image * pixels + pixel) * 3 + channel] = nchw.values<float>()[i];
  }
  return result;
}

/// Every format, sizes around the pixels that a thread takes at a time, memory that starts on no round address, and
/// nothing written beyond the output.
TEST_P(CudaPhotos, AreTheFormulaToTheBitInEveryFormat) {
  constexpr std::int64_t guard = 64;
  for (const Preprocess& settings : normalizations()) {
    const detail::LevelTable levels = detail::level_table(settings);
    const Tensor table = Tensor::from(std::span<const float>(levels.values), {3, 256}).to(gpu());
    for (const auto& [n, h, w] : std::initializer_list<std::array<std::int64_t, 3>>{
             {1, 1, 1}, {3, 1, 7}, {2, 2, 4}, {3, 3, 5}, {2, 8, 33}, {1, 227, 227}, {5, 224, 224}, {66000, 1, 2}}) {
      const Tensor photos = random_photos({n, h, w, 3}, static_cast<unsigned>(n + w));
      const Tensor nchw = normalized(photos, settings);
      for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
        const Tensor expected = layout == Layout::nchw ? nchw : channels_last(nchw);
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
          for (const std::int64_t shift : {0, 1, 16}) {
            if (n > 1000 && shift > 0) continue;
            SCOPED_TRACE((testing::Message() << photos.shape() << " to " << Format{dtype, layout} << ", " << shift));
            const std::int64_t count = photos.numel(), bytes = count * static_cast<std::int64_t>(size_of(dtype));
            Tensor input(Shape{count + shift}, DType::u8, gpu());
            input.slice(shift, count + shift).copy_from(photos.view({count}));
            Tensor output(Shape{bytes + 2 * guard}, DType::u8, gpu());
            cuda::fill_bytes(gpu().index, output.raw(), 0xFF, output.bytes(), nullptr);
            const std::int64_t begin = shift == 1 ? guard - static_cast<std::int64_t>(size_of(dtype)) : guard;
            cuda::normalize(gpu().index, {n, 3, h * w}, input.slice(shift, count + shift).raw(),
                            static_cast<const float*>(table.raw()), settings.order == ChannelOrder::bgr,
                            {dtype, layout}, output.slice(begin, begin + bytes).raw(), nullptr);
            const Tensor found = output.to(Device::cpu());
            ASSERT_TRUE(
                same_bits(found.slice(begin, begin + bytes).reinterpret(nchw.shape(), dtype), expected.to(dtype)));
            for (std::int64_t i = 0; i < found.numel(); ++i) {
              if (i >= begin && i < begin + bytes) continue;
              ASSERT_EQ(found.values<std::uint8_t>()[static_cast<std::size_t>(i)], 0xFF) << i;
            }
          }
        }
      }
    }
  }
  expect_error(
      [] {
        cuda::normalize(gpu().index, {1, 4, 9}, nullptr, nullptr, false, {}, nullptr, nullptr);
      },
      {"3 channels, not 4"});
  expect_error(
      [] {
        cuda::normalize(gpu().index, {1, 3, 9}, nullptr, nullptr, false, {DType::u8, Layout::nhwc}, nullptr, nullptr);
      },
      {"u8"});
}

/// A first layer that Hopper's kernel takes, pooled, and one that reads the picture elementwise.
Graph network() {
  Graph g;
  const Value x = g.input("input", {batch, 3, 64, 64});
  Value y = g.add("conv", Conv2d({.in = 3, .out = 64, .kernel = 11, .stride = 4, .padding = 2}), x);
  y = g.add("pool", MaxPool2d({.kernel = 3, .stride = 2}), g.add("relu", ReLU(), y));
  g.output(g.add("flat", Flatten(), g.add("next", Conv2d({.in = 64, .out = 32, .kernel = 3}), y)));
  g.output(g.add("bright", ReLU(), x));
  randomize(g);
  return g;
}

TEST_P(CudaPhotos, APlanGivesTheBitsOfANormalizedTensorInEveryPrecision) {
  const Graph graph = network();
  for (const Preprocess& settings : {torchvision_imagenet(), caffe_imagenet()}) {
    for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::fp16, Precision::bf16}) {
      for (const std::int64_t n : {1, 3}) {
        SCOPED_TRACE(testing::Message() << name(precision) << ", " << n);
        const CompileOptions plain = {.device = gpu(), .batch = n, .precision = precision};
        CompileOptions options = plain;
        options.photos = settings;
        Plan plan = graph.compile(options), plain_plan = graph.compile(plain);
        EXPECT_EQ(graph.plan_memory(options).total(), plan.memory().total());
        EXPECT_NE(plan.summary().find("normalisation from u8 nhwc to "), std::string::npos) << plan.summary();
        Tensor pinned = Tensor::pinned({n, 64, 64, 3}, DType::u8);
        for (unsigned seed = 0; seed < 3; ++seed) {  // replayed from the second run on
          const Tensor photos = random_photos({n, 64, 64, 3}, seed);
          std::vector<Tensor> expected;
          for (const Tensor& result : plain_plan.run(std::vector<Tensor>{normalized(photos, settings)})) {
            expected.push_back(result.clone());
          }
          pinned.copy_from(photos);
          for (const Tensor& host : {photos, pinned}) {
            const auto found = plan.run(std::vector<Tensor>{host});
            EXPECT_TRUE(found[0].device().is_cpu());
            EXPECT_TRUE(same_bits(found[0], expected[0]));
            EXPECT_TRUE(same_bits(found[1], expected[1]));
          }
        }
        const std::vector<StepTime> steps = plan.profile(std::vector<Tensor>{pinned}, 1);
        EXPECT_EQ(steps[0].name, "input");
        EXPECT_GT(steps[0].milliseconds, 0);
      }
    }
  }
}

TEST_P(CudaPhotos, ReplayedRunsReadWhatIsThereNow) {
  const Graph graph = network();
  const Preprocess settings = torchvision_imagenet();
  Plan plan = graph.compile({.device = gpu(), .batch = 2, .precision = Precision::fp16, .photos = settings});
  Plan plainly = graph.compile({.device = gpu(), .batch = 2, .precision = Precision::fp16, .capture = false});
  std::vector<Tensor> device, expected;
  std::vector<std::vector<Tensor>> outputs;
  const Tensor batch_of_all = Tensor({22, 64, 64, 3}, DType::u8, gpu());
  for (unsigned i = 0; i < 11; ++i) {  // more addresses than a Plan remembers: parts of one tensor
    const Tensor photos = random_photos({2, 64, 64, 3}, i);
    device.push_back(batch_of_all.slice(2 * i, 2 * i + 2));
    device.back().copy_from(photos);
    expected.push_back(plainly.run(std::vector<Tensor>{normalized(photos, settings)})[0].clone());
    outputs.push_back(
        {Tensor(plan.output_shapes()[0], DType::f32, gpu()), Tensor(plan.output_shapes()[1], DType::f32, gpu())});
  }
  cuda::OwnedStream stream(gpu().index);
  for (const std::size_t i : {0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 1, 10, 10, 10}) {
    plan.run_into(std::vector<Tensor>{device[i]}, outputs[i], stream.get());
    cuda::synchronize(gpu().index, stream.get());
    EXPECT_TRUE(same_bits(outputs[i][0].to(Device::cpu()), expected[i])) << i;
  }
  device[10].copy_from(random_photos({2, 64, 64, 3}, 4));
  plan.run_into(std::vector<Tensor>{device[10]}, outputs[10], stream.get());
  cuda::synchronize(gpu().index, stream.get());
  EXPECT_TRUE(same_bits(outputs[10][0].to(Device::cpu()), expected[4]));
}

/// The memory that inputs are uploaded to serves later activations too.
TEST_P(CudaPhotos, EveryProfiledRunHasTheInput) {
  Graph g;
  Value x = g.input("input", {batch, 3, 32, 32});
  for (const char* name : {"a", "b", "c"}) x = g.add(name, Conv2d({.in = 3, .out = 3, .kernel = 3, .padding = 1}), x);
  g.output(x);
  randomize(g);
  for (const bool photos : {false, true}) {
    CompileOptions options = {.device = gpu()};
    if (photos) options.photos = torchvision_imagenet();
    Plan plan = g.compile(options);
    const Tensor host = photos ? random_photos({1, 32, 32, 3}, 1) : random_tensor({1, 3, 32, 32}, 1);
    const Tensor result = plan.run(std::vector<Tensor>{host.to(gpu())})[0];  // in the Plan's memory
    const Tensor expected = result.to(Device::cpu());
    (void)plan.profile(std::vector<Tensor>{host}, 3);
    EXPECT_TRUE(same_bits(result.to(Device::cpu()), expected));
  }
}

TEST_P(CudaPhotos, ErrorsSayWhatWasExpected) {
  Plan plan = network().compile({.device = gpu(), .batch = 2, .photos = torchvision_imagenet()});
  const auto run = [&](const Tensor& input) { return [&plan, input] { (void)plan.run(std::vector<Tensor>{input}); }; };
  expect_error(run(random_tensor({2, 3, 64, 64}, 1).to(gpu())),
               {"input: expected u8 [2, 64, 64, 3] as compiled, got f32 [2, 3, 64, 64] on " + to_string(gpu())});
  expect_error(run(random_photos({2, 64, 64, 1}, 1).to(gpu())),
               {"expected u8 [2, 64, 64, 3] as compiled, got u8 [2, 64, 64, 1] on " + to_string(gpu())});
  expect_error(run(random_photos({3, 64, 64, 3}, 1)), {"got u8 [3, 64, 64, 3] on cpu"});
}

}  // namespace
}  // namespace lamina::test::photos_test
