#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cuda/map/map_cases.h"
#include "cuda/map/map_data.h"
#include "support/file_test.h"

namespace lamina::test::map_test {
namespace {

constexpr DType types[] = {DType::f32, DType::f16, DType::bf16};

TEST(Map, ByTheEmulatorIsThePlainLoops) {
  for (const DType dtype : types) {
    for (const MapCase& c : map_cases(dtype)) {
      for (const int architecture : {75, 80, 90})
        expect_right(c.map, architecture, c.name + " " + std::string(name(dtype)), c.guarded);
    }
  }
}

/// Neither the device's size nor how many images there are, nor the order in which blocks come, changes a bit.
TEST(Map, BitsAreTheImagesOwn) {
  for (const MapCase& c : map_cases(DType::f32)) {
    MapRun one(c.map, 3, c.guarded);
    one.emulated(90, 132);
    for (const int processors : {20, 84}) {
      MapRun other(c.map, 3, c.guarded);
      other.emulated(90, processors, true);
      for (std::size_t i = 0; i < one.outputs.size(); ++i)
        EXPECT_EQ(other.outputs[i].bytes, one.outputs[i].bytes) << c.name << ", " << processors;
    }
    if (c.map.extents.size() < 2) continue;
    MapProblem less = c.map;
    less.extents[0] = 1;
    MapRun first(less, 3, c.guarded);
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      first.inputs[i].bytes.assign(
          one.inputs[i].bytes.begin(),
          one.inputs[i].bytes.begin() + static_cast<std::ptrdiff_t>(first.inputs[i].bytes.size()));
    }
    first.emulated(90);
    for (std::size_t i = 0; i < first.outputs.size(); ++i) {
      const auto& bytes = one.outputs[i].bytes;
      const std::vector<std::byte> part(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(first.outputs[i].bytes.size()));
      EXPECT_EQ(first.outputs[i].bytes, part) << c.name << ", the first image alone";
    }
  }
}

/// Also where images lie beside their channels and become one axis with them, and in groups of few channels.
TEST(Map, SumsAreSharedOutAlikeInEveryBatch) {
  const auto how = [](std::int64_t images, std::int64_t channels, std::int64_t few) {
    MapProblem mean{.extents = {1024, images, channels, few}, .reduced = few > 1 ? 0b1001u : 0b0001u};
    const std::int64_t all = channels * few;
    const int x = mean.load({0, DType::f16, 0, {images * all, all, few, 1}});
    mean.store(mean.reduce(MapReduction::sum, x), {0, DType::f16, 0, {0, channels, 1, 0}});
    const cuda::MapSchedule s = cuda::schedule(simplified(mean), {{16}, {16}}, 132);
    // Of packs that are not summed up the size may differ.
    const bool sums_packs = s.vector >= 0 && simplified(mean).reduces(static_cast<std::size_t>(s.vector));
    return std::array{s.lanes, s.parts, s.steps, s.pieces, std::int64_t{sums_packs ? s.pack : 1}};
  };
  for (const auto& [channels, few] : {std::pair{8, 1}, {64, 1}, {2, 8}, {32, 8}, {32, 2}}) {
    for (const int images : {3, 4, 32}) EXPECT_EQ(how(images, channels, few), how(1, channels, few)) << images;
  }
}

/// NaN and infinity go through sums, maxima and functions as they should.
TEST(Map, HardValuesStay) {
  MapProblem map{.extents = {4, 300}, .reduced = 0b10};
  const int x = map.load({0, DType::f32, 0, {300, 1}});
  map.store(map.reduce(MapReduction::sum, x), {0, DType::f32, 0, {1, 0}});
  map.store(map.reduce(MapReduction::max, x), {1, DType::f32, 0, {1, 0}});
  for (const int architecture : {75, 90}) {
    MapRun run(map);
    std::vector<double> values(1200, 1.0);
    values[10] = INFINITY, values[310] = NAN, values[610] = INFINITY, values[611] = -INFINITY;
    run.inputs[0].set(values);
    run.emulated(architecture);
    const std::vector<double> sums = run.outputs[0].doubles(), most = run.outputs[1].doubles();
    EXPECT_TRUE(std::isnan(sums[1]) && std::isnan(sums[2]) && std::isnan(most[1]));
    EXPECT_EQ((std::vector<double>{sums[0], sums[3], most[0], most[2], most[3]}),
              (std::vector<double>{INFINITY, 300, INFINITY, INFINITY, 1}));
  }
}

/// Every function, and so what is called too, in a text for each generation, put together by ptxas where it is.
TEST(Map, TextsAreAssembled) {
  const char* const ptxas = "PATH=$PATH:/usr/local/cuda/bin ptxas";
  if (std::system(("sh -c '" + std::string(ptxas) + " --version' >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "ptxas is not here";
  const TemporaryDirectory folder;
  for (const auto& [header, targets] :
       {std::pair{75, std::vector{"75", "86", "89"}}, {80, {"80"}}, {90, {"90", "100", "120"}}}) {
    std::set<std::string> called;
    std::string texts;
    int count = 0;
    const auto write = [&](const MapProblem& map, std::int64_t guarded) {
      const MapRun run(map, 1, guarded);
      const cuda::MapAlignment alignment = run.alignment();
      const cuda::MapKernel kernel =
          cuda::generate(run.map, cuda::schedule(run.map, alignment, 132), alignment, cuda::PtxFunctions::all(),
                         "map_" + std::to_string(count++), header);
      called.insert(kernel.called.begin(), kernel.called.end());
      texts += kernel.text;
    };
    for (const DType dtype : types) {
      for (const MapCase& c : map_cases(dtype)) write(c.map, c.guarded);
    }
    for (const DType compute : {DType::f32, DType::f64, DType::i64, DType::u64}) {
      MapProblem map{.extents = {5, 3}, .compute = compute};
      int x = map.load({0, compute, 0, {3, 1}});
      for (const PointwiseFunction& f : pointwise_functions()) {
        if (is_float(compute) ? f.numbers != PointwiseFunction::Numbers::whole
                              : f.numbers != PointwiseFunction::Numbers::floats)
          x = map.function(f.function, x, x, x);
      }
      map.store(x, {0, compute, 0, {3, 1}});
      write(map, 0);
    }
    const auto file = folder / ("maps_" + std::to_string(header) + ".ptx");
    std::ofstream(file) << cuda::ptx_header(header) << cuda::PtxFunctions::all().definitions(called) << texts;
    for (const std::string target : targets) {
      const std::string command =
          std::string(ptxas) + " -arch=sm_" + target + " " + file.string() + " -o " + (folder / "out").string();
      EXPECT_EQ(std::system(("sh -c '" + command + "'").c_str()), 0) << command;
    }
  }
}

}  // namespace
}  // namespace lamina::test::map_test
