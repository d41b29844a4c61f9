#include "lamina/files/safetensors.h"

#include <cstring>

#include "files/safetensors_file.h"
#include "lamina/files/weights.h"
#include "support/file_test.h"
#include "support/german.h"

namespace lamina::test::safetensors_test {
namespace {

TEST(Safetensors, AcceptsNoTensors) {
  EXPECT_TRUE(open_safetensors(safetensors_file("{}")).empty());
  EXPECT_TRUE(open_safetensors(safetensors_file(R"({"__metadata__":{}})")).empty());
}

TEST(Safetensors, AcceptsPaddingAfterTheHeader) {
  const Weights weights =
      open_safetensors(safetensors_file('{' + safetensors_entry("t", "U8", "[2]", "[0,2]") + "}   ", "ab"));
  EXPECT_EQ(weights.at("t").values<std::uint8_t>()[1], 'b');
}

TEST(Safetensors, AcceptsScalarsAndEmptyTensors) {
  const Weights weights = open_safetensors(safetensors_file('{' + safetensors_entry("z", "F64", "[0]", "[4,4]") + ',' +
                                                                safetensors_entry("s", "F32", "[]", "[0,4]") + ',' +
                                                                safetensors_entry("e", "F32", "[3,0,2]", "[0,0]") + '}',
                                                            raw(2.5f)));
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"z", "s", "e"}));
  EXPECT_EQ(weights.at("s").shape(), Shape{});
  EXPECT_EQ(weights.at("s").values<float>()[0], 2.5f);
  EXPECT_EQ(weights.at("e").shape(), (Shape{3, 0, 2}));
  EXPECT_TRUE(weights.at("e").defined());
  EXPECT_EQ(weights.at("z").numel(), 0);
}

TEST(Safetensors, IgnoresFieldsItDoesNotKnow) {
  const Weights weights = open_safetensors(safetensors_file(
      R"({"t":{"dtype":"U8","extra":{"shape":[[1],{"a":[]}]},"shape":[1],"more":null,"data_offsets":[0,1]}})", "a"));
  EXPECT_EQ(weights.at("t").values<std::uint8_t>()[0], 'a');
}

TEST(Safetensors, ReadsEscapedNamesAndMetadata) {
  const Weights weights = open_safetensors(safetensors_file(
      R"({"__metadata__":{"k\u00e9y":"a\nb"},)" + safetensors_entry("\\u00e9\\n\\u0000", "U8", "[1]", "[0,1]") + '}',
      "a"));
  EXPECT_EQ(weights.metadata().at("k\u00e9y"), "a\nb");
  EXPECT_TRUE(weights.contains(std::string_view("\u00e9\n\0", 4)));
}

TEST(Safetensors, CopiesWhatIsMisaligned) {
  for (std::size_t shift = 0; shift < 8; ++shift) {  // the data begins at 8 + header + shift
    const std::string header =
        '{' + safetensors_entry("a", "U8", "[1]", "[0,1]") + ',' + safetensors_entry("b", "F64", "[2]", "[1,17]") + '}';
    const Weights weights =
        open_safetensors(safetensors_file(header + std::string(shift, ' '), "x" + raw(1.5) + raw(-2.5)));
    const Tensor b = weights.at("b");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.raw()) % alignof(double), 0u);
    EXPECT_EQ(b.values<double>()[0], 1.5);
    EXPECT_EQ(b.values<double>()[1], -2.5);
  }
}

TEST(Safetensors, AlignedTensorsAreViewsThatOutliveTheWeights) {
  const std::string header = '{' + safetensors_entry("t", "F32", "[2]", "[0,8]") + '}';
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  Weights weights = open_safetensors(safetensors_file(header + padding, raw(1.0f) + raw(2.0f)));
  Tensor first = weights.at("t");
  EXPECT_EQ(first.raw(), weights.at("t").raw());
  weights = {};
  first.values<float>()[0] = 3;  // a private page: neither a fault nor a change to the file
  EXPECT_EQ(first.values<float>()[0], 3);
  EXPECT_EQ(first.values<float>()[1], 2);
}

TEST(Safetensors, NormalisesBooleans) {
  const Weights weights =
      open_safetensors(safetensors_file('{' + safetensors_entry("t", "BOOL", "[4]", "[0,4]") + '}', {"\0\1\2\xff", 4}));
  const Tensor t = weights.at("t");
  const auto values = t.values<bool>();
  EXPECT_EQ(std::vector<bool>(values.begin(), values.end()), (std::vector<bool>{false, true, true, true}));
}

TEST(Safetensors, ListsButRefusesDtypesItHasNot) {
  struct Row {
    const char *dtype, *text;
    int bytes;  // of 4 elements
  };
  for (const Row& row : std::vector<Row>{{"F4", "f4", 2},
                                         {"F6_E2M3", "f6_e2m3", 3},
                                         {"F6_E3M2", "f6_e3m2", 3},
                                         {"F8_E4M3", "f8_e4m3", 4},
                                         {"F8_E5M2", "f8_e5m2", 4},
                                         {"F8_E8M0", "f8_e8m0", 4},
                                         {"F8_E4M3FNUZ", "f8_e4m3fnuz", 4},
                                         {"F8_E5M2FNUZ", "f8_e5m2fnuz", 4},
                                         {"C64", "c64", 32}}) {
    const std::string bytes = std::to_string(row.bytes);
    const Weights weights =
        open_safetensors(safetensors_file('{' + safetensors_entry("t", row.dtype, "[2,2]", "[0," + bytes + ']') + '}',
                                          std::string(static_cast<std::size_t>(row.bytes), 'd')));
    const TensorInfo info = weights.entries().at(0);
    EXPECT_EQ(info.name, "t");
    EXPECT_EQ(info.dtype, row.text);
    EXPECT_EQ(info.shape, (std::vector<std::int64_t>{2, 2}));
    EXPECT_EQ(info.bytes, static_cast<std::uint64_t>(row.bytes));
    expect_error([&] { weights.find("t"); }, {"x.safetensors", "\"t\"", "cannot be used", row.text});
    const TemporaryDirectory dir;
    expect_error([&] { weights.save(dir / "out"); }, {"\"t\"", row.text});
    EXPECT_TRUE(dir.listing().empty());
  }
}

TEST(Safetensors, ListsButRefusesTooManyDimensions) {
  const Weights weights = open_safetensors(
      safetensors_file('{' + safetensors_entry("t", "U8", "[1,1,1,1,2,1,1,1,1]", "[0,2]") + '}', "ab"));
  EXPECT_EQ(weights.entries().at(0).shape.size(), 9u);
  expect_error([&] { weights.at("t"); }, {"\"t\"", "at most 8 dimensions", "got 9"});
}

TEST(Safetensors, WritesWidestFirstThenByNameAlignedTo8) {
  const TemporaryDirectory dir;
  Weights weights;
  weights.set("b8", Tensor::zeros({3}, DType::u8));
  weights.set("b32", Tensor::from<float>({1.0f, 2.0f, 3.0f}, {3}));
  weights.set("a32", Tensor::from<std::int32_t>({7}, {}));
  weights.set("z64", Tensor::from<double>({0.5}, {1}));
  weights.set("h16", Tensor::zeros({1, 0}, DType::f16));
  weights.metadata()["k"] = "v\"\n";
  weights.save(dir / "out");

  const std::string bytes = read_file(dir / "out");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.substr(8, length).substr(0, bytes.substr(8, length).find_last_not_of(' ') + 1),
            R"({"__metadata__":{"k":"v\"\n"},)"
            R"("z64":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
            R"("a32":{"dtype":"I32","shape":[],"data_offsets":[8,12]},)"
            R"("b32":{"dtype":"F32","shape":[3],"data_offsets":[12,24]},)"
            R"("h16":{"dtype":"F16","shape":[1,0],"data_offsets":[24,24]},)"
            R"("b8":{"dtype":"U8","shape":[3],"data_offsets":[24,27]}})");
  EXPECT_EQ(bytes.size(), 8 + length + 27);
}

TEST(Safetensors, RoundTripsEveryDtype) {
  const TemporaryDirectory dir;
  Weights weights;
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
    const auto dtype = static_cast<DType>(i);
    Tensor tensor({2, 3}, dtype);
    for (std::size_t b = 0; b < tensor.bytes(); ++b) {
      static_cast<std::byte*>(tensor.raw())[b] = dtype == DType::boolean ? std::byte(b % 2) : std::byte(b * 37 + 1);
    }
    weights.set(std::string(name(dtype)), tensor);
  }
  weights.save(dir / "out");
  const Weights again = Weights::open(dir / "out");
  ASSERT_EQ(again.size(), 13u);
  for (const std::string& name : weights.names()) {
    const Tensor expected = weights.at(name);
    const Tensor found = again.at(name);
    EXPECT_EQ(found.dtype(), expected.dtype());
    EXPECT_EQ(found.shape(), expected.shape());
    EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), expected.bytes()), 0) << name;
  }
}

TEST(Safetensors, RefusesToWriteNamesTheFormatCannotHold) {
  const TemporaryDirectory dir;
  write_file(dir / "out", "old");
  const auto save = [&](const std::string& name, const std::string& value) {
    return [&dir, name, value] {
      Weights weights;
      weights.set(name, Tensor::zeros({1}));
      weights.metadata()["k"] = value;
      weights.save(dir / "out");
    };
  };
  expect_error(save("\xff", ""), {"UTF-8"});
  expect_error(save("t", "\xff"), {"UTF-8"});
  expect_error(save("__metadata__", ""), {"__metadata__"});
  EXPECT_EQ(read_file(dir / "out"), "old");
  EXPECT_EQ(dir.listing(), std::vector<std::string>{"out"});
}

TEST(Safetensors, DamagedFilesLoadOrThrow) {
  const std::string good =
      safetensors_file(R"({"__metadata__":{"a":"b"},)" + safetensors_entry("w", "F32", "[2,3]", "[0,24]") + ',' +
                           safetensors_entry("b", "BOOL", "[2]", "[24,26]") + '}',
                       std::string(26, '\1'));
  fuzz(good, [](const std::filesystem::path& path) {
    const Weights weights = Weights::open(path);
    for (const std::string& name : weights.names()) weights.find(name);
  });
}

TEST(Safetensors, AreTheSameInEveryLocale) {
  const TemporaryDirectory dir;
  Weights weights;
  weights.set("a", Tensor::zeros({1234, 2}));
  weights.save(dir / "plain");
  const GermanNumbers german;
  weights.save(dir / "german");
  EXPECT_TRUE(read_file(dir / "german") == read_file(dir / "plain"));
  EXPECT_EQ(Weights::open(dir / "german").at("a").shape(), (Shape{1234, 2}));
}

}  // namespace
}  // namespace lamina::test::safetensors_test
