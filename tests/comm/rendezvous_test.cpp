// Properties of every kind of rendezvous.
#include "comm/rendezvous.h"

#include "tests/comm/rendezvous_testing.h"

namespace tg {
namespace {

using test::kTimeout_s;
using test::launch_at;
using test::launch_of;

class RendezvousTest : public test::RendezvousTest {};

TEST_F(RendezvousTest, ASingleRankNeedsNoStore) {
  const auto launch = launch_of(0, 1);
  const auto rendezvous = join_rendezvous(launch, kTimeout_s);
  EXPECT_FALSE(rendezvous.store);
  EXPECT_EQ(broadcast_from_rank_0(rendezvous, launch, "run_id", "mine"), "mine");
  require_same(rendezvous, launch, "A=1\n");
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(RendezvousTest, EveryRankNamesTheLineThatDiffersAndBothValues) {
  for (const int odd : {1, 2}) {
    std::array<std::string, 3> messages;
    as_ranks(3, [&](int rank) {
      const auto launch = launch_of(rank, 3);
      const auto rendezvous = join_rendezvous(launch, kTimeout_s);
      const auto lines = fmt::format("A=1\nMODEL_DIM={}\nSEED={}\n", rank == odd ? 64 : 512, rank);
      messages[static_cast<std::size_t>(rank)] =
          test::error_of(ExitCode::config, [&] { require_same(rendezvous, launch, lines); });
    });
    // All ranks fail with the same message, about the first rank and line that differ.
    const auto line = odd == 1 ? "rank 0 has MODEL_DIM=512, rank 1 has MODEL_DIM=64"
                               : "rank 0 has SEED=0, rank 1 has SEED=1";
    for (const auto& message : messages) test::expect_part(message, line);
  }
}

TEST_F(RendezvousTest, ARankThatNeverJoinsIsNamedWithinTheTimeout) {
  const test::Port port;
  for (const bool at_address : {false, true}) {
    const auto launch = [&](int rank) {
      return at_address ? launch_at(port.number(), rank, 3) : launch_of(rank, 3);
    };
    test::expect_own_timeout([&] {
      // Ranks 0 and 1 join, rank 2 does not. Rank 0, which may be the server, outlives rank 1.
      const auto first = join_rendezvous(launch(0), 1);
      const auto second = join_rendezvous(launch(1), 1);
      std::jthread rank_1([&] {
        const auto message = test::error_of(ExitCode::unavailable,
                                            [&] { require_same(second, launch(1), "A=1\n"); });
        test::expect_start(message, "rank 2 did not join at ");
      });
      const auto message =
          test::error_of(ExitCode::unavailable, [&] { require_same(first, launch(0), "A=1\n"); });
      test::expect_start(message, "rank 2 did not join at " + first.endpoint + " within 1 s; ");
    });
    EXPECT_TRUE(at_address || std::filesystem::is_empty(folder()));
  }
}

TEST_F(RendezvousTest, TheLowestRankThatHasJoinedNamesThoseThatHaveNot) {
  const test::Port port;
  for (const bool at_address : {false, true}) {
    const auto launch = [&](int rank) {
      return at_address ? launch_at(port.number(), rank, 5) : launch_of(rank, 5);
    };
    std::vector<Rendezvous> ranks;
    for (const int rank : {0, 1, 3}) ranks.push_back(join_rendezvous(launch(rank), kTimeout_s));
    const auto line = [&](int rank) { return waiting_line(ranks[0], launch(rank)); };
    std::vector<std::jthread> waiting;
    const auto join = [&](std::size_t i, int rank) {
      waiting.emplace_back([&, i, rank] { require_same(ranks[i], launch(rank), "A=1\n"); });
      ranks[i].store->clone()->wait({fmt::format("settings/{}", rank)});
    };
    join(2, 3);
    EXPECT_EQ(line(3), "waiting for ranks 0-2, 4 of 5 (OMPI_COMM_WORLD_SIZE); mpirun starts them");
    join(1, 1);
    EXPECT_EQ(line(3), "");
    EXPECT_EQ(line(1), "waiting for ranks 0, 2, 4 of 5 (OMPI_COMM_WORLD_SIZE); mpirun starts them");
    join(0, 0);
    EXPECT_EQ(line(1), "");
    EXPECT_EQ(line(0), "waiting for ranks 2, 4 of 5 (OMPI_COMM_WORLD_SIZE); mpirun starts them");
    for (const int rank : {2, 4}) {
      waiting.emplace_back([&, rank] {
        require_same(join_rendezvous(launch(rank), kTimeout_s), launch(rank), "A=1\n");
      });
    }
    waiting.clear();
    EXPECT_EQ(line(0), "");
  }
}

TEST_F(RendezvousTest, ARank0ThatSetsNothingIsNamedWithinTheTimeout) {
  const auto launch = launch_of(1, 2);
  const auto rendezvous = join_rendezvous(launch, 1);
  test::expect_own_timeout([&] {
    const auto message = test::error_of(
        ExitCode::unavailable, [&] { broadcast_from_rank_0(rendezvous, launch, "run_id", ""); });
    test::expect_start(message, "rank 0 did not join at " + rendezvous.endpoint);
  });
}

TEST_F(RendezvousTest, SeveralNodesNeedAnAddress) {
  auto launch = launch_of(1, 8);
  launch.one_node = false;
  const auto message =
      test::error_of(ExitCode::usage, [&] { join_rendezvous(launch, kTimeout_s); });
  test::expect_start(message,
                     "8 ranks (by openmpi, on several nodes) need a rendezvous; set MASTER_ADDR");
  test::expect_part(message, "set MASTER_ADDR to the first rank's host");
  // A job without a name could join another job's ranks.
  launch = launch_of(1, 8);
  launch.job = "";
  test::expect_part(test::error_of(ExitCode::usage, [&] { join_rendezvous(launch, kTimeout_s); }),
                    "set MASTER_ADDR");
}

}  // namespace
}  // namespace tg
