#pragma once
// Real ranks for tests: threads of one process, over Gloo.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <vector>

#include "comm/communicator.h"
#include "tests/files/testing.h"

namespace tg::test {

// Runs `work` as every rank of a group, one thread per rank.
inline void as_ranks(int world, const std::function<void(Communicator&)>& work,
                     SumOrder order = SumOrder::library) {
  // Turns LibTorch's flight recorder off: it adds a group to a map before it takes its lock, which
  // crashes when several groups start at once in one process. It reads this variable before its
  // first use.
  static const bool recorder_off [[maybe_unused]] = setenv("TORCH_FR_BUFFER_SIZE", "0", 1) == 0;
  const TempDir folder;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      try {
        LaunchInfo launch;
        launch.rank = rank;
        launch.world_size = world;
        const Rendezvous rendezvous{c10::make_intrusive<c10d::FileStore>(folder / "store", world),
                                    ""};
        Communicator communicator(rendezvous, launch, at::kCPU, /*timeout_s=*/60, order);
        work(communicator);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << rank << " of " << world << ": " << error.what();
      }
    });
  }
}

}  // namespace tg::test
