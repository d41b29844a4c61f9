#include "lamina/base/process/cpu_quota.h"

#include "support/file_test.h"

namespace lamina::detail::cpu_quota_test {
namespace {

/// A root directory with those files.
class Root {
 public:
  Root(std::initializer_list<std::pair<const char*, const char*>> files) {
    for (const auto& [name, text] : files) {
      const std::filesystem::path path = folder_ / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text;
    }
  }

  std::optional<double> quota() const { return cpu_quota(folder_.path()); }

 private:
  test::TemporaryDirectory folder_;
};

constexpr const char* groups = "proc/self/cgroup";

TEST(CpuQuota, OfTheSecondVersionIsTheLeastOfTheGroupsAround) {
  EXPECT_EQ(Root({{groups, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "250000 100000\n"}}).quota(), 2.5);
  EXPECT_EQ(Root({{groups, "0::/a/b\n"},
                  {"sys/fs/cgroup/a/cpu.max", "150000 100000\n"},
                  {"sys/fs/cgroup/a/b/cpu.max", "400000 100000\n"}})
                .quota(),
            1.5);
  EXPECT_EQ(Root({{groups, "0::/a/b\n"},
                  {"sys/fs/cgroup/a/cpu.max", "max 100000\n"},
                  {"sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"}})
                .quota(),
            0.5);
}

TEST(CpuQuota, OfTheFirstVersion) {
  const char* lines = "12:memory:/docker/1f\n4:cpu,cpuacct:/docker/1f\n1:cpuset:/docker/1f\n0::/system.slice\n";
  EXPECT_EQ(Root({{groups, lines},
                  {"sys/fs/cgroup/cpu/docker/1f/cpu.cfs_quota_us", "300000\n"},
                  {"sys/fs/cgroup/cpu/docker/1f/cpu.cfs_period_us", "100000\n"},
                  {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
                  {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})
                .quota(),
            3);
  // In the container the group is the root of what is mounted.
  EXPECT_EQ(Root({{groups, lines},
                  {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"},
                  {"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}})
                .quota(),
            2);
}

TEST(CpuQuota, IsNothingWhereThereIsNone) {
  EXPECT_EQ(Root({}).quota(), std::nullopt);
  EXPECT_EQ(Root({{groups, "0::/\n"}}).quota(), std::nullopt);
  EXPECT_EQ(Root({{groups, "0::/\n"}, {"sys/fs/cgroup/cpu.max", "max 100000\n"}}).quota(), std::nullopt);
  EXPECT_EQ(Root({{groups, "4:cpuset,memory:/\n"}, {"sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n"}}).quota(),
            std::nullopt);
  for (const char* odd : {"", "0", "0:", "::", "0::", "x\n\n0::/../..\n", "1:cpu\n"}) {
    EXPECT_EQ(Root({{groups, odd}, {"sys/fs/cgroup/cpu.max", "-5 0\n"}}).quota(), std::nullopt) << odd;
  }
}

}  // namespace
}  // namespace lamina::detail::cpu_quota_test
