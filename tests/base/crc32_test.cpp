#include "lamina/base/crc32.h"

#include "support/file_test.h"

namespace lamina::test::crc32_test {
namespace {

TEST(Crc32, OfTheUsualText) {
  EXPECT_EQ(detail::crc32({}), 0u);
  EXPECT_EQ(detail::crc32(as_bytes("123456789")), 0xcbf43926u);
}

TEST(Crc32, OfEveryLengthAndAlignment) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += static_cast<char>(i * 37 + 11);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    std::uint32_t expected = 0xffffffff;  // bit by bit
    for (std::size_t end = begin; end < text.size(); ++end) {
      EXPECT_EQ(detail::crc32(as_bytes(std::string_view(text).substr(begin, end - begin))), ~expected);
      expected ^= static_cast<unsigned char>(text[end]);
      for (int bit = 0; bit < 8; ++bit) expected = expected >> 1 ^ ((expected & 1) != 0 ? 0xedb88320u : 0u);
    }
  }
}

}  // namespace
}  // namespace lamina::test::crc32_test
