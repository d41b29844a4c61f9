#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lamina/graph/graph.h"

namespace lamina::test {

/// A step of `Graph::plan_summary`: names without their numbers, so that alike steps read the same.
struct PlannedStep {
  std::string ops;     // "Conv + Clip + Add"
  std::string format;  // "f16 nhwc"
  std::string kernel;  // its description, in one line
};

/// Words of `text` with single spaces between.
inline std::string single_spaced(const std::string& text) {
  std::istringstream words(text);
  std::string result;
  for (std::string word; words >> word;) result += (result.empty() ? "" : " ") + word;
  return result;
}

/// "Conv_12, Clip_13" as "Conv + Clip".
inline std::string without_numbers(const std::string& names) {
  std::string result;
  std::istringstream words(names);
  for (std::string word; words >> word;) {
    word = word.substr(0, word.find_last_not_of("0123456789,_") + 1);
    result += (result.empty() ? "" : " + ") + word;
  }
  return result;
}

/// The table that a summary is. What begins its line is a step; further lines are more of what is fused, or, indented
/// by three, the kernel's description.
inline std::vector<PlannedStep> steps_of(const std::string& summary) {
  std::vector<std::pair<std::size_t, std::size_t>> columns;  // where each begins, and how wide it is
  std::vector<PlannedStep> steps;
  std::vector<std::string> fused;
  std::istringstream lines(summary);
  const auto cell = [&](const std::string& line, std::size_t column) {
    const auto [at, width] = columns[column];
    return at < line.size() ? single_spaced(line.substr(at, width)) : std::string();
  };
  for (std::string line; std::getline(lines, line);) {
    if (columns.empty()) {
      if (!line.starts_with("----")) continue;
      for (std::size_t at = 0; at < line.size();) {
        const std::size_t end = std::min(line.find(' ', at), line.size());
        columns.emplace_back(at, end - at);
        at = line.find_first_not_of(' ', end);
      }
    } else if (line.starts_with("on ")) {
      break;
    } else if (!line.starts_with(' ')) {
      steps.push_back({.ops = cell(line, 0), .format = cell(line, 3), .kernel = {}});
      fused.push_back(cell(line, 1));
    } else if (line.starts_with("   ") && line.size() > 3 && line[3] != ' ') {
      steps.back().kernel = single_spaced(steps.back().kernel + ' ' + line);
    } else {
      fused.back() += ' ' + cell(line, 1);
    }
  }
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].ops = without_numbers(steps[i].ops + ' ' + fused[i]);
  return steps;
}

/// A kernel's description without what every one says: "mma (fp16): 64 filters x 48 pixels per block, 49 KB shared
/// memory" as "mma (fp16): 64 48, 49".
inline std::string in_short(const std::string& description) {
  const std::set<std::string> usual = {"a",      "and",     "block",  "blocks",  "by",   "bytes",  "channels",
                                       "each",   "filters", "in",     "K",       "KB",   "memory", "of",
                                       "over",   "per",     "pixels", "shared",  "so",   "steps",  "to",
                                       "thread", "that",    "the",    "weights", "with", "x"};
  std::string result;
  std::istringstream words(description);
  for (std::string word; words >> word;) {
    const bool last = word.ends_with(',');
    if (usual.contains(last ? word.substr(0, word.size() - 1) : word)) {
      if (last && !result.ends_with(',')) result += ',';
    } else {
      result += (result.empty() ? "" : " ") + word;
    }
  }
  return result;
}

/// A line for each kind of step, in the order of their first, and how many there are of it.
inline std::string folded(const std::vector<PlannedStep>& steps) {
  std::vector<std::pair<std::string, int>> kinds;
  std::map<std::string, std::size_t> known;
  for (const PlannedStep& step : steps) {
    const std::string text =
        step.ops + " | " + step.format + (step.kernel.empty() ? "" : " | " + in_short(step.kernel));
    const auto [found, fresh] = known.emplace(text, kinds.size());
    if (fresh) kinds.emplace_back(text, 0);
    ++kinds[found->second].second;
  }
  std::string result = std::to_string(steps.size()) + " steps\n";
  for (const auto& [text, count] : kinds) result += std::to_string(count) + " x " + text + '\n';
  return result;
}

}  // namespace lamina::test
