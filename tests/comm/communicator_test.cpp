#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "tests/base/asleep.h"
#include "tests/comm/ranks.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

using test::as_ranks;

using namespace std::chrono_literals;

// Small integers, so that sums over up to five ranks are exact in any order and dtype.
at::Tensor values_of_rank(int rank, at::IntArrayRef shape, at::ScalarType dtype) {
  return test::integers(shape, 17, 40 + static_cast<std::uint64_t>(rank)).sub(8).to(dtype);
}

at::Tensor sum_of_ranks(int world, at::IntArrayRef shape, at::ScalarType dtype) {
  auto sum = at::zeros(shape, dtype);
  for (int rank = 0; rank < world; ++rank) sum += values_of_rank(rank, shape, dtype);
  return sum;
}

constexpr at::ScalarType kDtypes[] = {at::kFloat, at::kDouble, at::kBFloat16};
constexpr SumOrder kOrders[] = {SumOrder::library, SumOrder::ranks};

// Runs `work` in groups of 2, 3 and 5 ranks, in both orders of summation.
void in_both_orders(const std::function<void(Communicator&)>& work) {
  for (const auto order : kOrders) {
    for (const int world : {2, 3, 5}) as_ranks(world, work, order);
  }
}

// Ranks claim at different paces from two counters.
TEST(Communicator, EveryNumberOfACounterIsClaimedByOneRank) {
  constexpr int kNumbers = 20;
  for (const int world : {1, 3}) {
    std::array<std::array<std::atomic<int>, kNumbers>, 2> times{};
    const auto work = [&](Communicator& communicator) {
      for (auto& of_counter : times) {
        const int counter = communicator.make_counter();
        if (communicator.rank() == 2)
          continue;  // claims nothing from the first counter, nor the second
        for (auto number = communicator.claim(counter); number < kNumbers;
             number = communicator.claim(counter))
          ++of_counter.at(static_cast<std::size_t>(number));
      }
    };
    if (world == 1) {
      Communicator alone;
      work(alone);
    } else {
      as_ranks(world, work);
    }
    for (const auto& of_counter : times) {
      for (const auto& claims : of_counter) EXPECT_EQ(claims, 1);
    }
  }
}

TEST(Communicator, OnASingleRankEveryCollectiveIsTheIdentity) {
  LaunchInfo launch;
  Communicator by_default, by_launch({}, launch, at::kCPU, 60, SumOrder::ranks);
  for (auto* alone : {&by_default, &by_launch}) {
    EXPECT_EQ(alone->rank(), 0);
    EXPECT_EQ(alone->world_size(), 1);
    EXPECT_EQ(alone->watch(), nullptr);
    alone->time_collective_waits(true);
    const auto value = test::normal({3, 4}, 1);
    const auto summed = value.clone(), scattered = at::empty({3, 4}, at::kDouble),
               gathered = at::empty({3, 4}, at::kDouble);
    alone->sum(summed).wait();
    alone->reduce_scatter(scattered, value).wait();
    alone->all_gather(gathered, value).wait();
    alone->barrier();
    alone->begin_training();
    for (const auto& result : {summed, scattered, gathered}) {
      EXPECT_TRUE(test::is_same(result, value));
    }
    const int counter = alone->make_counter();
    EXPECT_EQ(alone->claim(counter), 0);
    EXPECT_EQ(alone->claim(counter, 3), 1);
    EXPECT_EQ(alone->claim(counter), 4);
    EXPECT_TRUE(alone->take_collective_waits().empty());
  }
}

TEST(Communicator, SumsOverRanks) {
  in_both_orders([](Communicator& communicator) {
    for (const auto dtype : kDtypes) {
      // A scalar, one element, fewer elements than ranks, many.
      for (const auto& shape : {std::vector<std::int64_t>{}, {1}, {2, 1}, {3, 7, 11}, {40001}}) {
        const auto value = values_of_rank(communicator.rank(), shape, dtype);
        communicator.sum(value).wait();
        EXPECT_TRUE(test::is_same(value, sum_of_ranks(communicator.world_size(), shape, dtype)))
            << dtype;
      }
    }
  });
}

TEST(Communicator, MaximaAreOfEachElement) {
  as_ranks(3, [&](Communicator& communicator) {
    const double rank = communicator.rank();
    const auto value = at::tensor({rank, -rank, 5.0}, at::kFloat);
    communicator.max(value).wait();
    EXPECT_TRUE(test::is_same(value, at::tensor({2.0, 0.0, 5.0}, at::kFloat)));
  });
}

TEST(Communicator, ATextIsRank0sOnEveryRank) {
  for (const int world : {1, 3}) {
    as_ranks(world, [&](Communicator& communicator) {
      for (const std::string& text :
           {std::string("a folder"), std::string(), std::string("\0\n", 2)}) {
        EXPECT_EQ(communicator.broadcast(communicator.rank() == 0 ? text : "of another"), text);
      }
    });
  }
}

TEST(Communicator, EveryRankKnowsTheFirstThatAnythingIsTrueOf) {
  for (const int world : {1, 3}) {
    as_ranks(world, [&](Communicator& communicator) {
      EXPECT_EQ(communicator.first_rank_with(false), std::nullopt);
      for (int first = 0; first < world; ++first) {
        EXPECT_EQ(communicator.first_rank_with(communicator.rank() >= first), first);
      }
    });
  }
}

TEST(Communicator, ScatteredSumsAreEachRanksPart) {
  in_both_orders([](Communicator& communicator) {
    const int world = communicator.world_size();
    for (const auto dtype : kDtypes) {
      for (const std::int64_t share : {1, 3}) {
        const std::vector<std::int64_t> shape{share * world, 5, 4};
        const auto in = values_of_rank(communicator.rank(), shape, dtype);
        const auto out = at::empty({share, 5, 4}, dtype);
        communicator.reduce_scatter(out, in).wait();
        const auto part =
            sum_of_ranks(world, shape, dtype).narrow(0, communicator.rank() * share, share);
        EXPECT_TRUE(test::is_same(out, part)) << dtype;
      }
    }
  });
}

// Values for which every order of addition gives a different sum.
TEST(Communicator, SumsInTheOrderOfRanksAreThoseOfTheStackedTerms) {
  const auto term = [](int rank, at::ScalarType dtype) {
    return test::normal({4 * 1003}, 80 + static_cast<std::uint64_t>(rank), at::kDouble)
        .mul(std::pow(-100.0, rank % 3))
        .to(dtype);
  };
  for (const int world : {2, 4}) {
    for (const auto dtype : kDtypes) {
      std::vector<at::Tensor> terms;
      for (int rank = 0; rank < world; ++rank) terms.push_back(term(rank, dtype));
      const auto expected = at::stack(terms).sum(0);
      as_ranks(
          world,
          [&](Communicator& communicator) {
            const auto summed = term(communicator.rank(), dtype);
            const auto in = summed.clone(), out = at::empty({4 * 1003 / world}, dtype);
            communicator.sum(summed).wait();
            communicator.reduce_scatter(out, in).wait();
            EXPECT_TRUE(test::is_same(summed, expected)) << dtype;
            EXPECT_TRUE(test::is_same(out, expected.chunk(world)[communicator.rank()])) << dtype;
          },
          SumOrder::ranks);
    }
  }
}

TEST(Communicator, RunsOnGpusThatMustRepeatTheirBitsSumInTheOrderOfRanks) {
  EXPECT_EQ(choose_sum_order(true, at::kCUDA), SumOrder::ranks);
  EXPECT_EQ(choose_sum_order(false, at::kCUDA), SumOrder::library);
  EXPECT_EQ(choose_sum_order(true, at::kCPU), SumOrder::library);
}

TEST(Communicator, GathersPartsInTheOrderOfRanks) {
  for (const int world : {2, 3, 5}) {
    as_ranks(world, [&](Communicator& communicator) {
      for (const auto dtype : kDtypes) {
        const auto out = at::empty({2 * world, 5, 4}, dtype);
        communicator.all_gather(out, values_of_rank(communicator.rank(), {2, 5, 4}, dtype)).wait();
        std::vector<at::Tensor> parts;
        for (int rank = 0; rank < world; ++rank) {
          parts.push_back(values_of_rank(rank, {2, 5, 4}, dtype));
        }
        EXPECT_TRUE(test::is_same(out, at::cat(parts))) << dtype;
      }
    });
  }
}

// Ranks that branch on a sum must agree, however it is rounded.
TEST(Communicator, RoundedSumsAreTheSameBitsOnEveryRank) {
  constexpr int kWorld = 5;
  for (const auto order : kOrders) {
    for (const auto dtype : kDtypes) {
      std::vector<at::Tensor> sums(kWorld);
      const auto work = [&](Communicator& communicator) {
        const auto rank = static_cast<std::uint64_t>(communicator.rank());
        sums[rank] = test::normal({1003}, 60 + rank, dtype);
        communicator.sum(sums[rank]).wait();
      };
      as_ranks(kWorld, work, order);
      for (const auto& sum : sums) EXPECT_TRUE(test::is_same(sum, sums[0])) << dtype;
    }
  }
}

TEST(Communicator, NoRankPassesABarrierBeforeAllReachIt) {
  for (const int world : {2, 3, 5}) {
    std::atomic<int> reached = 0;
    as_ranks(world, [&](Communicator& communicator) {
      for (int round = 1; round <= 20; ++round) {
        if (round % world == communicator.rank()) std::this_thread::sleep_for(2ms);
        ++reached;
        communicator.barrier();
        EXPECT_GE(reached, round * world);
      }
    });
  }
}

TEST(Communicator, ConcurrentCollectivesDoNotMix) {
  constexpr int kWorld = 3, kEach = 8;  // collectives of each kind
  const auto work = [&](Communicator& communicator) {
    const auto value = [](int rank, int collective, at::IntArrayRef shape) {
      return values_of_rank(rank + 10 * collective, shape, at::kFloat);
    };
    const auto sum_of = [&](int collective, at::IntArrayRef shape) {
      return value(0, collective, shape) + value(1, collective, shape) +
             value(2, collective, shape);
    };
    const int rank = communicator.rank();
    std::vector<at::Tensor> summed, scattered, gathered;
    std::vector<Pending> pending;
    for (int i = 0; i < kEach; ++i) {
      // The sizes differ so much that small collectives would overtake large ones.
      const std::int64_t n = i % 2 == 0 ? 20000 : 1;
      summed.push_back(value(rank, i, {n}));
      pending.push_back(communicator.sum(summed.back()));
      scattered.push_back(at::empty({n}, at::kFloat));
      // Only the collective holds a reference to its input.
      pending.push_back(
          communicator.reduce_scatter(scattered.back(), value(rank, i, {kWorld * n})));
      gathered.push_back(at::empty({kWorld * n}, at::kFloat));
      pending.push_back(communicator.all_gather(gathered.back(), value(rank, i, {n})));
    }
    for (auto last = pending.rbegin(); last != pending.rend(); ++last) last->wait();
    for (int i = 0; i < kEach; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const auto n = summed[at].numel();
      EXPECT_TRUE(test::is_same(summed[at], sum_of(i, {n}))) << i;
      EXPECT_TRUE(test::is_same(scattered[at], sum_of(i, {kWorld * n}).narrow(0, rank * n, n)))
          << i;
      const auto parts = at::cat({value(0, i, {n}), value(1, i, {n}), value(2, i, {n})});
      EXPECT_TRUE(test::is_same(gathered[at], parts)) << i;
    }
  };
  for (const auto order : kOrders) as_ranks(kWorld, work, order);
}

TEST(Communicator, ARankThatExitsEndsTheWaitOfTheOthers) {
  for (const int world : {2, 3, 5}) {
    as_ranks(world, [&](Communicator& communicator) {
      communicator.barrier();
      if (communicator.rank() == world - 1) return;
      communicator.watch()->set_step(12);
      // One sum may still succeed if the lost rank had sent its part before it exited.
      const auto message = test::error_of(ExitCode::unavailable, [&] {
        for (int i = 0; i < 3; ++i) communicator.sum(at::ones({1000}, at::kFloat)).wait();
      });
      test::expect_start(message, "a peer was lost at step 12 (");
    });
  }
}

// Threads of this process with that name (`found`: their number) that do not block SIGPIPE.
std::vector<std::string> threads_without_sigpipe_blocked(const std::string& name, int& found) {
  std::vector<std::string> open;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    const std::string text(std::istreambuf_iterator<char>(status), {});
    if (!text.starts_with("Name:\t" + name)) continue;
    ++found;
    const auto blocked = std::stoull(text.substr(text.find("SigBlk:") + 7), nullptr, 16);
    if ((blocked >> (SIGPIPE - 1) & 1) == 0) open.push_back(thread.path());
  }
  return open;
}

TEST(Communicator, GloosThreadsBlockSigpipe) {
  as_ranks(2, [&](Communicator& communicator) {
    communicator.barrier();
    int found = 0;
    EXPECT_EQ(threads_without_sigpipe_blocked("pt_gloo_runloop", found),
              std::vector<std::string>());
    EXPECT_GT(found, 0);
    communicator.barrier();
  });
}

// A store whose set() runs out of memory.
template <class Exhausted>
class FullStore : public c10d::HashStore {
 public:
  void set(const std::string&, const std::vector<uint8_t>&) override { throw Exhausted(); }
};

struct GpuIsFull : c10::OutOfMemoryError {
  GpuIsFull() : OutOfMemoryError("CUDA out of memory") {}
};

TEST(Communicator, OutOfMemoryIsNotReportedAsALostPeer) {
  LaunchInfo launch;
  launch.world_size = 2;
  const auto join = [&](const Store& store) {
    Communicator({store, ""}, launch, at::kCPU, 60, SumOrder::library);
  };
  EXPECT_THROW(join(c10::make_intrusive<FullStore<GpuIsFull>>()), c10::OutOfMemoryError);
  EXPECT_THROW(join(c10::make_intrusive<FullStore<std::bad_alloc>>()), std::bad_alloc);
}

TEST(Communicator, TimesItsWaitsForALateRank) {
  std::promise<::pid_t> first;  // rank 0's thread, when it only waits
  std::optional<Event> joined;  // by rank 1
  std::array<std::vector<Communicator::CollectiveWait>, 2> waits;
  as_ranks(2, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    communicator.barrier();
    EXPECT_TRUE(communicator.take_collective_waits().empty());  // timing is off
    communicator.time_collective_waits(true);
    if (rank == 1) {
      test::wait_until_asleep(first.get_future().get());
      joined.emplace(compute_stream(at::kCPU));
    }
    auto pending = communicator.sum(at::ones({10}, at::kFloat));
    if (rank == 0) first.set_value(::gettid());
    pending.wait();
    waits[rank] = communicator.take_collective_waits();
    EXPECT_TRUE(communicator.take_collective_waits().empty());
    communicator.time_collective_waits(false);
    communicator.barrier();
    EXPECT_TRUE(communicator.take_collective_waits().empty());
  });
  ASSERT_TRUE(joined);
  for (const auto& of_rank : waits) ASSERT_EQ(of_rank.size(), 1u);
  EXPECT_GE(waits[0][0].first.ms_until(*joined), 0);
  EXPECT_GE(joined->ms_until(waits[0][0].second), 0);
  EXPECT_GE(joined->ms_until(waits[1][0].first), 0);
  EXPECT_GE(waits[1][0].first.ms_until(waits[1][0].second), 0);
}

TEST(Communicator, SumsAfterBeginTraining) {
  as_ranks(3, [&](Communicator& communicator) {
    communicator.begin_training();
    const auto one = at::ones({1}, at::kFloat);
    communicator.sum(one).wait();
    EXPECT_EQ(one.item<float>(), 3);
  });
}

TEST(Communicator, MakesAThingOnceForTheRanksOfAHost) {
  for (const int world : {1, 3}) {
    std::atomic<int> made = 0;
    as_ranks(world, [&](Communicator& communicator) {
      const auto make = [&] { return fmt::format("number {}", ++made); };
      EXPECT_EQ(communicator.once_per_host(make), "number 1");
      communicator.barrier();
      EXPECT_EQ(communicator.once_per_host(make), "number 2");
    });
    EXPECT_EQ(made, 2);
  }
}

TEST(Communicator, LetsNobodyWaitForWhatCouldNotBeMade) {
  std::atomic<int> failed = 0, empty = 0;
  as_ranks(3, [&](Communicator& communicator) {
    try {
      const auto made = communicator.once_per_host(
          []() -> std::string { fail(ExitCode::cannot_create, "no room"); });
      empty += made.empty();
    } catch (const Error& error) {
      failed += error.exit_code() == ExitCode::cannot_create;
    }
    communicator.barrier();
  });
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(empty, 2);
}

}  // namespace
}  // namespace tg
