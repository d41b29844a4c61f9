#include "lamina/files/npy.h"

#include <cstring>
#include <ostream>

#include "lamina/files/weights.h"
#include "support/file_test.h"
#include "support/german.h"

namespace lamina::test::npy_test {
namespace {

const std::string magic = "\x93NUMPY";

/// A version 1 file with that header text.
std::string file_of(const std::string& header, const std::string& data = {}) {
  return magic + std::string("\1\0", 2) + raw(static_cast<std::uint16_t>(header.size())) + header + data;
}

std::string dict(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }\n";
}

Tensor load(const std::string& bytes) {
  const TemporaryDirectory dir;
  write_file(dir / "x.npy", bytes);
  return load_npy(dir / "x.npy");
}

template <class T>
std::vector<T> values(const Tensor& tensor) {
  const auto span = tensor.values<T>();
  return {span.begin(), span.end()};
}

struct Case {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;  // of the message
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

std::vector<Case> malformed() {
  const std::string eight(8, 'd');
  const auto with = [&](const std::string& header) { return file_of(header, eight); };
  const auto prelude = [&](char major, char minor) { return magic + major + minor; };
  return {
      {"NotNpy", "\x93NUMPX", {"not a .npy file"}},
      {"OnlyMagic", magic, {"truncated", "6 bytes"}},
      {"NoHeaderLength", prelude(1, 0), {"truncated", "8 bytes"}},
      {"HalfAHeaderLength", prelude(2, 0) + "\x10", {"truncated"}},
      {"Version0", prelude(0, 0) + "..", {"version", "0.0"}},
      {"Version4", prelude(4, 0) + "....", {"version", "4.0"}},
      {"Version1Point1", prelude(1, 1) + "..", {"version", "1.1"}},
      {"HeaderPastTheEnd", file_of(dict("<f4", "(2,)")).substr(0, 30), {"header", "past the end", "30"}},
      {"GiantHeader", prelude(3, 0) + "\xff\xff\xff\xff{}", {"4294967295", "past the end"}},
      {"EmptyHeader", with(""), {"malformed", "'{'"}},
      {"NotADict", with("[1]"), {"malformed", "'{'"}},
      {"NotClosed", with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)"), {"malformed", "'}'"}},
      {"TextAfterDict", with(dict("<f4", "(2,)") + "x"), {"malformed", "after the dict"}},
      {"NullAfterDict", with(dict("<f4", "(2,)") + std::string(1, '\0')), {"malformed", "after the dict"}},
      {"NoDescr", with("{'fortran_order': False, 'shape': (2,)}"), {"malformed", "descr"}},
      {"NoFortranOrder", with("{'descr': '<f4', 'shape': (2,)}"), {"malformed", "fortran_order"}},
      {"NoShape", with("{'descr': '<f4', 'fortran_order': False}"), {"malformed", "shape"}},
      {"UnknownKey", with("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}"), {"unexpected", "\"x\""}},
      {"DuplicateKey", with("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"), {"duplicate"}},
      {"NumberForKey", with("{1: 2}"), {"malformed", "expected a string"}},
      {"OpenString", with("{'descr"), {"malformed", "without an end"}},
      {"EscapeInString", with("{'d\\x65scr': '<f4'}"), {"malformed", "escape"}},
      {"FortranOrderNumber", with(dict("<f4", "(2,)", "0")), {"malformed", "True or False"}},
      {"ShapeNumber", with(dict("<f4", "2")), {"malformed", "'('"}},
      {"ShapeInParentheses", with(dict("<f4", "(2)")), {"malformed", "tuple"}},
      {"ShapeList", with(dict("<f4", "[2]")), {"malformed", "'('"}},
      {"ShapeNegative", with(dict("<f4", "(-2,)")), {"malformed", "0 or more"}},
      {"ShapeFraction", with(dict("<f4", "(2.0,)")), {"malformed"}},
      {"ShapeComma", with(dict("<f4", "(,)")), {"malformed"}},
      {"ShapeNoComma", with(dict("<f4", "(1 2)")), {"malformed"}},
      {"ShapeNested", with(dict("<f4", "((2,),)")), {"malformed"}},
      {"DeepNesting", with(dict("<f4", std::string(10'000, '('))), {"malformed"}},
      {"ExtentOverflow", with(dict("<f4", "(99999999999999999999,)")), {"overflow"}},
      {"ShapeOverflow", with(dict("<f4", "(4294967296, 4294967296)")), {"overflow"}},
      {"SizeOverflow", with(dict("<f8", "(4611686018427387905,)")), {"overflow"}},
      {"ShapeOverflowBesideZero", file_of(dict("<f4", "(0, 4294967296, 4294967296)")), {"overflow"}},
      {"Absurd", with(dict("<f4", "(1000000000000,)")), {"expected 4000000000000 bytes", "got 8", "truncated"}},
      {"Truncated", with(dict("<f4", "(3,)")), {"expected 12 bytes", "f32 [3]", "got 8", "truncated"}},
      {"Trailing", with(dict("<f4", "(1,)")), {"expected 4 bytes", "got 8", "follows"}},
      {"Object", with(dict("|O", "(1,)")), {"Python objects", "never unpickles"}},
      {"ObjectWithSize", with(dict("|O8", "(1,)")), {"Python objects"}},
      {"Record", with("{'descr': [('a', '<f4'), ('b', '<f4')], 'fortran_order': False, 'shape': (1,), }"), {"record"}},
      {"Complex", with(dict("<c8", "(1,)")), {"\"<c8\"", "cannot be read"}},
      {"LongDouble", with(dict("<f16", "(1,)")), {"\"<f16\""}},
      {"Text", with(dict("<U2", "(1,)")), {"\"<U2\""}},
      {"Void", with(dict("|V2", "(4,)")), {"\"|V2\""}},
      {"Date", with(dict("<M8[ns]", "(1,)")), {"\"<M8[ns]\""}},
      {"EmptyDescr", with(dict("", "(1,)")), {"\"\"", "cannot be read"}},
      {"OnlyByteOrder", with(dict("<", "(1,)")), {"\"<\"", "cannot be read"}},
  };
}

class MalformedNpy : public testing::TestWithParam<Case> {};

TEST_P(MalformedNpy, IsRefused) {
  std::vector<std::string> words = GetParam().words;
  words.push_back("x.npy");
  expect_error([&] { load(GetParam().bytes); }, words);
}

INSTANTIATE_TEST_SUITE_P(Cases, MalformedNpy, testing::ValuesIn(malformed()),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(Npy, ReadsEveryVersion) {
  const std::string header = dict("<i2", "(2,)");
  const std::string data = raw(std::int16_t{7}) + raw(std::int16_t{-8});
  const std::string length = raw(static_cast<std::uint32_t>(header.size()));
  EXPECT_EQ(values<std::int16_t>(load(file_of(header, data))), (std::vector<std::int16_t>{7, -8}));
  for (const char major : {'\2', '\3'}) {
    const Tensor tensor = load(magic + major + '\0' + length + header + data);
    EXPECT_EQ(values<std::int16_t>(tensor), (std::vector<std::int16_t>{7, -8}));
  }
}

TEST(Npy, ReadsAnySpellingOfTheDict) {
  const std::string data = raw(1.0f) + raw(2.0f);
  for (const char* header : {"{'descr':'<f4','fortran_order':False,'shape':(2,)}",
                             "{\"shape\": ( 2 , 1 ), 'fortran_order' :False , \"descr\": \"<f4\"}   \n",
                             "{'shape': (2L, 1L,), 'fortran_order': False, 'descr': '=f4'}"}) {
    EXPECT_EQ(values<float>(load(file_of(header, data))), (std::vector<float>{1, 2})) << header;
  }
}

TEST(Npy, HonoursFortranOrder) {
  std::string data;
  for (std::int32_t i = 0; i < 24; ++i) data += raw(i);
  const Tensor tensor = load(file_of(dict("<i4", "(2, 3, 4)", "True"), data));
  ASSERT_EQ(tensor.shape(), (Shape{2, 3, 4}));
  for (std::int32_t i = 0; i < 2; ++i) {
    for (std::int32_t j = 0; j < 3; ++j) {
      for (std::int32_t k = 0; k < 4; ++k) {
        EXPECT_EQ(tensor.values<std::int32_t>()[static_cast<std::size_t>((i * 3 + j) * 4 + k)], i + 2 * (j + 3 * k));
      }
    }
  }
}

TEST(Npy, HonoursByteOrder) {
  EXPECT_EQ(values<std::uint16_t>(load(file_of(dict(">u2", "(2,)"), "\x01\x02\x03\x04"))),
            (std::vector<std::uint16_t>{0x0102, 0x0304}));
  EXPECT_EQ(values<double>(load(file_of(dict(">f8", "()"), std::string("\xbf\xf8\0\0\0\0\0\0", 8)))),
            std::vector<double>{-1.5});
  EXPECT_EQ(values<std::uint16_t>(load(file_of(dict(">u2", "(1, 2)", "True"), "\x01\x02\x03\x04"))),
            (std::vector<std::uint16_t>{0x0102, 0x0304}));
  EXPECT_EQ(values<std::int8_t>(load(file_of(dict("|i1", "(2,)"), "\x01\xff"))), (std::vector<std::int8_t>{1, -1}));
}

TEST(Npy, ReadsScalarsAndEmptyArrays) {
  EXPECT_EQ(load(file_of(dict("<f4", "()"), raw(3.0f))).shape(), Shape{});
  EXPECT_EQ(load(file_of(dict("<f4", "(0,)"))).shape(), (Shape{0}));
  EXPECT_EQ(load(file_of(dict("<f4", "(3, 0)", "True"))).shape(), (Shape{3, 0}));
}

TEST(Npy, RoundTripsEveryDtypeNumPyHas) {
  const TemporaryDirectory dir;
  for (int i = 0; i <= static_cast<int>(DType::f64); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype == DType::bf16) continue;
    Tensor tensor({2, 3}, dtype);
    for (std::size_t b = 0; b < tensor.bytes(); ++b) {
      static_cast<std::byte*>(tensor.raw())[b] = dtype == DType::boolean ? std::byte(b % 2) : std::byte(b * 37 + 1);
    }
    save_npy(dir / "t.npy", tensor);
    const Tensor again = load_npy(dir / "t.npy");
    EXPECT_EQ(again.dtype(), dtype);
    EXPECT_EQ(again.shape(), tensor.shape());
    EXPECT_EQ(std::memcmp(again.raw(), tensor.raw(), tensor.bytes()), 0) << dtype;
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  const TemporaryDirectory dir;
  const auto header_of = [&](const Shape& shape) {
    save_npy(dir / "t.npy", Tensor::zeros(shape, DType::f32));
    const std::string bytes = read_file(dir / "t.npy");
    EXPECT_EQ(bytes.substr(0, 8), magic + std::string("\1\0", 2));
    std::uint16_t length = 0;
    std::memcpy(&length, bytes.data() + 8, 2);
    EXPECT_EQ((10u + length) % 64, 0u);
    EXPECT_EQ(bytes.size(), 10u + length + static_cast<std::size_t>(shape.numel()) * 4);
    const std::string header = bytes.substr(10, length);
    EXPECT_EQ(header.back(), '\n');
    return header.substr(0, header.find('}') + 1);
  };
  EXPECT_EQ(header_of({}), "{'descr': '<f4', 'fortran_order': False, 'shape': (), }");
  EXPECT_EQ(header_of({3}), "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }");
  EXPECT_EQ(header_of({3, 4}), "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }");
}

TEST(Npy, AFailedSaveLeavesTheOldFile) {
  const TemporaryDirectory dir;
  write_file(dir / "t.npy", "old");
  expect_error([&] { save_npy(dir / "t.npy", Tensor::zeros({1}, DType::bf16)); }, {"t.npy", "bf16", "f32"});
  expect_error([&] { save_npy(dir / "t.npy", Tensor()); }, {"t.npy", "undefined"});
  expect_error([&] { save_npy(dir / "no/t.npy", Tensor::zeros({1})); }, {"no/t.npy", "there is no folder"});
  EXPECT_EQ(read_file(dir / "t.npy"), "old");
  EXPECT_EQ(dir.listing(), std::vector<std::string>{"t.npy"});
}

TEST(Npy, DamagedFilesLoadOrThrow) {
  std::string data;
  for (int i = 0; i < 6; ++i) data += raw(static_cast<float>(i));
  fuzz(file_of(dict("<f4", "(2, 3)", "True"), data), [](const std::filesystem::path& path) { load_npy(path); });
}

TEST(Npy, AreTheSameInEveryLocale) {
  const TemporaryDirectory dir;
  const Tensor tensor = Tensor::zeros({1234, 2});
  save_npy(dir / "plain", tensor);
  const GermanNumbers german;
  save_npy(dir / "german", tensor);
  EXPECT_TRUE(read_file(dir / "german") == read_file(dir / "plain"));
  EXPECT_EQ(load_npy(dir / "german").shape(), (Shape{1234, 2}));
}

}  // namespace
}  // namespace lamina::test::npy_test
