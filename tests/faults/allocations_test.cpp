// Every allocation of a piece of work fails in turn, alone and with all that follow. Each time the work ends as if
// nothing had been, or by Error or std::bad_alloc; nothing leaks, and what is tried next works.

#include "support/allocations.h"
#include "lamina/lamina.h"
#include "lamina/onnx/onnx.h"
#include "support/file_test.h"
#include "support/networks.h"
#include "support/onnx_writer.h"

namespace lamina::test::allocations_test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long max_tries = 60;  // they take twenty times as long; every allocation is another build's business
#else
constexpr long max_tries = 1000;
#endif

/// What is left when `work` was tried with allocation `n` failing; false if it has fewer.
bool try_with(const std::function<void()>& work, long n, bool others_too) {
  const FailingAllocation failing(n, others_too);
  try {
    work();
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
  return failing.happened();
}

long open_files() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

/// `work` checks its own results.
void expect_survival(const std::function<void()>& work) {
  work();  // what is made once and kept
  long allocations = 0;
  for (; try_with(work, allocations, false); allocations = allocations * 2 + 1) {
  }
  const long files = open_files();
  for (const bool others_too : {false, true}) {
    long tried = 0;
    const long step = 1 + allocations / max_tries;  // all of them, or of many an even choice
    for (long n = 0;; n += step, ++tried) {
      SCOPED_TRACE(detail::concat("allocation ", n, others_too ? " and all after it" : "", " fails"));
      long growth = 0;
      bool happened = true;
      // What a failure makes the C library keep, it keeps once.
      for (int repeat = 0; repeat < 4 && (repeat == 0 || growth > 0); ++repeat) {
        const long before = live_allocations();
        happened = try_with(work, n, others_too);
        growth = live_allocations() - before;
      }
      EXPECT_LE(growth, 0) << "leaked";
      if (testing::Test::HasFailure()) return;
      if (!happened) break;
    }
    EXPECT_GT(tried, 0);
  }
  EXPECT_EQ(open_files(), files);
  work();
}

void expect_weights(const std::filesystem::path& path) {
  expect_survival([path] {
    const Weights weights = Weights::open(path);
    for (const TensorInfo& info : weights.entries()) (void)weights.at(info.name).clone();
  });
}

const std::string golden = LAMINA_SOURCE_DIR "/tests/golden/";

TEST(FailingAllocations, WeightFiles) {
  expect_weights(golden + "files/dtypes.safetensors");
  expect_weights(golden + "files/fortran_f4.npy");
  expect_weights(golden + "files/state_dict.pth");
  expect_weights(golden + "files/state_dict_legacy.pth");
}

TEST(FailingAllocations, WeightsAreWritten) {
  const TemporaryDirectory dir;
  const Weights weights = Weights::open(golden + "files/dtypes.safetensors");
  expect_survival([&] { weights.save(dir / "x.safetensors"); });
  EXPECT_EQ(dir.listing(), std::vector<std::string>{"x.safetensors"});
}

void expect_picture(const std::string& name) {
  const std::string bytes = read_file(golden + "images/" + name);
  expect_survival([&] {
    const Image image = decode_image(as_bytes(bytes), name, {.orientation = Orientation::upright});
    Preprocess settings = torchvision_imagenet();
    settings.resize = 20;
    settings.crop = 16;
    (void)preprocess(image, settings);
  });
}

TEST(FailingAllocations, Pictures) {
  for (const char* name :
       {"colour.jpg", "progressive.jpg", "rgba16.png", "palette.png", "colour.bmp", "grey_rle.tga", "colour.ppm"}) {
    SCOPED_TRACE(name);
    if (jpeg_decoder() == "none" && std::string_view(name).ends_with(".jpg")) continue;
    expect_picture(name);
  }
}

TEST(FailingAllocations, PicturesAreWritten) {
  const TemporaryDirectory dir;
  const Image image = read_image(golden + "images/colour.bmp");
  expect_survival([&] { write_png(dir / "x.png", image); });
}

// Not lamina.graph: nlohmann's trees allocate in their destructor, and where that fails the process ends.
// Without lists in attributes: libstdc++ 12 jumps to nowhere where copying a std::variant of them throws.
std::string onnx_model() {
  using namespace onnx;
  return model(onnx::Graph{.nodes = {{"Conv", {"x", "w"}, {"c"}, {attribute("group", 1)}},
                                     {"Relu", {"c"}, {"r"}},
                                     {"GlobalAveragePool", {"r"}, {"p"}},
                                     {"Flatten", {"p"}, {"y"}}},
                           .initializers = {floats("w", {2, 3, 3, 3}, std::vector<float>(54, 0.5f))}});
}

TEST(FailingAllocations, OnnxFiles) {
  const TemporaryDirectory dir;
  write_file(dir / "x.onnx", onnx_model());
  expect_survival([&] {
    const Model model = load_model(dir / "x.onnx");
    (void)model.graph.compile({.threads = 1});
  });
}

void expect_compiled(const CompileOptions& options) {
  const Graph graph = branching_network();
  const Tensor x = random_tensor({options.batch, 3, 16, 16}, 1);
  Plan plan = graph.compile(options);
  const Tensor expected = plan.run({&x, 1})[0].clone();
  expect_survival([&] {
    Plan another = graph.compile(options);
    const Tensor y = another.run({&x, 1})[0].clone();
    EXPECT_EQ(std::memcmp(y.raw(), expected.raw(), expected.bytes()), 0);
  });
}

TEST(FailingAllocations, CompilingAndRunning) { expect_compiled({.threads = 1}); }
TEST(FailingAllocations, CompilingForThreads) { expect_compiled({.batch = 2, .threads = 3}); }
TEST(FailingAllocations, CompilingForBf16) { expect_compiled({.precision = Precision::bf16, .threads = 1}); }
TEST(FailingAllocations, KeepingAll) { expect_compiled({.threads = 1, .keep_all = true}); }

TEST(FailingAllocations, Pools) {
  const Graph graph = small_network();
  const Tensor x = random_tensor({1, 3, 12, 10}, 1);
  expect_survival([&] {
    PlanPool pool(graph, {.batch = 2, .threads = 1}, {.batches = {1, 2}});
    auto first = pool.submit({x}), second = pool.submit({x});
    (void)first.get();
    (void)second.get();
  });
}

}  // namespace
}  // namespace lamina::test::allocations_test
