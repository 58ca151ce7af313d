#include "config/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/config/helpers.h"

namespace tg {
namespace {

using Environment = std::map<std::string, std::string>;

LaunchInfo launched(const Environment& environment) {
  return read_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional<std::string>(found->second);
  });
}

const Environment torchrun = {{"RANK", "5"},
                              {"WORLD_SIZE", "8"},
                              {"LOCAL_RANK", "1"},
                              {"MASTER_ADDR", "node0"},
                              {"MASTER_PORT", "1234"}};
const Environment openmpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}};
const Environment slurm = {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "0"}};
const Environment pmi = {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}};

void expect_launch(const LaunchInfo& info, const std::string& launcher, int rank, int size,
                   int local) {
  EXPECT_EQ(info.launcher, launcher);
  EXPECT_EQ(info.rank, rank);
  EXPECT_EQ(info.world_size, size);
  EXPECT_EQ(info.local_rank, local);
}

TEST(Launch, ReadsEachLaunchersVariables) {
  expect_launch(launched(torchrun), "env", 5, 8, 1);
  expect_launch(launched(openmpi), "openmpi", 3, 4, 2);
  expect_launch(launched(slurm), "slurm", 2, 6, 0);
  expect_launch(launched(pmi), "pmi", 1, 2, 1);
  expect_launch(launched({}), "single", 0, 1, 0);
}

TEST(Launch, TheFirstLauncherPresentDecides) {
  Environment all = pmi;
  all.insert(slurm.begin(), slurm.end());
  EXPECT_EQ(launched(all).launcher, "slurm");
  all.insert(openmpi.begin(), openmpi.end());
  EXPECT_EQ(launched(all).launcher, "openmpi");
  all.insert(torchrun.begin(), torchrun.end());
  EXPECT_EQ(launched(all).launcher, "env");
}

TEST(Launch, TakesTheMeetingPlaceOrItsDefault) {
  EXPECT_EQ(launched(torchrun).master_addr, "node0");
  EXPECT_EQ(launched(torchrun).master_port, 1234);
  EXPECT_EQ(launched(openmpi).master_addr, "");
  EXPECT_EQ(launched(openmpi).master_port, 29500);
}

TEST(Launch, APartialSetNamesWhatIsMissing) {
  const auto hint = std::string("; start all ranks with torchrun, mpirun or srun, or unset it");
  EXPECT_EQ(failure_of([] {
              launched({{"RANK", "0"}});
            }),
            "64 RANK is set, but WORLD_SIZE, LOCAL_RANK is not" + hint);
  EXPECT_EQ(failure_of([] {
              launched({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
            }),
            "64 OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE is set, but OMPI_COMM_WORLD_LOCAL_RANK "
            "is not" +
                hint);
  EXPECT_EQ(failure_of([] {
              launched({{"SLURM_NTASKS", "4"}});
            }),
            "64 SLURM_NTASKS is set, but SLURM_PROCID, SLURM_LOCALID is not" + hint);
  EXPECT_EQ(failure_of([] {
              launched({{"PMI_SIZE", "4"}});
            }),
            "64 PMI_SIZE is set, but PMI_RANK is not" + hint);
  Environment nowhere = torchrun;
  nowhere.erase("MASTER_ADDR");
  EXPECT_NE(failure_of([&] { launched(nowhere); }).find("MASTER_ADDR is not"), std::string::npos);
}

TEST(Launch, RefusesValuesThatCannotBe) {
  const std::pair<const char*, const char*> bad[] = {
      {"RANK", "8"},        {"RANK", "-1"},       {"RANK", ""},          {"RANK", "one"},
      {"WORLD_SIZE", "0"},  {"LOCAL_RANK", "8"},  {"MASTER_PORT", "0"},  {"MASTER_PORT", "65536"},
      {"WORLD_SIZE", "x8"}, {"LOCAL_RANK", "0x"}, {"WORLD_SIZE", "1e3"},
  };
  for (const auto& [name, value] : bad) {
    Environment environment = torchrun;
    environment[name] = value;
    EXPECT_TRUE(failure_of([&] {
                  launched(environment);
                }).starts_with("64 " + std::string(name) + "='" + value + "'"))
        << name << "=" << value;
  }
}

}  // namespace
}  // namespace tg
