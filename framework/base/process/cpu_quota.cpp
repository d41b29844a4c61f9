#include "lamina/base/process/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace lamina::detail {
namespace {

namespace fs = std::filesystem;

/// The processors that one group allows: "200000 100000" of cpu.max is two; "max" and -1 are no limit.
std::optional<double> quota_of(const fs::path& group, bool second_version) {
  double quota = 0, period = 0;
  if (second_version) {
    std::ifstream(group / "cpu.max") >> quota >> period;
  } else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  if (quota > 0 && period > 0) return quota / period;
  return std::nullopt;
}

bool lists_cpu(std::string_view controllers) {
  for (std::size_t end = 0; end != std::string_view::npos; controllers.remove_prefix(end + 1)) {
    end = controllers.find(',');
    if (controllers.substr(0, end) == "cpu") return true;
    if (end == std::string_view::npos) break;
  }
  return false;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) try {
  std::optional<double> least;
  std::ifstream groups(root / "proc/self/cgroup");
  // A line is HIERARCHY:CONTROLLERS:PATH; version 2 names no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (!controllers.empty() && !lists_cpu(controllers)) continue;
    const fs::path mount = root / (controllers.empty() ? "sys/fs/cgroup" : "sys/fs/cgroup/cpu");
    // In a container the path may be the host's, of which only the mount's own directory is here: look at them all.
    for (fs::path path = fs::path(line.substr(second + 1)).relative_path();; path = path.parent_path()) {
      if (const auto quota = quota_of(mount / path, controllers.empty())) {
        least = std::min(least.value_or(*quota), *quota);
      }
      if (path.empty()) break;
    }
  }
  return least;
} catch (const std::exception&) {  // no memory, or a path that is none
  return std::nullopt;
}

}  // namespace lamina::detail
