#include "comm/rendezvous.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/data/files.h"

namespace tg {
namespace {

constexpr double kTimeout_s = 20;

// A port of the loopback address that nobody else gets as long as this lives.
class Port {
 public:
  Port() : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(descriptor_, any, length) != 0 || ::listen(descriptor_, 1) != 0 ||
        ::getsockname(descriptor_, any, &length) != 0) {
      std::abort();
    }
    number_ = ntohs(address.sin_port);
  }
  ~Port() { ::close(descriptor_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;
  int number() const { return number_; }

 private:
  int descriptor_, number_;
};

int free_port() {
  return Port().number();
}

LaunchInfo launch_of(int rank, int world) {
  LaunchInfo launch;
  launch.rank = rank;
  launch.world_size = world;
  launch.launcher = "openmpi";
  launch.job = "job";
  return launch;
}

LaunchInfo launch_at(int port, int rank, int world) {
  auto launch = launch_of(rank, world);
  launch.master_addr = "127.0.0.1";
  launch.master_port = port;
  return launch;
}

// Every rank is a thread. Their temporary folder is this test's.
class RendezvousTest : public testing::Test {
 protected:
  RendezvousTest() { ::setenv("TMPDIR", temporary_.path().c_str(), 1); }
  ~RendezvousTest() override {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }

  std::string folder() const { return temporary_ / fmt::format("train_gpt-{}", ::geteuid()); }

  static void as_ranks(int world, const std::function<void(int rank)>& work) {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < world; ++rank) {
      ranks.emplace_back([&work, rank] {
        try {
          work(rank);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
  }

 private:
  static std::optional<std::string> temporary_before() {
    const char* value = std::getenv("TMPDIR");
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  }

  const test::TempDir temporary_;
  const std::optional<std::string> before_ = temporary_before();
};

// The ranks' common talk at any place: what rank 0 says, and what all of them must say.
void talk(const Rendezvous& meeting, const LaunchInfo& launch) {
  const auto own = fmt::format("of rank {}", launch.rank);
  EXPECT_EQ(share_from_rank_0(meeting, launch, "run_id", own), "of rank 0");
  EXPECT_EQ(share_from_rank_0(meeting, launch, "empty", ""), "");
  require_same(meeting, launch, "A=1\nB=two\n");
}

TEST_F(RendezvousTest, OneRankAloneNeedsNoPlace) {
  const auto launch = launch_of(0, 1);
  const auto meeting = meet(launch, kTimeout_s);
  EXPECT_FALSE(meeting.store);
  EXPECT_EQ(share_from_rank_0(meeting, launch, "run_id", "mine"), "mine");
  require_same(meeting, launch, "A=1\n");
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(RendezvousTest, RanksMeetInAFileWhereNobodyElseCanWrite) {
  for (const int world : {2, 3, 5}) {
    std::vector<Rendezvous> meetings(static_cast<std::size_t>(world));
    as_ranks(world, [&](int rank) {
      auto launch = launch_of(rank, world);
      launch.job = "prterun-host-17@1/2";  // as Open MPI names them; the slash makes no folder
      auto& meeting = meetings[static_cast<std::size_t>(rank)];
      meeting = meet(launch, kTimeout_s);
      EXPECT_EQ(meeting.place, "file " + folder() + "/prterun-host-17@1_2");
      talk(meeting, launch);
      // Whatever ends them now, the next job of that name does not read it.
      EXPECT_TRUE(std::filesystem::is_empty(folder()));
      EXPECT_EQ(share_from_rank_0(meeting, launch, "without a name", "heard"), "heard");
      EXPECT_EQ(share_from_rank_0({meeting.store->clone(), ""}, launch, "by a clone", "too"),
                "too");
    });
  }
  struct stat status {};
  ASSERT_EQ(::lstat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
}

TEST_F(RendezvousTest, AFileThatCannotBeOpenedIsNamed) {
  ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((folder() + "/job").c_str(), 0700), 0);
  const auto message =
      test::error_of(ExitCode::cannot_create, [] { meet(launch_of(0, 2), kTimeout_s); });
  test::expect_start(message, "cannot create " + folder() + "/job (Is a directory); set TMPDIR");
}

TEST_F(RendezvousTest, AFolderThatOthersCanEnterIsRefused) {
  for (const mode_t mode : {0701u, 0710u, 0755u, 0777u}) {
    ASSERT_EQ(::mkdir(folder().c_str(), mode), 0);
    ASSERT_EQ(::chmod(folder().c_str(), mode), 0);
    const auto message =
        test::error_of(ExitCode::cannot_create, [] { meet(launch_of(0, 2), kTimeout_s); });
    test::expect_start(message, folder() + " must be a folder that only you can enter");
    test::expect_part(message, "set TMPDIR, or set MASTER_ADDR");
    ASSERT_EQ(::rmdir(folder().c_str()), 0);
  }
}

TEST_F(RendezvousTest, WhatOnlyLooksLikeOurFolderIsRefused) {
  const test::TempDir elsewhere;
  std::filesystem::create_symlink(elsewhere.path(), folder());
  test::error_of(ExitCode::cannot_create, [] { meet(launch_of(0, 2), kTimeout_s); });
  std::filesystem::remove(folder());
  test::write_file(folder(), "");
  ::chmod(folder().c_str(), 0600);
  test::error_of(ExitCode::cannot_create, [] { meet(launch_of(0, 2), kTimeout_s); });
}

TEST_F(RendezvousTest, RanksMeetAtAnAddress) {
  for (const int world : {2, 3, 5}) {
    const int port = free_port();
    // Rank 0 keeps the store, so its handle outlives what the others have to say.
    std::vector<Rendezvous> meetings(static_cast<std::size_t>(world));
    as_ranks(world, [&](int rank) {
      const auto launch = launch_at(port, rank, world);
      auto& meeting = meetings[static_cast<std::size_t>(rank)];
      meeting = meet(launch, kTimeout_s);
      EXPECT_EQ(meeting.place, fmt::format("tcp 127.0.0.1:{}", port));
      talk(meeting, launch);
    });
  }
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

bool answers(const char* address, int port) {
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, address, &name.sin_addr);
  const int descriptor = ::socket(AF_INET, SOCK_STREAM, 0);
  const bool connected =
      ::connect(descriptor, reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0;
  ::close(descriptor);
  return connected;
}

// 127.0.0.9 stands for another interface: what listens on all of them answers there, too.
TEST_F(RendezvousTest, ALoopbackAddressIsHeardOnThatInterfaceAlone) {
  for (const auto& [host, address, alone] : {std::tuple{"127.0.0.1", "127.0.0.1", true},
                                             {"localhost", "127.0.0.1", true},
                                             {"127.0.0.2", "127.0.0.2", true},
                                             {"0.0.0.0", "127.0.0.1", false}}) {
    const int port = free_port();
    std::array launches{launch_at(port, 0, 2), launch_at(port, 1, 2)};
    for (auto& launch : launches) launch.master_addr = host;
    const auto first = meet(launches[0], kTimeout_s), second = meet(launches[1], kTimeout_s);
    share_from_rank_0(first, launches[0], "run_id", "heard");
    EXPECT_EQ(share_from_rank_0(second, launches[1], "run_id", ""), "heard") << host;
    EXPECT_TRUE(answers(address, port)) << host;
    EXPECT_EQ(answers("127.0.0.9", port), !alone) << host;
  }
}

TEST_F(RendezvousTest, RanksMeetInTheStoreOfTheirAgent) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(free_port());
  options.isServer = true;
  options.waitWorkers = false;
  const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  // A second attempt finds the first one's words in the same store, and must not take them.
  for (const std::string attempt : {"0", "1"}) {
    as_ranks(2, [&](int rank) {
      auto launch = launch_at(options.port, rank, 2);
      launch.agent_store = true;
      launch.attempt = attempt;
      const auto meeting = meet(launch, kTimeout_s);
      EXPECT_FALSE(rank == 0 && meeting.store->check({"run_id"}));
      EXPECT_EQ(share_from_rank_0(meeting, launch, "run_id", attempt), attempt);
    });
  }
}

TEST_F(RendezvousTest, EveryRankNamesTheLineThatDiffersAndBothValues) {
  for (const int odd : {1, 2}) {
    std::array<std::string, 3> messages;
    as_ranks(3, [&](int rank) {
      const auto launch = launch_of(rank, 3);
      const auto meeting = meet(launch, kTimeout_s);
      const auto lines = fmt::format("A=1\nMODEL_DIM={}\nSEED={}\n", rank == odd ? 64 : 512, rank);
      messages[static_cast<std::size_t>(rank)] =
          test::error_of(ExitCode::config, [&] { require_same(meeting, launch, lines); });
    });
    // All have the same words; of several ranks and lines that differ, the first.
    const auto line = odd == 1 ? "rank 0 has MODEL_DIM=512, rank 1 has MODEL_DIM=64"
                               : "rank 0 has SEED=0, rank 1 has SEED=1";
    for (const auto& message : messages) test::expect_part(message, line);
  }
}

TEST_F(RendezvousTest, APortInUseIsNamed) {
  const Port taken;
  const auto message = test::error_of(ExitCode::unavailable,
                                      [&] { meet(launch_at(taken.number(), 0, 2), kTimeout_s); });
  test::expect_part(message, fmt::format("MASTER_ADDR:MASTER_PORT 127.0.0.1:{} (", taken.number()));
  test::expect_part(
      message,
      "(Address already in use); expected a free port of this host; choose another MASTER_PORT");
}

double seconds_of(const std::function<void()>& action) {
  const auto began = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

TEST_F(RendezvousTest, AnAddressWhereNobodyListensEndsTheWait) {
  const int port = free_port();
  const double seconds = seconds_of([&] {
    const auto message =
        test::error_of(ExitCode::unavailable, [&] { meet(launch_at(port, 1, 2), 1); });
    test::expect_part(message, fmt::format("127.0.0.1:{} (", port));
    test::expect_part(message, "expected rank 0 listening there");
  });
  EXPECT_LT(seconds, 10);
}

TEST_F(RendezvousTest, ARankThatNeverComesIsNamedWithinTheTime) {
  const int port = free_port();
  for (const bool at_address : {false, true}) {
    const auto launch = [&](int rank) {
      return at_address ? launch_at(port, rank, 3) : launch_of(rank, 3);
    };
    const double seconds = seconds_of([&] {
      // Ranks 0 and 1 come, 2 does not. Rank 0, who may keep the store, outlasts rank 1.
      const auto first = meet(launch(0), 1);
      const auto second = meet(launch(1), 1);
      std::jthread rank_1([&] {
        const auto message = test::error_of(ExitCode::unavailable,
                                            [&] { require_same(second, launch(1), "A=1\n"); });
        test::expect_start(message, "rank 2 did not come to ");
      });
      const auto message =
          test::error_of(ExitCode::unavailable, [&] { require_same(first, launch(0), "A=1\n"); });
      test::expect_start(message, "rank 2 did not come to " + first.place + " within 1 s; ");
    });
    EXPECT_TRUE(at_address || std::filesystem::is_empty(folder()));
    EXPECT_LT(seconds, 10);
  }
}

TEST_F(RendezvousTest, ARankZeroThatSaysNothingIsNamedWithinTheTime) {
  const auto launch = launch_of(1, 2);
  const auto meeting = meet(launch, 1);
  const double seconds = seconds_of([&] {
    const auto message = test::error_of(ExitCode::unavailable,
                                        [&] { share_from_rank_0(meeting, launch, "run_id", ""); });
    test::expect_start(message, "rank 0 did not come to " + meeting.place);
  });
  EXPECT_LT(seconds, 10);
}

// A rank of a run that is killed as soon as it has spoken.
void meet_speak_and_be_killed(const LaunchInfo& launch) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      const auto meeting = meet(launch, kTimeout_s);
      meeting.store->set("run_id", std::vector<std::uint8_t>{'o', 'l', 'd'});
      ::raise(SIGKILL);
    } catch (const std::exception&) {
      ::_exit(1);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

TEST_F(RendezvousTest, WhatARunLeftThatWasKilledBeforeAllHadComeDoesNotReachTheNext) {
  for (const int killed : {0, 1}) {
    meet_speak_and_be_killed(launch_of(killed, 2));
    EXPECT_FALSE(std::filesystem::is_empty(folder()));
    // The first to come must not take the dead rank for a second.
    const auto second = meet(launch_of(1, 2), kTimeout_s);
    EXPECT_FALSE(second.store->check({"run_id"}));
    const auto first = meet(launch_of(0, 2), kTimeout_s);
    EXPECT_EQ(share_from_rank_0(first, launch_of(0, 2), "run_id", "new"), "new");
    EXPECT_EQ(share_from_rank_0(second, launch_of(1, 2), "run_id", ""), "new");
    EXPECT_TRUE(std::filesystem::is_empty(folder()));
  }
}

TEST_F(RendezvousTest, ARankThatGivesUpLeavesTheNextRunItsFile) {
  const auto old_first = meet(launch_of(0, 3), 0.5), old_second = meet(launch_of(1, 3), 0.5);
  const auto give_up = [](const Rendezvous& meeting) {
    test::error_of(ExitCode::unavailable,
                   [&] { share_from_rank_0(meeting, launch_of(1, 3), "run_id", ""); });
  };
  give_up(old_first);
  const auto first = meet(launch_of(0, 2), kTimeout_s);
  give_up(old_second);
  EXPECT_FALSE(std::filesystem::is_empty(folder()));
  const auto second = meet(launch_of(1, 2), kTimeout_s);
  share_from_rank_0(first, launch_of(0, 2), "run_id", "new");
  EXPECT_EQ(share_from_rank_0(second, launch_of(1, 2), "run_id", ""), "new");
}

TEST_F(RendezvousTest, SeveralNodesNeedAnAddress) {
  auto launch = launch_of(1, 8);
  launch.one_node = false;
  const auto message = test::error_of(ExitCode::usage, [&] { meet(launch, kTimeout_s); });
  test::expect_start(
      message, "8 ranks (by openmpi, on several nodes) need a place to meet; set MASTER_ADDR");
  test::expect_part(message, "set MASTER_ADDR to the first rank's host");
  // A job without a name could meet another one's ranks.
  launch = launch_of(1, 8);
  launch.job = "";
  test::expect_part(test::error_of(ExitCode::usage, [&] { meet(launch, kTimeout_s); }),
                    "set MASTER_ADDR");
}

}  // namespace
}  // namespace tg
