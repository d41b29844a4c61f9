#include "lamina/base/error.h"

#include <gtest/gtest.h>

#include "lamina/base/text_table.h"
#include "lamina/tensor/format.h"
#include "lamina/tensor/shape.h"
#include "support/german.h"

namespace lamina::test::error_test {
namespace {

TEST(Concat, JoinsTextsNumbersAndWhatStreams) {
  EXPECT_EQ(detail::concat("a", 'b', std::string("c"), std::string_view("d"), -1, 2u, std::size_t{3}, true),
            "abcd-1231");
  EXPECT_EQ(detail::concat(0.5, ' ', 1e-30f, ' ', 1234567.0, ' ', 1e300, ' ', 1.0 / 3),
            "0.5 1e-30 1.23457e+06 1e+300 0.333333");
  EXPECT_EQ(detail::concat(std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::uint64_t>::max()),
            "-922337203685477580818446744073709551615");
  EXPECT_EQ(detail::concat(DType::bf16, ' ', Shape{batch, 3, 1234}), "bf16 [N, 3, 1234]");
  EXPECT_EQ(detail::concat(), "");
}

TEST(Concat, TheLocaleOfTheProgramHasNoSay) {
  const GermanNumbers german;
  EXPECT_EQ(detail::concat(1234567, ' ', 1234.5, ' ', Shape{1234}), "1234567 1234.5 [1234]");
  EXPECT_EQ(detail::format_fixed(1234.56, 1), "1234.6");
  EXPECT_EQ(detail::format_bytes(1'234'567), "1.23 MB");
  EXPECT_EQ(Shape({1234, 5}).to_string(), "[1234, 5]");
  detail::TextTable table({"name", "count"});
  table.add({"a", "1234"});
  EXPECT_EQ(table.to_string(), "name  count\n----  -----\na      1234\n");
}

}  // namespace
}  // namespace lamina::test::error_test
