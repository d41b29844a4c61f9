#pragma once

#include <filesystem>
#include <optional>

namespace lamina::detail {

/// How many processors' time the control groups of this process allow it, the least of its group's and of those around
/// it: version 2's `cpu.max`, version 1's `cpu.cfs_quota_us`. Nothing where there is no limit or none that can be read.
/// `root` is where /proc and /sys/fs/cgroup are.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace lamina::detail
