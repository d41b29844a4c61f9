#include "lamina/base/error.h"

#include <gtest/gtest.h>

#include <exception>
#include <new>
#include <stdexcept>

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

/// What at_node makes of it: the kind, the words, and the words of what is kept within.
template <class Thrown>
std::string at_nodes(const Thrown& thrown) {
  try {
    detail::at_node("outer", [&] { detail::at_node("inner", [&] { throw thrown; }); });
  } catch (const Error& error) {
    const std::string said = detail::concat(static_cast<int>(error.kind()), ' ', error.what());
    try {
      std::rethrow_if_nested(error);
      return said;
    } catch (const std::exception& kept) {
      return detail::concat(said, " <- ", kept.what());
    } catch (int kept) {
      return detail::concat(said, " <- ", kept);
    }
  }
  return "no Error";
}

TEST(AtNode, NamesWhatIsThrownAndKeepsItsKind) {
  EXPECT_EQ(at_nodes(Error("wrong")), "1 outer: inner: wrong");
  EXPECT_EQ(at_nodes(Error("none", ErrorKind::no_such_file)), "4 outer: inner: none");
  EXPECT_EQ(at_nodes(std::bad_alloc()), "2 outer: inner: out of memory");
  EXPECT_EQ(at_nodes(std::out_of_range("at\x1b(7)")), "7 outer: inner: at\\x1b(7) <- at\x1b(7)");
  const auto stop = [] { throw Stopped("run: stopped"); };
  EXPECT_EQ(at_nodes(7), "7 outer: inner: threw what is no std::exception <- 7");
  EXPECT_THROW(detail::at_node("node", stop), Stopped);
  const auto ask = [] { throw UnboundInputs("unknown", {"x"}); };
  EXPECT_THROW(detail::at_node("node", ask), UnboundInputs);
}

}  // namespace
}  // namespace lamina::test::error_test
