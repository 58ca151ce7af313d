// Rendezvous at MASTER_ADDR:MASTER_PORT.
#include <list>
#include <set>
#include <sstream>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "tests/comm/rendezvous_testing.h"

namespace tg {
namespace {

using namespace std::chrono_literals;
using test::exchange;
using test::kTimeout_s;
using test::launch_at;

class TcpRendezvous : public test::RendezvousTest {};

TEST_F(TcpRendezvous, RanksJoinThroughAnAddress) {
  for (const int world : {2, 3, 5}) {
    const test::Port port;
    // Rank 0 is the server, so its handle must outlive the other ranks' exchange.
    std::vector<Rendezvous> kept(static_cast<std::size_t>(world));
    as_ranks(world, [&](int rank) {
      const auto launch = launch_at(port.number(), rank, world);
      auto& rendezvous = kept[static_cast<std::size_t>(rank)];
      rendezvous = join_rendezvous(launch, kTimeout_s);
      EXPECT_EQ(rendezvous.endpoint, fmt::format("tcp 127.0.0.1:{}", port.number()));
      exchange(rendezvous, launch);
    });
  }
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

bool accepts_connections(const char* address, int port) {
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

// 127.0.0.9 acts as another interface, on which a socket that listens on all interfaces also
// accepts.
TEST_F(TcpRendezvous, ALoopbackAddressListensOnThatInterfaceAlone) {
  const struct {
    const char *master_addr, *address;
    bool only_there;
  } cases[] = {
      {.master_addr = "127.0.0.1", .address = "127.0.0.1", .only_there = true},
      {.master_addr = "localhost", .address = "127.0.0.1", .only_there = true},
      {.master_addr = "127.0.0.2", .address = "127.0.0.2", .only_there = true},
      {.master_addr = "0.0.0.0", .address = "127.0.0.1", .only_there = false},
  };
  for (const auto& [host, address, only_there] : cases) {
    const test::Port port;
    std::array launches{launch_at(port.number(), 0, 2), launch_at(port.number(), 1, 2)};
    for (auto& launch : launches) launch.master_addr = host;
    const auto first = join_rendezvous(launches[0], kTimeout_s),
               second = join_rendezvous(launches[1], kTimeout_s);
    broadcast_from_rank_0(first, launches[0], "run_id", "heard");
    EXPECT_EQ(broadcast_from_rank_0(second, launches[1], "run_id", ""), "heard") << host;
    EXPECT_TRUE(accepts_connections(address, port.number())) << host;
    EXPECT_EQ(accepts_connections("127.0.0.9", port.number()), !only_there) << host;
  }
}

TEST_F(TcpRendezvous, RanksJoinThroughTheStoreOfTheirAgent) {
  c10d::TCPStoreOptions options;
  const test::Port port;
  options.port = static_cast<std::uint16_t>(port.number());
  options.isServer = true;
  options.waitWorkers = false;
  const auto agent = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  // A second attempt finds the first attempt's keys in the same store and must not read them.
  for (const std::string attempt : {"0", "1"}) {
    as_ranks(2, [&](int rank) {
      auto launch = launch_at(options.port, rank, 2);
      launch.agent_store = true;
      launch.attempt = attempt;
      const auto rendezvous = join_rendezvous(launch, kTimeout_s);
      EXPECT_FALSE(rank == 0 && rendezvous.store->check({"run_id"}));
      EXPECT_EQ(broadcast_from_rank_0(rendezvous, launch, "run_id", attempt), attempt);
    });
  }
}

TEST_F(TcpRendezvous, APortInUseIsNamed) {
  const test::Port taken(true);
  const auto message = test::error_of(
      ExitCode::unavailable, [&] { join_rendezvous(launch_at(taken.number(), 0, 2), kTimeout_s); });
  test::expect_part(message, fmt::format("MASTER_ADDR:MASTER_PORT 127.0.0.1:{} (", taken.number()));
  test::expect_part(
      message,
      "(Address already in use); expected a free port of this host; choose another MASTER_PORT");
}

TEST_F(TcpRendezvous, AnAddressWhereNobodyListensIsToldAndEndsTheWait) {
  // One rank per host logs it, or each rank that was started individually.
  const struct {
    int local_rank;
    const char* launcher;
    bool agent;
    const char* waits_for;
  } cases[] = {{0, "openmpi", false, "rank 0"},
               {1, "openmpi", false, nullptr},
               {0, "env", true, "torchrun's store"},
               {1, "env", true, nullptr},
               {1, "env", false, "rank 0"}};
  std::list<test::Port> silent;
  std::vector<LaunchInfo> launches;
  std::set<std::string> expected;
  for (const auto& [local_rank, launcher, agent, waits_for] : cases) {
    auto& launch = launches.emplace_back(launch_at(silent.emplace_back().number(), 1, 2));
    launch.local_rank = local_rank;
    launch.launcher = launcher;
    launch.agent_store = agent;
    if (waits_for == nullptr) continue;
    expected.insert(
        fmt::format("WARN rank=0: waiting for {} of 2 (OMPI_COMM_WORLD_SIZE) at "
                    "MASTER_ADDR:MASTER_PORT 127.0.0.1:{}; mpirun starts them",
                    waits_for, launch.master_port));
  }
  testing::internal::CaptureStderr();
  test::expect_own_timeout([&] {
    as_ranks(std::size(cases), [&](int i) {
      const auto& launch = launches[static_cast<std::size_t>(i)];
      const auto message = test::error_of(
          ExitCode::unavailable, [&] { join_rendezvous(launch, 1, {.first = 1ms, .again = 1h}); });
      test::expect_part(message, fmt::format("127.0.0.1:{} (", launch.master_port));
      test::expect_part(message, "expected rank 0 listening there");
    });
  });
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::set<std::string> told;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("WARN ")) told.insert(line);  // excludes LibTorch's own
  }
  EXPECT_EQ(told, expected);
}

}  // namespace
}  // namespace tg
