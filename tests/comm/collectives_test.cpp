// Sums, maxima and gathered parts of tensors over the ranks of a Communicator.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "comm/communicator.h"
#include "tests/comm/ranks.h"
#include "tests/ops/tensors.h"

namespace tg {
namespace {

using test::as_ranks;

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

TEST(Communicator, SumsAfterBeginTraining) {
  as_ranks(3, [&](Communicator& communicator) {
    communicator.begin_training();
    const auto one = at::ones({1}, at::kFloat);
    communicator.sum(one).wait();
    EXPECT_EQ(one.item<float>(), 3);
  });
}

}  // namespace
}  // namespace tg
