// Every way a safetensors file can be wrong, one case each.

#include <ostream>

#include "files/safetensors_file.h"
#include "lamina/files/weights.h"
#include "support/file_test.h"

namespace lamina::test::safetensors_malformed_test {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

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
    return safetensors_file('{' + safetensors_entry("t", dtype, shape, offsets) + '}', data);
  };
  const auto two = [&](const char* a, const char* a_shape, const char* a_offsets, const char* b, const char* b_shape,
                       const char* b_offsets) {
    return safetensors_file('{' + safetensors_entry(a, "U8", a_shape, a_offsets) + ',' +
                                safetensors_entry(b, "U8", b_shape, b_offsets) + '}',
                            four);
  };
  return {
      {"SevenBytes", std::string(7, '\0'), {"8 bytes", "file of 7"}},
      {"HeaderOfNothing", safetensors_file(""), {"begin with '{'", "nothing"}},
      {"HeaderPastTheEndLikeAPickle", raw(std::uint64_t{0x480}) + "{}", {"1152 bytes", "past the end", "10"}},
      {"HeaderLengthOverLimit", raw(std::uint64_t{100'000'001}) + "{}", {"100000000", "100000001"}},
      {"HtmlPage",
       "<!DOCTYPE html><html></html>",
       {"not a safetensors, .onnx, .npy or .pth file: this is an HTML page"}},
      {"Hdf5", "\x89HDF\r\n\x1a\nand so on", {"not a safetensors, .onnx, .npy or .pth file: this is an HDF5 file"}},
      {"Text", "Not found: no such model\n", {"this is a text"}},
      {"NotAWeightFile", "\x91\x92 something or other", {"not a safetensors, .onnx, .npy or .pth file"}},
      {"GitLfsPointer", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", {"Git LFS", "git lfs pull"}},
      {"BadJson", safetensors_file("{\"t\":"), {"not valid JSON"}},
      {"TextAfterJson", safetensors_file("{} x"), {"not valid JSON"}},
      {"NullPadding", safetensors_file(std::string("{}\0", 3)), {"not valid JSON"}},
      {"TextBehindANull", safetensors_file(std::string("{}\0, x", 6)), {"not valid JSON"}},
      {"BadUtf8InName",
       safetensors_file('{' + safetensors_entry("\xff\xfe", "F32", "[1]", "[0,4]") + '}', four),
       {"UTF-8"}},
      {"BadUtf8InMetadata", safetensors_file("{\"__metadata__\":{\"a\":\"\xc3\"}}"), {"UTF-8"}},
      {"ArrayAtTop", safetensors_file("[]"), {"begin with '{'", "[]"}},
      {"SpaceBeforeHeader", safetensors_file(" {}"), {"begin with '{'"}},
      {"NumberForTensor", safetensors_file(R"({"t":1})"), {"expected an object", "\"t\"", "1"}},
      {"NullForTensor", safetensors_file(R"({"t":null})"), {"expected an object", "null"}},
      {"ArrayForTensor", safetensors_file(R"({"t":[]})"), {"expected an object", "an array"}},
      {"DuplicateTensor", two("t", "[4]", "[0,4]", "t", "[4]", "[0,4]"), {"duplicate key", "\"t\""}},
      {"DuplicateEscapedTensor", two("t", "[4]", "[0,4]", "\\u0074", "[4]", "[0,4]"), {"duplicate key", "\"t\""}},
      {"DuplicateDtype",
       safetensors_file(R"({"t":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", four),
       {"duplicate key", "dtype", "\"t\""}},
      {"DuplicateShape",
       safetensors_file(R"({"t":{"dtype":"U8","shape":[4],"shape":[4],"data_offsets":[0,4]}})", four),
       {"duplicate key", "shape"}},
      {"DuplicateMetadataKey", safetensors_file(R"({"__metadata__":{"a":"1","a":"1"}})"), {"duplicate key", "\"a\""}},
      {"DuplicateMetadata",
       safetensors_file(R"({"__metadata__":{},"__metadata__":{}})"),
       {"duplicate key", "__metadata__"}},
      {"MetadataNumber",
       safetensors_file(R"({"__metadata__":{"a":1}})"),
       {"__metadata__", "expected a string", "\"a\"", "1"}},
      {"MetadataNull",
       safetensors_file(R"({"__metadata__":{"a":null}})"),
       {"__metadata__", "expected a string", "null"}},
      {"MetadataNested",
       safetensors_file(R"({"__metadata__":{"a":{}}})"),
       {"__metadata__", "expected a string", "an object"}},
      {"MetadataArray", safetensors_file(R"({"__metadata__":{"a":["x"]}})"), {"__metadata__", "expected a string"}},
      {"MetadataNotAnObject", safetensors_file(R"({"__metadata__":"x"})"), {"__metadata__", "expected an object"}},
      {"MetadataIsNull", safetensors_file(R"({"__metadata__":null})"), {"__metadata__", "expected an object"}},
      {"NoDtype", safetensors_file(R"({"t":{"shape":[4],"data_offsets":[0,4]}})", four), {"\"t\"", "no dtype"}},
      {"NoShape", safetensors_file(R"({"t":{"dtype":"U8","data_offsets":[0,4]}})", four), {"\"t\"", "no shape"}},
      {"NoOffsets", safetensors_file(R"({"t":{"dtype":"U8","shape":[4]}})", four), {"\"t\"", "no data_offsets"}},
      {"DtypeNumber",
       safetensors_file(R"({"t":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", four),
       {"\"t\"", "expected a string", "dtype", "8"}},
      {"DtypeArray",
       safetensors_file(R"({"t":{"dtype":["U8"],"shape":[4],"data_offsets":[0,4]}})", four),
       {"\"t\"", "dtype"}},
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
      {"Hole", two("a", "[1]", "[0,1]", "b", "[2]", "[2,4]"), {"\"b\"", "begin at byte 1", "got 2", "hole"}},
      {"Overlap", two("a", "[3]", "[0,3]", "b", "[2]", "[2,4]"), {"\"b\"", "begin at byte 3", "got 2", "overlap"}},
      {"SameBytesTwice", two("a", "[4]", "[0,4]", "b", "[4]", "[0,4]"), {"overlap"}},
      {"EmptyInsideAnother", two("a", "[4]", "[0,4]", "b", "[0]", "[2,2]"), {"\"b\"", "overlap"}},
      {"TrailingBytes", one("U8", "[3]", "[0,3]"), {"end at byte 3", "1 trailing"}},
      {"DataWithoutTensors", safetensors_file("{}", four), {"4 trailing"}},
      {"Truncated", one("F32", "[1]", "[0,4]", "ddd"), {"\"t\"", "past the end", "truncated"}},
      {"DeepNestingInShape", one("U8", nested(1'000'000), "[0,4]"), {"\"t\"", "shape", "an array"}},
      {"DeepNestingAtTop", safetensors_file("{\"a\":" + nested(1'000'000) + '}'), {"expected an object", "an array"}},
      {"DeepNestingUnclosed", safetensors_file("{\"a\":{\"x\":" + std::string(1'000'000, '[')), {"not valid JSON"}},
  };
}

class MalformedSafetensors : public testing::TestWithParam<Case> {};

TEST_P(MalformedSafetensors, IsRefused) {
  std::vector<std::string> words = GetParam().words;
  words.push_back("x.safetensors");
  expect_error([&] { open_safetensors(GetParam().bytes); }, words);
}

INSTANTIATE_TEST_SUITE_P(Cases, MalformedSafetensors, testing::ValuesIn(malformed()),
                         [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace lamina::test::safetensors_malformed_test
