#include "config/environment.h"

#include <map>

#include "tests/config/helpers.h"

namespace tg {
namespace {

using Variables = std::map<std::string, std::string>;

Variables variables_of(const std::vector<std::string>& settings, int world_size = 1,
                       bool one_node = true, const Variables& own = {}, bool gpu_driver = true) {
  LaunchInfo launch;
  launch.world_size = world_size;
  launch.one_node = one_node;
  const auto lookup = [&](const char* name) -> std::optional<std::string> {
    const auto found = own.find(name);
    return found == own.end() ? std::nullopt : std::optional<std::string>(found->second);
  };
  const auto all =
      library_environment(parse({}, settings).settings.runtime, launch, lookup, gpu_driver);
  return {all.begin(), all.end()};
}

TEST(LibraryEnvironment, OfOneRankIsLeftAlone) {
  EXPECT_EQ(variables_of({}), Variables());
}

TEST(LibraryEnvironment, SetsUpCollectivesOfSeveralRanks) {
  const Variables several = {{"TORCH_CPP_LOG_LEVEL", "FATAL"},
                             {"TORCH_FR_BUFFER_SIZE", "20000"},
                             {"NCCL_NVLS_ENABLE", "0"}};
  EXPECT_EQ(variables_of({}, 2, /*one_node=*/false), several);
  auto here = several;
  here["NCCL_SOCKET_IFNAME"] = "lo";
  EXPECT_EQ(variables_of({}, 2), here);
}

TEST(LibraryEnvironment, GivesCublasItsWorkspaceWhereBitsMustRepeat) {
  EXPECT_EQ(variables_of({"DETERMINISTIC=1"}), (Variables{{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}}));
  // Sums over ranks do not depend on NCCL's choices then.
  auto several = variables_of({}, 2);
  several["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8";
  EXPECT_EQ(variables_of({"DETERMINISTIC=1"}, 2), several);
}

TEST(LibraryEnvironment, LeavesWhatTheUserSet) {
  const Variables own = {{"NCCL_NVLS_ENABLE", "1"}, {"TORCH_CPP_LOG_LEVEL", ""}};
  EXPECT_EQ(variables_of({"DETERMINISTIC=1"}, 2, false, own),
            (Variables{{"CUBLAS_WORKSPACE_CONFIG", ":4096:8"}, {"TORCH_FR_BUFFER_SIZE", "20000"}}));
}

TEST(LibraryEnvironment, SilencesTheProfilerWhereThereIsNoGpuToProfile) {
  const auto level = [](std::vector<std::string> settings, bool gpu_driver) {
    settings.push_back("PROFILE=1");
    return variables_of(settings, 1, true, {}, gpu_driver).count("KINETO_LOG_LEVEL");
  };
  EXPECT_EQ(level({}, false), 1u);
  EXPECT_EQ(level({"DEVICE=cpu"}, true), 1u);
  EXPECT_EQ(level({}, true), 0u);
}

}  // namespace
}  // namespace tg
