#include "lamina/files/weights.h"

#include <sys/stat.h>

#include "lamina/base/names.h"
#include "lamina/files/npy.h"
#include "support/file_test.h"

namespace lamina::test::weights_test {
namespace {

using Names = std::vector<std::string>;

Weights some_weights() {
  Weights weights;
  weights.set("features.0.weight", Tensor::from<float>({1.0f, 2.0f}, {2, 1}));
  weights.set("features.0.bias", Tensor::from<float>({3.0f}, {1}));
  weights.metadata()["lamina.labels"] = "cat\ndog";
  return weights;
}

TEST(Weights, HoldTensorsInOrder) {
  Weights weights = some_weights();
  EXPECT_EQ(weights.names(), (Names{"features.0.weight", "features.0.bias"}));
  EXPECT_TRUE(weights.contains("features.0.bias"));
  EXPECT_FALSE(weights.contains("features"));
  EXPECT_FALSE(weights.find("features").has_value());
  EXPECT_EQ(weights.info("features"), nullptr);
  EXPECT_EQ(weights.info("features.0.weight")->shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(weights.info("features.0.weight")->bytes, 8u);
  EXPECT_EQ(weights.entries()[1].dtype, "f32");

  weights.set("features.0.weight", Tensor::zeros({5}, DType::f16));  // replaces in place
  EXPECT_EQ(weights.names(), (Names{"features.0.weight", "features.0.bias"}));
  EXPECT_EQ(weights.at("features.0.weight").shape(), (Shape{5}));
  EXPECT_EQ(weights.info("features.0.weight")->dtype, "f16");
  expect_error([&] { weights.set("x", Tensor()); }, {"\"x\"", "undefined"});
}

TEST(Weights, SetSharesTheTensorsMemory) {
  Weights weights;
  Tensor tensor = Tensor::zeros({1});
  weights.set("t", tensor);
  tensor.values<float>()[0] = 4;
  EXPECT_EQ(weights.at("t").values<float>()[0], 4);
}

TEST(Weights, AMissingTensorIsAnErrorWithTheNearestNames) {
  const TemporaryDirectory dir;
  some_weights().save(dir / "w");
  expect_error(
      [&] { Weights::open(dir / "w").at("feature.0.weigth"); },
      {(dir / "w").string(), "no tensor \"feature.0.weigth\"", "; nearest: \"features.0.weight\", \"features"});
  expect_error([] { Weights().at("t"); }, {"no tensor \"t\"; there are none"});
}

TEST(Weights, RecogniseFilesByTheirContent) {
  const TemporaryDirectory dir;
  some_weights().save(dir / "weights");
  std::filesystem::rename(dir / "weights", dir / "weights.npy");
  save_npy(dir / "image.safetensors", Tensor::from<float>({1.0f, 2.0f}, {2}));
  EXPECT_EQ(Weights::open(dir / "weights.npy").size(), 2u);
  const Weights npy = Weights::open(dir / "image.safetensors");
  EXPECT_EQ(npy.names(), Names{"image"});  // the stem
  EXPECT_EQ(npy.at("image").values<float>()[1], 2);
}

TEST(Weights, SaveMayReplaceTheFileTheyWereOpenedFrom) {
  const TemporaryDirectory dir;
  some_weights().save(dir / "w");
  Weights weights = Weights::open(dir / "w");
  weights.set("extra", Tensor::from<float>({9.0f}, {1}));
  weights.save(dir / "w");
  const Weights again = Weights::open(dir / "w");
  EXPECT_EQ(again.size(), 3u);
  EXPECT_EQ(again.at("features.0.weight").values<float>()[1], 2);
  EXPECT_EQ(weights.at("features.0.weight").values<float>()[1], 2);  // the old mapping still serves
  EXPECT_EQ(again.metadata(), some_weights().metadata());
  EXPECT_EQ(dir.listing(), Names{"w"});
}

TEST(Weights, WritingToATensorNeverReachesTheFile) {
  const TemporaryDirectory dir;
  some_weights().save(dir / "w");
  const std::string before = read_file(dir / "w");
  Tensor tensor = Weights::open(dir / "w").at("features.0.weight");
  tensor.values<float>()[0] = 77;
  EXPECT_EQ(read_file(dir / "w"), before);
}

TEST(Weights, UnreadableFilesAreErrors) {
  const TemporaryDirectory dir;
  write_file(dir / "empty", "");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  const auto open = [](const std::filesystem::path& path) { return [path] { Weights::open(path); }; };
  expect_error(open(dir / "missing"), {"cannot read", "missing", "there is no such file"});
  expect_error(open(dir.path()), {"cannot read", "this is a folder"});
  expect_error(open(dir / "empty"), {"cannot read", "empty"});
  expect_error(open(dir / "pipe"), {"cannot read", "pipe", "regular file"});
  expect_error(open(""), {"cannot read", "there is no such file"});
  if (::geteuid() != 0) {
    write_file(dir / "secret", "x");
    ::chmod((dir / "secret").c_str(), 0);
    expect_error(open(dir / "secret"), {"cannot read", "secret", "Permission denied"});
  }
}

TEST(Weights, WithoutAPrefix) {
  Weights weights = some_weights();
  weights.set("other", Tensor::zeros({1}));
  const Weights without = weights.without_prefix("features.");
  EXPECT_EQ(without.names(), (Names{"0.weight", "0.bias", "other"}));
  EXPECT_EQ(without.at("0.bias").values<float>()[0], 3.0f);
  EXPECT_EQ(without.metadata(), weights.metadata());
  weights.set("0.bias", Tensor::zeros({1}));
  expect_error([&] { (void)weights.without_prefix("features."); }, {"two tensors", "\"0.bias\""});
}

}  // namespace
}  // namespace lamina::test::weights_test
