#include "config/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>

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

LaunchInfo launched_with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return launched(environment);
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

TEST(Launch, PmisLocalRankIsHydrasWhereItSaysOne) {
  const Environment hydra = {
      {"PMI_RANK", "5"}, {"PMI_SIZE", "8"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "4"}};
  expect_launch(launched(hydra), "pmi", 5, 8, 1);
  EXPECT_FALSE(launched(hydra).one_node);
  EXPECT_TRUE(launched_with(hydra, {{"MPI_LOCALNRANKS", "8"}}).one_node);
  // Alone it names no launcher.
  expect_launch(launched({{"MPI_LOCALRANKID", "1"}}), "single", 0, 1, 0);
}

TEST(Launch, ARankThatIsAloneOnItsHostNeedsNoLocalRank) {
  expect_launch(launched({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "env", 0, 1, 0);
  Environment one_a_host = torchrun;
  one_a_host.erase("LOCAL_RANK");
  one_a_host["LOCAL_WORLD_SIZE"] = "1";
  expect_launch(launched(one_a_host), "env", 5, 8, 0);
  EXPECT_EQ(launched(one_a_host).local_size, 1);
  EXPECT_FALSE(launched(one_a_host).one_node);
  expect_launch(launched_with(pmi, {{"MPI_LOCALNRANKS", "1"}}), "pmi", 1, 2, 0);
  // A number that is given counts.
  EXPECT_TRUE(failure_of([&] {
                launched_with(one_a_host, {{"LOCAL_RANK", "8"}});
              }).starts_with("64 LOCAL_RANK='8'"));
}

TEST(Launch, KnowsHowItsRanksAreStarted) {
  const std::tuple<Environment, const char*, const char*> cases[] = {
      {torchrun, "WORLD_SIZE", "or all with torchrun"},
      {openmpi, "OMPI_COMM_WORLD_SIZE", "mpirun starts them"},
      {slurm, "SLURM_NTASKS", "start with srun"},
      {pmi, "PMI_SIZE", "mpiexec starts them"}};
  for (const auto& [environment, variable, hint] : cases) {
    const auto launch = launched(environment);
    EXPECT_EQ(launch.size_variable, variable);
    EXPECT_NE(launch.start_hint.find(hint), std::string::npos) << launch.start_hint;
  }
  const auto agent = launched_with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_TRUE(agent.start_hint.starts_with("torchrun starts them")) << agent.start_hint;
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

TEST(Launch, TakesTheRendezvousAddressOrItsDefault) {
  EXPECT_EQ(launched(torchrun).master_addr, "node0");
  EXPECT_EQ(launched(torchrun).master_port, 1234);
  EXPECT_EQ(launched(openmpi).master_addr, "");
  EXPECT_EQ(launched(openmpi).master_port, 29500);
}

TEST(Launch, RanksAreOnOneNodeWhenTheLauncherCountsThemAllThere) {
  for (const auto& [environment, count, one, several] :
       {std::tuple{torchrun, "LOCAL_WORLD_SIZE", "8", "4"},
        {openmpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "2"},
        {slurm, "SLURM_NNODES", "1", "2"}}) {
    EXPECT_TRUE(launched_with(environment, {{count, one}}).one_node) << count;
    EXPECT_FALSE(launched_with(environment, {{count, several}}).one_node) << count;
    // Without a count only a loopback address can be meant for one.
    EXPECT_FALSE(launched(environment).one_node) << count;
    EXPECT_TRUE(launched_with(environment, {{"MASTER_ADDR", "127.0.0.1"}}).one_node) << count;
  }
  EXPECT_TRUE(launched(pmi).one_node);
  EXPECT_FALSE(launched_with(pmi, {{"MASTER_ADDR", "node0"}}).one_node);
  EXPECT_TRUE(launched({}).one_node);
}

TEST(Launch, CountsTheRanksOfThisHost) {
  EXPECT_EQ(launched({}).local_size, 1);
  EXPECT_EQ(launched_with(torchrun, {{"LOCAL_WORLD_SIZE", "4"}}).local_size, 4);
  EXPECT_EQ(launched_with(openmpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}).local_size, 2);
  EXPECT_EQ(launched_with(pmi, {{"MPI_LOCALNRANKS", "1"}}).local_size, 1);
  EXPECT_EQ(launched_with(slurm, {{"SLURM_NNODES", "1"}}).local_size, 6);
  // All ranks, if no variable gives the number.
  for (const auto& environment : {torchrun, openmpi, slurm, pmi}) {
    EXPECT_EQ(launched(environment).local_size, launched(environment).world_size);
  }
  EXPECT_TRUE(failure_of([] {
                launched_with(torchrun, {{"LOCAL_WORLD_SIZE", "9"}});
              }).starts_with("64 LOCAL_WORLD_SIZE='9'"));
}

TEST(Launch, ReadsSlurmsListOfTasksOfEachHost) {
  const auto tasks = [](const std::string& list, const std::string& node) {
    return launched_with(
               slurm,
               {{"SLURM_NNODES", "3"}, {"SLURM_STEP_TASKS_PER_NODE", list}, {"SLURM_NODEID", node}})
        .local_size;
  };
  EXPECT_EQ(tasks("2(x3)", "2"), 2);
  EXPECT_EQ(tasks("3,2,1", "0"), 3);
  EXPECT_EQ(tasks("3,2,1", "1"), 2);
  EXPECT_EQ(tasks("1(x2),4", "1"), 1);
  EXPECT_EQ(tasks("1(x2),4", "2"), 4);
  // The job's list, where there is no step's.
  EXPECT_EQ(
      launched_with(slurm, {{"SLURM_NNODES", "2"}, {"SLURM_TASKS_PER_NODE", "3(x2)"}}).local_size,
      3);
  // What cannot be is as if it was not there.
  for (const char* list : {"", "two", "2(x", "2(x)", "0", "7(x3)", "2"}) {
    EXPECT_EQ(tasks(list, "1"), 6) << list;
  }
}

TEST(Launch, KnowsWhetherThreadsWereChosen) {
  EXPECT_FALSE(launched(torchrun).chose_threads);
  EXPECT_TRUE(launched_with(torchrun, {{"OMP_NUM_THREADS", "1"}}).chose_threads);
  EXPECT_TRUE(launched({{"MKL_NUM_THREADS", "2"}}).chose_threads);
}

TEST(Launch, TakesTheNameOfTheJob) {
  EXPECT_EQ(launched_with(torchrun, {{"TORCHELASTIC_RUN_ID", "run"}}).job, "run");
  EXPECT_EQ(launched_with(openmpi, {{"PMIX_NAMESPACE", "1234"}}).job, "1234");
  EXPECT_EQ(launched_with(slurm, {{"SLURM_JOB_ID", "77"}}).job, "77.0.0");
  EXPECT_EQ(
      launched_with(slurm,
                    {{"SLURM_JOB_ID", "77"}, {"SLURM_STEP_ID", "3"}, {"SLURM_RESTART_COUNT", "1"}})
          .job,
      "77.3.1");
  EXPECT_EQ(launched(slurm).job, "");
  EXPECT_EQ(launched_with(pmi, {{"PMI_JOBID", "9"}}).job, "9");
  for (const auto& environment : {torchrun, openmpi, slurm, pmi, Environment()}) {
    EXPECT_EQ(launched(environment).job, "");
  }
  // Another launcher's name says nothing.
  EXPECT_EQ(launched_with(openmpi, {{"SLURM_JOB_ID", "77"}}).job, "");
}

TEST(Launch, JobsOfOpenMpiThatShareANameDifferByTheirServersPort) {
  const Environment first = {{"PMIX_NAMESPACE", "1234"},
                             {"PMIX_SERVER_URI2", "1234.0;tcp4://127.0.0.1:40001"}};
  Environment second = first;
  second["PMIX_SERVER_URI2"] = "1234.0;tcp4://127.0.0.1:40002";
  EXPECT_EQ(launched_with(openmpi, first).job, "1234-40001");
  EXPECT_EQ(launched_with(openmpi, second).job, "1234-40002");
}

TEST(Launch, TakesTorchrunsStoreAndAttempt) {
  const auto plain = launched(torchrun);
  EXPECT_FALSE(plain.agent_store);
  EXPECT_EQ(plain.attempt, "0");
  const auto elastic = launched_with(
      torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}});
  EXPECT_TRUE(elastic.agent_store);
  EXPECT_EQ(elastic.attempt, "2");
  EXPECT_FALSE(launched_with(torchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}}).agent_store);
}

TEST(Launch, TakesTheInterfaceForGloo) {
  EXPECT_EQ(launched(torchrun).gloo_interface, "");
  EXPECT_EQ(launched_with(torchrun, {{"GLOO_SOCKET_IFNAME", "eth1"}}).gloo_interface, "eth1");
}

TEST(Launch, APartialSetNamesWhatIsMissing) {
  const auto hint = std::string("; start all ranks with torchrun, mpirun or srun, or unset it");
  EXPECT_EQ(failure_of([] {
              launched({{"RANK", "0"}});
            }),
            "64 RANK is set, but WORLD_SIZE, LOCAL_RANK is not" + hint);
  EXPECT_EQ(failure_of([] {
              launched({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}});
            }),
            "64 RANK, WORLD_SIZE is set, but LOCAL_RANK is not; set it to the rank's number on its "
            "host, or LOCAL_WORLD_SIZE=1 where every host has one process");
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
  EXPECT_TRUE(failure_of([] {
                launched_with(pmi, {{"MPI_LOCALRANKID", "2"}});
              }).starts_with("64 MPI_LOCALRANKID='2'"));
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
