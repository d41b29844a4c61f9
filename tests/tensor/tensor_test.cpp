#include "lamina/tensor/tensor.h"

#include <limits>
#include <sstream>

#include "lamina/base/error.h"
#include "support/file_test.h"

namespace lamina::test::tensor_test {
namespace {

TEST(Shape, CountsAndPrints) {
  const Shape shape{8, 3, 224, 224};
  EXPECT_EQ(shape.numel(), 8 * 3 * 224 * 224);
  EXPECT_EQ(shape.to_string(), "[8, 3, 224, 224]");
  EXPECT_EQ(shape[-1], 224);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{4, 0, 5}).numel(), 0);
  EXPECT_EQ((Shape{batch, 3}).to_string(), "[N, 3]");
  EXPECT_EQ((Shape{batch, 3}).with_batch(7), (Shape{7, 3}));
}

TEST(Shape, RefusesNonsense) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  expect_error([] { Shape{1, -3}; }, {"-3"});
  expect_error([] { (void)Shape{huge, huge}.numel(); }, {"64 bits"});
  EXPECT_EQ((Shape{huge, huge, 0}).numel(), 0);
  expect_error([] { (void)Shape{1, 2}[2]; }, {"no dimension 2"});
  expect_error([] { (void)Shape{batch, 2}.numel(); }, {"batch"});
  expect_error([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }, {"at most 8"});
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor a = Tensor::from<float>(std::vector<float>{1, 2, 3, 4}, {2, 2});
  Tensor b = a;
  Tensor c = a.clone();
  b.values<float>()[0] = 9;
  EXPECT_EQ(a.values<float>()[0], 9);
  EXPECT_EQ(c.values<float>()[0], 1);
}

TEST(Tensor, MemoryIsAligned) {
  for (const std::int64_t size : {1, 3, 17, 1000}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(Tensor({size}).raw()) % 64, 0u);
  }
}

TEST(Tensor, ViewsSeeTheSameElements) {
  const Tensor a = Tensor::from<float>(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  EXPECT_EQ(a.view({2, 3}).raw(), a.raw());
  EXPECT_EQ(a.slice(1, 3).values<float>()[0], 3);
  EXPECT_EQ(a.slice(1, 3).shape(), (Shape{2, 2}));
  EXPECT_EQ(a.slice(3, 3).numel(), 0);
  EXPECT_EQ(a.reinterpret({3, 8}, DType::u8).values<std::uint8_t>()[3], 0x3f);
  expect_error([&] { (void)a.view({5}); }, {"[3, 2]", "[5]"});
  expect_error([&] { (void)a.slice(2, 4); }, {"[2, 4)"});
  expect_error([&] { (void)a.reinterpret({5}, DType::u8); }, {"u8 [5]"});
}

TEST(Tensor, AViewKeepsTheMemoryAlive) {
  Tensor view;
  {
    const Tensor whole = Tensor::from<float>(std::vector<float>{1, 2, 3, 4}, {2, 2});
    view = whole.slice(1, 2);
  }
  EXPECT_EQ(view.values<float>()[1], 4);
}

TEST(Tensor, RefusesTheWrongType) {
  const Tensor a = Tensor::zeros({2});
  expect_error([&] { (void)a.values<double>(); }, {"f64", "f32 [2] on cpu"});
  expect_error([&] { (void)Tensor().values<double>(); }, {"f64", "an undefined tensor"});
  expect_error([&] { (void)Tensor::from<float>(std::vector<float>{1, 2, 3}, {2}); }, {"expected 2 values, got 3"});
  expect_error(
      [&] {
        Tensor b({3});
        b.copy_from(a);
      },
      {"[2]", "[3]"});
  expect_error([&] { Tensor huge({std::int64_t{1} << 62, 4}); }, {"64 bits"});
  expect_error([&] { Tensor huge({std::int64_t{1} << 50}); }, {"out of memory", "asked for"});
}

TEST(Tensor, ConvertsWhatFits) {
  const Tensor a = Tensor::from<double>(std::vector<double>{-1, 0, 127, 1.5}, {4});
  EXPECT_EQ(a.to(DType::f32).values<float>()[3], 1.5f);
  EXPECT_EQ(to_float(a.to(DType::bf16).values<bfloat16>()[2]), 127.0f);
  EXPECT_EQ(a.slice(0, 3).to(DType::i8).values<std::int8_t>()[2], 127);
  EXPECT_EQ(a.slice(0, 3).to(DType::boolean).values<bool>()[0], true);
  EXPECT_EQ(a.to(DType::f64).raw(), a.raw());
  expect_error([&] { (void)a.to(DType::u8); }, {"-1", "u8"});
  expect_error([&] { (void)a.to(DType::i32); }, {"1.5", "i32"});
  const Tensor big = Tensor::from<float>(std::vector<float>{0x1p31f}, {1});
  expect_error([&] { (void)big.to(DType::i32); }, {"i32"});
  EXPECT_EQ(big.to(DType::u32).values<std::uint32_t>()[0], 1u << 31);
  const Tensor nan = Tensor::from<float>(std::vector<float>{std::numeric_limits<float>::quiet_NaN()}, {1});
  expect_error([&] { (void)nan.to(DType::i64); }, {"i64"});
}

TEST(Tensor, ConvertsLargeTensorsToTheLastElement) {
  Tensor values({(std::int64_t{5} << 20) / 2 + 3}, DType::f32);  // pieces for several threads, the last a short one
  const std::span<float> from = values.values<float>();
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i) * 0.37f - 1e5f;
  const Tensor narrow = values.to(DType::f16);
  const std::span<const half> to = narrow.values<half>();
  for (std::size_t i = 0; i < from.size(); ++i) ASSERT_EQ(to[i].bits, to_half(from[i]).bits) << i;
}

TEST(Tensor, PrintsSoThatAPersonCanRead) {
  std::ostringstream small;
  small << Tensor::from<float>(std::vector<float>{1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(small.str(), "f32 [2, 2] on cpu\n[[1, 2],\n [3, 4]]");
  std::ostringstream large;
  large << Tensor::zeros({100}, DType::u8);
  EXPECT_EQ(large.str(), "u8 [100] on cpu\n[0, 0, 0, ..., 0, 0, 0]");
  std::ostringstream none;
  none << Tensor();
  EXPECT_EQ(none.str(), "an undefined tensor");
}

TEST(Device, ReadsItsNames) {
  EXPECT_EQ(parse_device("cpu"), Device::cpu());
  EXPECT_EQ(parse_device("auto"), best_device());
  EXPECT_EQ(to_string(Device::cuda(3)), "cuda:3");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "CPU"}) {
    expect_error([&] { (void)parse_device(bad); }, {"expected auto, cpu, cuda"}, bad);
  }
  expect_error([] { (void)parse_device("cuda:99"); }, {"cuda:99"});
}

}  // namespace
}  // namespace lamina::test::tensor_test
