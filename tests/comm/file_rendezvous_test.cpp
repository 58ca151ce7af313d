// Rendezvous through a file, on one host without MASTER_ADDR.
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>

#include "tests/comm/rendezvous_testing.h"

namespace tg {
namespace {

using test::exchange;
using test::kTimeout_s;
using test::launch_of;

class FileRendezvous : public test::RendezvousTest {};

TEST_F(FileRendezvous, RanksJoinThroughAFileThatNobodyElseCanWrite) {
  for (const int world : {2, 3, 5}) {
    std::vector<Rendezvous> kept(static_cast<std::size_t>(world));
    as_ranks(world, [&](int rank) {
      auto launch = launch_of(rank, world);
      launch.job =
          "prterun-host-17@1/2";  // the form of Open MPI's names; the slash creates no folder
      auto& rendezvous = kept[static_cast<std::size_t>(rank)];
      rendezvous = join_rendezvous(launch, kTimeout_s);
      EXPECT_EQ(rendezvous.endpoint, "file " + folder() + "/prterun-host-17@1_2");
      exchange(rendezvous, launch);
      // The file is unlinked: the next job of that name cannot read it.
      EXPECT_TRUE(std::filesystem::is_empty(folder()));
      EXPECT_EQ(broadcast_from_rank_0(rendezvous, launch, "after unlink", "value"), "value");
      EXPECT_EQ(broadcast_from_rank_0({rendezvous.store->clone(), ""}, launch, "by a clone", "too"),
                "too");
    });
  }
  struct stat status {};
  ASSERT_EQ(::lstat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(FileRendezvous, AFileThatCannotBeOpenedIsNamed) {
  ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((folder() + "/job").c_str(), 0700), 0);
  const auto message =
      test::error_of(ExitCode::cannot_create, [] { join_rendezvous(launch_of(0, 2), kTimeout_s); });
  test::expect_start(message, "cannot create " + folder() + "/job (Is a directory); set TMPDIR");
}

TEST_F(FileRendezvous, ADirectoryThatOthersCanAccessIsRefused) {
  for (const mode_t mode : {0701u, 0710u, 0755u, 0777u}) {
    ASSERT_EQ(::mkdir(folder().c_str(), mode), 0);
    ASSERT_EQ(::chmod(folder().c_str(), mode), 0);
    const auto message = test::error_of(ExitCode::cannot_create,
                                        [] { join_rendezvous(launch_of(0, 2), kTimeout_s); });
    test::expect_start(message, folder() + " must be a folder that only you can enter");
    test::expect_part(message, "set TMPDIR, or set MASTER_ADDR");
    ASSERT_EQ(::rmdir(folder().c_str()), 0);
  }
}

TEST_F(FileRendezvous, ASymlinkOrFileInThePlaceOfTheDirectoryIsRefused) {
  const test::TempDir elsewhere;
  std::filesystem::create_symlink(elsewhere.path(), folder());
  test::error_of(ExitCode::cannot_create, [] { join_rendezvous(launch_of(0, 2), kTimeout_s); });
  std::filesystem::remove(folder());
  test::write_file(folder(), "");
  ::chmod(folder().c_str(), 0600);
  test::error_of(ExitCode::cannot_create, [] { join_rendezvous(launch_of(0, 2), kTimeout_s); });
}

// A rank that joins, sets a key and is killed.
void join_write_and_be_killed(const LaunchInfo& launch) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      const auto rendezvous = join_rendezvous(launch, kTimeout_s);
      rendezvous.store->set("run_id", std::vector<std::uint8_t>{'o', 'l', 'd'});
      ::raise(SIGKILL);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(FileRendezvous, AFileOfAJobKilledBeforeAllJoinedDoesNotReachTheNext) {
  for (const int killed : {0, 1}) {
    join_write_and_be_killed(launch_of(killed, 2));
    EXPECT_FALSE(std::filesystem::is_empty(folder()));
    // The first rank to join must not count the dead rank.
    const auto second = join_rendezvous(launch_of(1, 2), kTimeout_s);
    EXPECT_FALSE(second.store->check({"run_id"}));
    const auto first = join_rendezvous(launch_of(0, 2), kTimeout_s);
    EXPECT_EQ(broadcast_from_rank_0(first, launch_of(0, 2), "run_id", "new"), "new");
    EXPECT_EQ(broadcast_from_rank_0(second, launch_of(1, 2), "run_id", ""), "new");
    EXPECT_TRUE(std::filesystem::is_empty(folder()));
  }
}

TEST_F(FileRendezvous, ARankThatTimesOutDoesNotUnlinkTheNextJobsFile) {
  const auto stale_first = join_rendezvous(launch_of(0, 3), 0.5),
             stale_second = join_rendezvous(launch_of(1, 3), 0.5);
  const auto time_out = [](const Rendezvous& rendezvous) {
    test::error_of(ExitCode::unavailable,
                   [&] { broadcast_from_rank_0(rendezvous, launch_of(1, 3), "run_id", ""); });
  };
  time_out(stale_first);
  const auto first = join_rendezvous(launch_of(0, 2), kTimeout_s);
  time_out(stale_second);
  EXPECT_FALSE(std::filesystem::is_empty(folder()));
  const auto second = join_rendezvous(launch_of(1, 2), kTimeout_s);
  broadcast_from_rank_0(first, launch_of(0, 2), "run_id", "new");
  EXPECT_EQ(broadcast_from_rank_0(second, launch_of(1, 2), "run_id", ""), "new");
}

}  // namespace
}  // namespace tg
