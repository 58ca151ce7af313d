#include "base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace tg {
namespace {

// A file system that contains these files.
class Cgroups : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::optional<int> cores(const std::map<std::string, std::string>& files) {
    std::filesystem::remove_all(root_);
    for (const auto& [name, text] : files) {
      const auto path = root_ / name;
      std::filesystem::create_directories(path.parent_path());
      std::ofstream(path) << text << '\n';
    }
    return cgroup_cores(root_.string());
  }

  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) / ("cgroups-" + std::to_string(::getpid()));
};

TEST_F(Cgroups, GrantWholeCoresAndAtLeastOne) {
  const auto with = [&](const std::string& limit) {
    return cores({{"proc/self/cgroup", "0::/"}, {"sys/fs/cgroup/cpu.max", limit}});
  };
  EXPECT_EQ(with("400000 100000"), 4);
  EXPECT_EQ(with("250000 100000"), 2);
  EXPECT_EQ(with("50000 100000"), 1);
  EXPECT_EQ(with("max 100000"), std::nullopt);
  EXPECT_EQ(with("nonsense"), std::nullopt);
}

TEST_F(Cgroups, AreLimitedByThoseAroundThem) {
  EXPECT_EQ(cores({{"proc/self/cgroup", "0::/slice/job"},
                   {"sys/fs/cgroup/slice/job/cpu.max", "800000 100000"},
                   {"sys/fs/cgroup/slice/cpu.max", "300000 100000"}}),
            3);
  // In a container the path is the host's, and the mounted root is the container's own group.
  EXPECT_EQ(
      cores({{"proc/self/cgroup", "0::/docker/1234"}, {"sys/fs/cgroup/cpu.max", "200000 100000"}}),
      2);
}

TEST_F(Cgroups, OfTheFirstVersionAreReadAsWell) {
  const auto with = [&](const std::string& quota) {
    return cores({{"proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/job\n0::/"},
                  {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", quota},
                  {"sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000"}});
  };
  EXPECT_EQ(with("600000"), 6);
  EXPECT_EQ(with("-1"), std::nullopt);
}

TEST_F(Cgroups, GrantEverythingWhereThereAreNone) {
  EXPECT_EQ(cores({}), std::nullopt);
}

TEST(CoresOf, AreThoseOfTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(cores_of(0), 1);
  EXPECT_LE(cores_of(0), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(cores_of(0), 1);
  EXPECT_EQ(cores_of(::getpid()), 1);
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(cores_of(-1), 0);
}

}  // namespace
}  // namespace tg
