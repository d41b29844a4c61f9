#include "lamina/base/names.h"

#include <chrono>

#include "lamina/base/content.h"
#include "lamina/base/text_table.h"
#include "support/file_test.h"

namespace lamina::test::names_test {
namespace {

using Names = std::vector<std::string>;

TEST(Names, QuoteEscapes) { EXPECT_EQ(detail::quote("a\"b\\c\x1b[2J\n"), "\"a\\\"b\\\\c\\x1b[2J\\x0a\""); }

TEST(Names, QuoteTamesControlCharactersAndLength) {
  EXPECT_EQ(detail::quote("a.b"), "\"a.b\"");
  EXPECT_EQ(detail::quote("a\x1b[31m\n\"\\"), "\"a\\x1b[31m\\x0a\\\"\\\\\"");
  EXPECT_LT(detail::quote(std::string(100'000, 'x')).size(), 300u);
}

TEST(Names, PrintableEscapesControlCharactersAlone) {
  EXPECT_EQ(detail::printable("Gr\u00f6\u00dfe \"\\\" 写真"), "Gr\u00f6\u00dfe \"\\\" 写真");
  EXPECT_EQ(detail::printable("\x1b]52;c;x\x07 \t\r\n\x7f"), "\\x1b]52;c;x\\x07 \\x09\\x0d\\x0a\\x7f");
  EXPECT_EQ(detail::printable("a\nb", detail::LineEnds::kept), "a\nb");
  EXPECT_EQ(detail::printable("\xc2\x9b"
                              "31m \xc2\xa9"),
            "\\xc2\\x9b31m \xc2\xa9");  // U+009B, and a letter
}

TEST(Names, ErrorsAndTablesDriveNoTerminal) {
  expect_error([] { detail::fail("tensor \x1b[31mred: bad\nsecond line"); }, {"tensor \\x1b[31mred: bad\nsecond"});
  detail::TextTable table({"name"});
  table.add({"\x1b[31mred"});
  EXPECT_EQ(table.to_string(), "name\n-----------\n\\x1b[31mred\n");
}

TEST(Names, NearestFirst) {
  const Names names = {"features.0.bias", "features.3.weight", "classifier.1.weight", "features.0.weight"};
  EXPECT_EQ(detail::nearest_names("features.0.wieght", names, 2), (Names{"features.0.weight", "features.3.weight"}));
  EXPECT_EQ(detail::nearest_names("x", {}, 2), Names{});
}

TEST(Names, NearestByEditDistance) {
  const Names names = {"conv1.weight", "conv1.bias", "conv2.weight", "fc.weight"};
  EXPECT_EQ(detail::nearest_names("conv2.weights", names, 2), (Names{"conv2.weight", "conv1.weight"}));
  EXPECT_EQ(detail::nearest_names("conv1.bias", names, 1), Names{"conv1.bias"});
  EXPECT_EQ(detail::nearest_names("", names, 9).size(), 4u);
  EXPECT_TRUE(detail::nearest_names("x", {}, 3).empty());
  const Names exported = {"/layer2/Add", "layer.1", "/layer3/layer3.0/Relu_output_0"};
  EXPECT_EQ(detail::nearest_names("layer3", exported, 1), Names{exported[2]});
}

TEST(Names, NearestAsTheEndOfAMessage) {
  const Names names = {"conv1.weight", "a \"b\""};
  EXPECT_EQ(detail::nearest_text("conv1.weigth", names), "; nearest: \"conv1.weight\"");
  EXPECT_EQ(detail::nearest_text("foo", names), "; there are \"conv1.weight\", \"a \\\"b\\\"\"");
  EXPECT_EQ(detail::nearest_text("weight", names), "; nearest: \"conv1.weight\"");  // part of one, if far
  EXPECT_EQ(detail::nearest_text("zzzz", Names{"a", "b", "c", "d", "e"}), "; there are \"a\", \"b\", \"c\" and 2 more");
  EXPECT_EQ(detail::nearest_text("x", {}), "; there are none");
}

TEST(Names, NearestOfLongNamesIsQuick) {
  Names names;
  for (int i = 0; i < 1000; ++i) {
    names.push_back("a" + std::to_string(i) + std::string(200, 'x') + std::to_string(i * 7919) + std::string(200, 'z'));
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    (void)detail::nearest_names("b" + std::to_string(i) + std::string(400, 'y') + std::to_string(i), names);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Content, NamesWhatAFileIs) {
  const auto name = [](std::string_view text) { return detail::content_of(as_bytes(text)).name; };
  EXPECT_EQ(name("\n <!DOCTYPE HTML><html>"), "an HTML page");
  EXPECT_EQ(name("<html>"), "an HTML page");
  EXPECT_EQ(name(std::string_view("\0\0\0\x18"
                                  "ftypheic",
                                  12)),
            "a HEIC image");
  EXPECT_EQ(name("RIFF1234WEBPVP8 "), "a WebP image");
  EXPECT_EQ(name("\x89HDF\r\n\x1a\n"), "an HDF5 file, as Keras writes them");
  EXPECT_EQ(name("version https://git-lfs.github.com/spec/v1"), "a Git LFS pointer, not the file it stands for");
  EXPECT_EQ(name("{\"error\": 404}"), "JSON text");
  EXPECT_EQ(name("Not Found"), "a text");
  EXPECT_EQ(name(std::string_view("\1\2\3\4", 4)), "");
  EXPECT_EQ(name(std::string(5000, '\0')), "a file of zero bytes alone");
  EXPECT_EQ(name(std::string(16, '\0') + '\1'), "");
  EXPECT_EQ(name(""), "");
}

TEST(Content, SaysWhatWasFound) {
  const auto found = [](std::string_view text) { return detail::found_content(as_bytes(text)); };
  EXPECT_EQ(found("<html>"), ": this is an HTML page; a download may have gone wrong");
  EXPECT_EQ(found("\1\"a"), "; the file starts with \"\\x01\\x22a\"");
}

}  // namespace
}  // namespace lamina::test::names_test
