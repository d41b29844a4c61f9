#include "bench/report.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lamina/base/text_table.h"

namespace lamina::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t terminal_width = 120;

std::string percent(double part, double whole) { return whole > 0 ? fmt::format("{:.0f}", 100 * part / whole) : ""; }

/// Three digits; never in powers of ten.
std::string short_number(double value) {
  return value < 1000 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

/// "Not run in fp32 at N = 1, 8 (--algorithm NAME says why): lanes, channels_last", a paragraph for each such set;
/// empty where all of them ran.
std::string not_run(const std::vector<BenchResult>& results) {
  std::map<std::pair<std::string, std::int64_t>, std::string> names;  // of a precision and a batch
  for (const BenchResult& r : results) {
    if (r.note.empty() || r.named) continue;
    std::string& list = names[{r.precision, r.batch}];
    list += (list.empty() ? "" : ", ") + r.algorithm;
  }
  std::map<std::pair<std::string, std::string>, std::string> batches;  // of a precision and those names
  for (const auto& [key, list] : names) {
    std::string& text = batches[{key.first, list}];
    text += (text.empty() ? "" : ", ") + std::to_string(key.second);
  }
  std::string text;
  for (const auto& [key, list] : batches) {
    text += '\n';
    const std::string line =
        fmt::format("Not run in {} at N = {} (--algorithm NAME says why): {}", key.first, list, key.second);
    for (const std::string& part : detail::wrapped(line, terminal_width)) text += part + '\n';
  }
  return text;
}

Json to_json(const BenchResult& r) {
  Json json = {{"batch", r.batch}, {"precision", r.precision}, {"output", name(r.output)}, {"algorithm", r.algorithm}};
  if (!r.note.empty()) {
    json["error"] = r.note;
    return json;
  }
  json.update({{"ms", r.time.median},
               {"ms_p10", r.time.p10},
               {"ms_p90", r.time.p90},
               {"samples", r.time.samples},
               {"tflop_per_s", r.tflops},
               {"gb_per_s", r.gb_per_s},
               {"workspace_bytes", r.workspace},
               {"kernel", r.kernel}});
  if (!std::isnan(r.relative_l2)) json.update({{"relative_l2", r.relative_l2}, {"worst_of_bound", r.worst_of_bound}});
  return json;
}

}  // namespace

void print(const std::vector<BenchResult>& results, const Ceilings& ceilings) {
  detail::TextTable table({"N", "precision", "output", "algorithm", "ms", "p10..p90", "TFLOP/s", "GB/s", "% copy",
                           "% GEMM", "workspace", "error", "bound"});
  for (const BenchResult& r : results) {
    if (!r.note.empty() && !r.named) continue;
    std::vector<std::string> row = {std::to_string(r.batch),
                                    r.precision,
                                    std::string(name(r.output)),
                                    r.algorithm,
                                    fmt::format("{:.4f}", r.time.median),
                                    short_number(r.time.p10) + ".." + short_number(r.time.p90),
                                    fmt::format("{:.3f}", r.tflops),
                                    fmt::format("{:.1f}", r.gb_per_s),
                                    percent(r.gb_per_s, ceilings.copy_gb_per_s),
                                    percent(r.tflops, ceilings.gemm_tflop_per_s),
                                    detail::format_bytes(r.workspace),
                                    std::isnan(r.relative_l2) ? "" : fmt::format("{:.1e}", r.relative_l2),
                                    std::isnan(r.worst_of_bound) ? "" : fmt::format("{:.2f}", r.worst_of_bound)};
    if (!r.note.empty()) std::fill(row.begin() + 4, row.end(), "");
    table.add(std::move(row), r.note.empty() ? r.kernel : r.note);
  }
  fmt::print("{}{}", table.to_string(), not_run(results));
}

void write_json(const JsonOutput& output, const std::string& where, const std::vector<BenchResult>& results,
                const Ceilings& ceilings) {
  Json list = Json::array();
  for (const BenchResult& r : results) list.push_back(to_json(r));
  const Json json = {{"lamina", version()},
                     {"device", where},
                     {"copy_gb_per_s", ceilings.copy_gb_per_s},
                     {"gemm_tflop_per_s", ceilings.gemm_tflop_per_s},
                     {"results", std::move(list)}};
  output.write(json);
}

}  // namespace lamina::app
