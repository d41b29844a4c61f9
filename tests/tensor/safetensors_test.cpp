#include "lamina/tensor/safetensors.h"

#include <cstring>
#include <ostream>

#include "file_test.h"
#include "lamina/tensor/weights.h"

namespace lamina::test {
namespace {

std::string file_of(const std::string& header, const std::string& data = {}) {
  return raw(std::uint64_t{header.size()}) + header + data;
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + '}';
}

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

/// Opens `bytes` as a file called x.safetensors.
Weights open(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.safetensors", bytes);
  return Weights::open(dir / "x.safetensors");
}

struct Case {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;  // of the message
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> malformed() {
  const std::string four(4, 'd');
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets,
                       const std::string& data = std::string(4, 'd')) {
    return file_of('{' + entry("t", dtype, shape, offsets) + '}', data);
  };
  return {
      {"OneByte", "x", {"8 bytes", "file of 1"}},
      {"SevenBytes", std::string(7, '\0'), {"8 bytes", "file of 7"}},
      {"HeaderOfNothing", file_of(""), {"begin with '{'", "nothing"}},
      {"HeaderPastTheEnd", raw(std::uint64_t{3}) + "{}", {"3 bytes", "past the end", "10"}},
      {"HeaderLengthOverLimit", raw(std::uint64_t{100'000'001}) + "{}", {"100000000", "100000001"}},
      {"HeaderLengthOverflows", raw(~std::uint64_t{0}) + "{}", {"18446744073709551615"}},
      {"NotAWeightFile", "<!DOCTYPE html><html></html>", {"not a safetensors, .npy or .pth file"}},
      {"GitLfsPointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", {"Git LFS", "git lfs pull"}},
      {"BadJson", file_of("{\"t\":"), {"not valid JSON"}},
      {"TextAfterJson", file_of("{} x"), {"not valid JSON"}},
      {"NullPadding", file_of(std::string("{}\0", 3)), {"not valid JSON"}},
      {"TextBehindANull", file_of(std::string("{}\0, x", 6)), {"not valid JSON"}},
      {"BadUtf8InName", file_of('{' + entry("\xff\xfe", "F32", "[1]", "[0,4]") + '}', four), {"UTF-8"}},
      {"BadUtf8InMetadata", file_of("{\"__metadata__\":{\"a\":\"\xc3\"}}"), {"UTF-8"}},
      {"ArrayAtTop", file_of("[]"), {"begin with '{'", "[]"}},
      {"SpaceBeforeHeader", file_of(" {}"), {"begin with '{'"}},
      {"NumberForTensor", file_of(R"({"t":1})"), {"expected an object", "\"t\"", "1"}},
      {"NullForTensor", file_of(R"({"t":null})"), {"expected an object", "null"}},
      {"ArrayForTensor", file_of(R"({"t":[]})"), {"expected an object", "an array"}},
      {"DuplicateTensor",
       file_of('{' + entry("t", "U8", "[4]", "[0,4]") + ',' + entry("t", "U8", "[4]", "[0,4]") + '}', four),
       {"duplicate key", "\"t\""}},
      {"DuplicateEscapedTensor",
       file_of('{' + entry("t", "U8", "[4]", "[0,4]") + ',' + entry("\\u0074", "U8", "[4]", "[0,4]") + '}', four),
       {"duplicate key", "\"t\""}},
      {"DuplicateDtype",
       file_of(R"({"t":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", four),
       {"duplicate key", "dtype", "\"t\""}},
      {"DuplicateShape",
       file_of(R"({"t":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}})", four),
       {"duplicate key", "shape"}},
      {"DuplicateMetadataKey", file_of(R"({"__metadata__":{"a":"1","a":"1"}})"), {"duplicate key", "\"a\""}},
      {"DuplicateMetadata", file_of(R"({"__metadata__":{},"__metadata__":{}})"), {"duplicate key", "__metadata__"}},
      {"MetadataNumber", file_of(R"({"__metadata__":{"a":1}})"), {"__metadata__", "expected a string", "\"a\"", "1"}},
      {"MetadataNull", file_of(R"({"__metadata__":{"a":null}})"), {"__metadata__", "expected a string", "null"}},
      {"MetadataNested", file_of(R"({"__metadata__":{"a":{}}})"), {"__metadata__", "expected a string", "an object"}},
      {"MetadataArray", file_of(R"({"__metadata__":{"a":["x"]}})"), {"__metadata__", "expected a string"}},
      {"MetadataNotAnObject", file_of(R"({"__metadata__":"x"})"), {"__metadata__", "expected an object"}},
      {"MetadataIsNull", file_of(R"({"__metadata__":null})"), {"__metadata__", "expected an object"}},
      {"NoDtype", file_of(R"({"t":{"shape":[4],"data_offsets":[0,4]}})", four), {"\"t\"", "no dtype"}},
      {"NoShape", file_of(R"({"t":{"dtype":"U8","data_offsets":[0,4]}})", four), {"\"t\"", "no shape"}},
      {"NoOffsets", file_of(R"({"t":{"dtype":"U8","shape":[4]}})", four), {"\"t\"", "no data_offsets"}},
      {"DtypeNumber",
       file_of(R"({"t":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", four),
       {"\"t\"", "expected a string", "dtype", "8"}},
      {"DtypeArray", file_of(R"({"t":{"dtype":["U8"],"shape":[4],"data_offsets":[0,4]}})", four), {"\"t\"", "dtype"}},
      {"ShapeString", one("U8", R"("4")", "[0,4]"), {"\"t\"", "shape", "whole numbers"}},
      {"ShapeNull", one("U8", "null", "[0,4]"), {"\"t\"", "shape", "null"}},
      {"ShapeNegative", one("U8", "[-4]", "[0,4]"), {"\"t\"", "shape", "-4"}},
      {"ShapeFraction", one("U8", "[4.5]", "[0,4]"), {"\"t\"", "shape", "4.5"}},
      {"ShapeWholeFraction", one("U8", "[4.0]", "[0,4]"), {"\"t\"", "shape", "4.0"}},
      {"ShapeExponent", one("U8", "[4e0]", "[0,4]"), {"\"t\"", "shape", "4e0"}},
      {"ShapeNested", one("U8", "[[4]]", "[0,4]"), {"\"t\"", "shape", "an array"}},
      {"ShapeTooBigForJson", one("U8", "[99999999999999999999]", "[0,4]"), {"\"t\"", "shape", "99999999999999999999"}},
      {"OffsetsNegative", one("U8", "[4]", "[-1,3]"), {"\"t\"", "data_offsets", "-1"}},
      {"OffsetsFraction", one("U8", "[4]", "[0,4.5]"), {"\"t\"", "data_offsets", "4.5"}},
      {"OffsetsOne", one("U8", "[4]", "[4]"), {"\"t\"", "data_offsets", "1 numbers"}},
      {"OffsetsThree", one("U8", "[4]", "[0,4,4]"), {"\"t\"", "data_offsets", "third"}},
      {"OffsetsString", one("U8", "[4]", R"("0,4")"), {"\"t\"", "data_offsets"}},
      {"OffsetsBackwards", one("U8", "[4]", "[4,0]"), {"\"t\"", "backwards"}},
      {"OffsetsPastTheEnd", one("U8", "[5]", "[0,5]"), {"\"t\"", "past the end", "4 bytes"}},
      {"OffsetsFarPastTheEnd", one("U8", "[4]", "[18446744073709551611,18446744073709551615]"), {"past the end"}},
      {"UnknownDtype", one("F31", "[1]", "[0,4]"), {"\"t\"", "unknown dtype", "\"F31\""}},
      {"LowerCaseDtype", one("f32", "[1]", "[0,4]"), {"unknown dtype", "\"f32\""}},
      {"ExtentOverflow", one("U8", "[9223372036854775808]", "[0,4]"), {"\"t\"", "overflow"}},
      {"ShapeOverflow", one("U8", "[4294967296,4294967296]", "[0,4]"), {"\"t\"", "overflow"}},
      {"ShapeOverflowToRightSize", one("U8", "[4611686018427387905,4]", "[0,4]"), {"\"t\"", "overflow"}},
      {"ShapeOverflowBesideZero", one("U8", "[0,4294967296,4294967296]", "[0,0]", ""), {"\"t\"", "overflow"}},
      {"BitsOverflow", one("F64", "[288230376151711745]", "[0,4]"), {"\"t\"", "overflow"}},
      {"BitsNotWholeBytesF4", one("F4", "[7]", "[0,4]"), {"\"t\"", "28 bits", "whole bytes"}},
      {"BitsNotWholeBytesF6", one("F6_E2M3", "[5]", "[0,4]"), {"\"t\"", "30 bits"}},
      {"SizeTooSmall", one("F32", "[2]", "[0,4]"), {"\"t\"", "expected 8 bytes", "f32 [2]", "got 4"}},
      {"SizeTooLarge", one("U8", "[3]", "[0,4]"), {"\"t\"", "expected 3 bytes", "got 4"}},
      {"FirstNotAtZero", one("U8", "[3]", "[1,4]"), {"\"t\"", "begin at byte 0", "got 1", "hole"}},
      {"Hole",
       file_of('{' + entry("a", "U8", "[1]", "[0,1]") + ',' + entry("b", "U8", "[2]", "[2,4]") + '}', four),
       {"\"b\"", "begin at byte 1", "got 2", "hole"}},
      {"Overlap",
       file_of('{' + entry("a", "U8", "[3]", "[0,3]") + ',' + entry("b", "U8", "[2]", "[2,4]") + '}', four),
       {"\"b\"", "begin at byte 3", "got 2", "overlap"}},
      {"SameBytesTwice",
       file_of('{' + entry("a", "U8", "[4]", "[0,4]") + ',' + entry("b", "U8", "[4]", "[0,4]") + '}', four),
       {"overlap"}},
      {"EmptyInsideAnother",
       file_of('{' + entry("a", "U8", "[4]", "[0,4]") + ',' + entry("b", "U8", "[0]", "[2,2]") + '}', four),
       {"\"b\"", "overlap"}},
      {"TrailingBytes", one("U8", "[3]", "[0,3]"), {"end at byte 3", "1 trailing"}},
      {"DataWithoutTensors", file_of("{}", four), {"4 trailing"}},
      {"Truncated", one("F32", "[1]", "[0,4]", "ddd"), {"\"t\"", "past the end", "truncated"}},
      {"DeepNestingInShape", one("U8", nested(1'000'000), "[0,4]"), {"\"t\"", "shape", "an array"}},
      {"DeepNestingAtTop", file_of("{\"a\":" + nested(1'000'000) + '}'), {"expected an object", "an array"}},
      {"DeepNestingUnclosed", file_of("{\"a\":{\"x\":" + std::string(1'000'000, '[')), {"not valid JSON"}},
  };
}

class MalformedSafetensors : public testing::TestWithParam<Case> {};

TEST_P(MalformedSafetensors, IsRefused) {
  std::vector<std::string> words = GetParam().words;
  words.push_back("x.safetensors");
  expect_error([&] { open(GetParam().bytes); }, words);
}

INSTANTIATE_TEST_SUITE_P(Cases, MalformedSafetensors, testing::ValuesIn(malformed()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(Safetensors, AcceptsNoTensors) {
  EXPECT_TRUE(open(file_of("{}")).empty());
  EXPECT_TRUE(open(file_of(R"({"__metadata__":{}})")).empty());
}

TEST(Safetensors, AcceptsPaddingAfterTheHeader) {
  const Weights weights = open(file_of('{' + entry("t", "U8", "[2]", "[0,2]") + "}   ", "ab"));
  EXPECT_EQ(weights.at("t").values<std::uint8_t>()[1], 'b');
}

TEST(Safetensors, AcceptsScalarsAndEmptyTensors) {
  const Weights weights =
      open(file_of('{' + entry("z", "F64", "[0]", "[4,4]") + ',' + entry("s", "F32", "[]", "[0,4]") + ',' +
                       entry("e", "F32", "[3,0,2]", "[0,0]") + '}',
                   raw(2.5f)));
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"z", "s", "e"}));
  EXPECT_EQ(weights.at("s").shape(), Shape{});
  EXPECT_EQ(weights.at("s").values<float>()[0], 2.5f);
  EXPECT_EQ(weights.at("e").shape(), (Shape{3, 0, 2}));
  EXPECT_TRUE(weights.at("e").defined());
  EXPECT_EQ(weights.at("z").numel(), 0);
}

TEST(Safetensors, IgnoresFieldsItDoesNotKnow) {
  const Weights weights = open(file_of(
      R"({"t":{"dtype":"U8","extra":{"shape":[[1],{"a":[]}]},"shape":[1],"more":null,"data_offsets":[0,1]}})", "a"));
  EXPECT_EQ(weights.at("t").values<std::uint8_t>()[0], 'a');
}

TEST(Safetensors, ReadsEscapedNamesAndMetadata) {
  const Weights weights = open(
      file_of(R"({"__metadata__":{"k\u00e9y":"a\nb"},)" + entry("\\u00e9\\n\\u0000", "U8", "[1]", "[0,1]") + '}', "a"));
  EXPECT_EQ(weights.metadata().at("k\u00e9y"), "a\nb");
  EXPECT_TRUE(weights.contains(std::string_view("\u00e9\n\0", 4)));
}

TEST(Safetensors, CopiesWhatIsMisaligned) {
  for (std::size_t shift = 0; shift < 8; ++shift) {  // the data begins at 8 + header + shift
    const std::string header = '{' + entry("a", "U8", "[1]", "[0,1]") + ',' + entry("b", "F64", "[2]", "[1,17]") + '}';
    const Weights weights = open(file_of(header + std::string(shift, ' '), "x" + raw(1.5) + raw(-2.5)));
    const Tensor b = weights.at("b");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.raw()) % alignof(double), 0u);
    EXPECT_EQ(b.values<double>()[0], 1.5);
    EXPECT_EQ(b.values<double>()[1], -2.5);
  }
}

TEST(Safetensors, AlignedTensorsAreViewsThatOutliveTheWeights) {
  const std::string header = '{' + entry("t", "F32", "[2]", "[0,8]") + '}';
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  Weights weights = open(file_of(header + padding, raw(1.0f) + raw(2.0f)));
  Tensor first = weights.at("t");
  EXPECT_EQ(first.raw(), weights.at("t").raw());
  weights = {};
  first.values<float>()[0] = 3;  // a private page: neither a fault nor a change to the file
  EXPECT_EQ(first.values<float>()[0], 3);
  EXPECT_EQ(first.values<float>()[1], 2);
}

TEST(Safetensors, NormalisesBooleans) {
  const Weights weights = open(file_of('{' + entry("t", "BOOL", "[4]", "[0,4]") + '}', {"\0\1\2\xff", 4}));
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
    const Weights weights = open(file_of('{' + entry("t", row.dtype, "[2,2]", "[0," + bytes + ']') + '}',
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
  const Weights weights = open(file_of('{' + entry("t", "U8", "[1,1,1,1,2,1,1,1,1]", "[0,2]") + '}', "ab"));
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
  const std::string good = file_of(R"({"__metadata__":{"a":"b"},)" + entry("w", "F32", "[2,3]", "[0,24]") + ',' +
                                       entry("b", "BOOL", "[2]", "[24,26]") + '}',
                                   std::string(26, '\1'));
  fuzz(good, [](const std::filesystem::path& path) {
    const Weights weights = Weights::open(path);
    for (const std::string& name : weights.names()) weights.find(name);
  });
}

}  // namespace
}  // namespace lamina::test
