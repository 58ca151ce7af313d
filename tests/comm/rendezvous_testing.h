#pragma once
// Shared code of the rendezvous tests. Ranks are threads of this process.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/rendezvous.h"
#include "tests/files/testing.h"

namespace tg::test {

constexpr double kTimeout_s = 20;

// A port of every interface that no other program gets while this object lives. A store can listen
// on it, because it sets SO_REUSEADDR; it cannot on a port that is `taken`.
class Port {
 public:
  explicit Port(bool taken = false) : descriptor_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const int yes = 1;
    ::setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t length = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(descriptor_, any, length) != 0 || (taken && ::listen(descriptor_, 1) != 0) ||
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

inline LaunchInfo launch_of(int rank, int world) {
  LaunchInfo launch;
  launch.rank = rank;
  launch.world_size = world;
  launch.launcher = "openmpi";
  launch.size_variable = "OMPI_COMM_WORLD_SIZE";
  launch.start_hint = "mpirun starts them";
  launch.job = "job";
  return launch;
}

inline LaunchInfo launch_at(int port, int rank, int world) {
  auto launch = launch_of(rank, world);
  launch.master_addr = "127.0.0.1";
  launch.master_port = port;
  return launch;
}

// Every rank is a thread. TMPDIR is this test's own folder.
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

  const TempDir temporary_;
  const std::optional<std::string> before_ = temporary_before();
};

// Exchanges everything that ranks exchange, through any kind of store.
inline void exchange(const Rendezvous& rendezvous, const LaunchInfo& launch) {
  const auto own = fmt::format("of rank {}", launch.rank);
  EXPECT_EQ(broadcast_from_rank_0(rendezvous, launch, "run_id", own), "of rank 0");
  EXPECT_EQ(broadcast_from_rank_0(rendezvous, launch, "empty", ""), "");
  require_same(rendezvous, launch, "A=1\nB=two\n");
}

// Expects `action` to end by its own timeout of about a second, not by the start-up timeout.
inline void expect_own_timeout(const std::function<void()>& action) {
  const auto began = std::chrono::steady_clock::now();
  action();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  EXPECT_LT(took.count(), kStartTime_s / 4);
}

}  // namespace tg::test
