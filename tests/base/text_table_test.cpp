#include "lamina/base/text_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace lamina::detail::text_table_test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(TextTable, AlignsNumbersRightAndWordsLeft) {
  TextTable table({"name", "count"});
  table.add({"a", "7"});
  table.add({"long name", "1,234"});
  table.add_total({"total", "1,241"});
  EXPECT_EQ(table.to_string(),
            "name       count\n"
            "---------  -----\n"
            "a              7\n"
            "long name  1,234\n"
            "---------  -----\n"
            "total      1,241\n");
}

TEST(TextTable, WrapsOneColumnWhereLinesWouldBeTooLong) {
  const std::string narrow(60, 'x');
  std::string words;
  for (int i = 0; i < 20; ++i) words += (i == 0 ? "word" : " word") + std::to_string(i);
  TextTable table({"step", "kernel", "ms"});
  table.wrap({1});
  table.add({narrow, words, "1.5"});
  table.add({"b", "short", "2.5"});
  const std::vector<std::string> lines = lines_of(table.to_string());
  ASSERT_EQ(lines.size(), 6u);  // 128 letters in the 53 that are left are three lines
  for (const std::string& line : lines) EXPECT_LE(line.size(), TextTable::terminal_width);
  EXPECT_EQ(lines[2].substr(0, 68), narrow + "  word0 ");
  EXPECT_EQ(lines[2].substr(lines[2].size() - 3), "1.5") << "numbers stand in the first line";
  EXPECT_EQ(lines[3].find_first_not_of(' '), 62u) << "and the rest under the beginning";
  std::string joined;
  for (int i = 2; i < 5; ++i) {
    std::istringstream rest(lines[static_cast<std::size_t>(i)].substr(62, 53));
    for (std::string word; rest >> word;) joined += (joined.empty() ? "" : " ") + word;
  }
  EXPECT_EQ(joined, words);
}

TEST(TextTable, TakesFromTheWidestOfSeveralColumns) {
  std::string words;
  for (int i = 0; i < 30; ++i) words += i == 0 ? "word" : " word";  // 149 letters
  TextTable table({"step", "kernel", "fused"});
  table.wrap({1, 2});
  table.add({"a", words, "first, second"});
  const std::vector<std::string> lines = lines_of(table.to_string());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[2].size(), TextTable::terminal_width);
  EXPECT_NE(lines[2].find("first, second"), std::string::npos) << "the narrow one stays as it is";
}

TEST(TextTable, KeepsAColumnThatFitsInOneLine) {
  TextTable table({"step", "kernel"});
  table.wrap({1});
  table.add({"a", "some words"});
  EXPECT_EQ(lines_of(table.to_string()).size(), 3u);
}

TEST(TextTable, PutsNotesBelowTheirRow) {
  TextTable table({"N", "ms"});
  table.add({"1", "0.5"}, "a kernel");
  table.add({"2", "0.7"});
  EXPECT_EQ(table.to_string(),
            "N   ms\n"
            "-  ---\n"
            "1  0.5\n"
            "   a kernel\n"
            "2  0.7\n");
}

TEST(Wrapped, BreaksBetweenWordsOnly) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("", 10), Lines{""});
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("unbreakable a", 4), (Lines{"unbreakable", "a"}));
}

}  // namespace
}  // namespace lamina::detail::text_table_test
