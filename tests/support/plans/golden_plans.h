#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/file_test.h"
#include "support/plans/folded_plan.h"
#include "support/plans/structure.h"

/// Plans of networks of other people's, for devices that need not be there: golden/structures has the networks,
/// golden/structures/plans what becomes of them, all devices of a network in one file.
namespace lamina::test {

/// Kernels that a plan names otherwise than when its golden was written: {then, now}. For a merge, which leaves plans
/// as they are but for names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 0> renamed_kernels{};

inline bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0' && *value != '0';
}

constexpr std::string_view structures[] = {
    "mobilenet_v2",       "mobilenet_v3_large",      "efficientnet_b0", "mnasnet1_0",       "resnet50",
    "resnext50_32x4d",    "regnet_y_400mf",          "densenet121",     "googlenet",        "squeezenet1_1",
    "shufflenet_v2_x1_0", "convnext_tiny",           "vit_b_16",        "swin_t",           "regnet_y_1_6gf",
    "deeplabv3_resnet50", "mobilenetv4_conv_medium", "skresnet18",      "focalnet_tiny_srf"};

/// A plan that a file has a section for.
struct PlannedCase {
  std::string device;  // what the section calls it
  DeviceDescription description;
  Precision precision = Precision::fp32;
  std::int64_t batch = 1;

  std::string title() const { return device + ' ' + std::string(name(precision)) + ' ' + std::to_string(batch); }
};

inline std::string folded_plan(const Graph& graph, const PlannedCase& c) {
  const int threads = c.description.device.is_cpu() ? 4 : 0;
  return folded(steps_of(graph.plan_summary({.device = c.description.device,
                                             .batch = c.batch,
                                             .precision = c.precision,
                                             .threads = threads,
                                             .description = c.description})));
}

/// The text under each line "# TITLE"; "= TITLE" stands for another's.
inline std::map<std::string, std::string> sections_of(const std::string& text) {
  std::map<std::string, std::string> result;
  std::string* section = nullptr;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ")) {
      section = &result[line.substr(2)];
    } else if (section != nullptr) {
      *section += line.starts_with("= ") ? result[line.substr(2)] : line + '\n';
    }
  }
  return result;
}

inline std::string text_of(const std::map<std::string, std::string>& sections) {
  std::map<std::string, std::string> known;  // title by text
  std::string result;
  for (const auto& [title, text] : sections) {
    const auto [found, fresh] = known.emplace(text, title);
    result += "# " + title + '\n' + (fresh ? text : "= " + found->second + '\n');
  }
  return result;
}

inline std::string with_names_of_today(std::string text) {
  for (const auto& [then, now] : renamed_kernels) {
    for (std::size_t at = 0; (at = text.find(then, at)) != std::string::npos; at += now.size()) {
      text.replace(at, then.size(), now);
    }
  }
  return text;
}

inline std::filesystem::path golden_plans_of(const std::string& network) {
  return std::filesystem::path(LAMINA_TEST_DATA) / "golden" / "structures" / "plans" / (network + ".txt");
}

/// Whether a golden has a plan of that title.
inline bool is_recorded(const std::string& network, const std::string& title) {
  return sections_of(read_file(golden_plans_of(network))).contains(title);
}

/// Compares the cases with golden/structures/plans/<network>.txt, or with LAMINA_UPDATE_GOLDEN=1 writes their sections.
/// A plan packs every weight, up to a second each: without LAMINA_TEST_LONG=1 the cases of `brief` alone are looked at.
inline void check_plans(const std::string& network, const std::vector<PlannedCase>& cases,
                        const std::vector<std::size_t>& brief) {
  const std::filesystem::path path = golden_plans_of(network);
  const bool update = is_set("LAMINA_UPDATE_GOLDEN");
  ASSERT_TRUE(update || std::filesystem::exists(path)) << path << ": LAMINA_UPDATE_GOLDEN=1 writes it";
  std::map<std::string, std::string> sections;
  if (std::filesystem::exists(path)) sections = sections_of(read_file(path));
  const Graph graph = structured_network(network);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!update && !is_set("LAMINA_TEST_LONG") && std::ranges::find(brief, i) == brief.end()) continue;
    std::string& golden = sections[cases[i].title()];
    const std::string plan = folded_plan(graph, cases[i]);
    if (update) {
      golden = plan;
    } else {
      EXPECT_EQ(plan, with_names_of_today(golden)) << path << ", " << cases[i].title();
    }
  }
  if (!update) return;
  std::filesystem::create_directories(path.parent_path());
  write_file(path, text_of(sections));
}

}  // namespace lamina::test
