// Phased test-time training that is stopped and goes on.
#include <array>
#include <filesystem>

#include "tests/comm/ranks.h"
#include "tests/eval/phased_ttt.h"

namespace tg {
namespace {

using test::documents_of, test::kBos, test::kLengths, test::options_of, test::run_ttt,
    test::stopping, test::Tokens;

// Before each batch and, where a phase or the end follows, after it.
TEST(PhasedTtt, StopsBetweenBatchesAndGoesOnToTheSameBits) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto path = folder / "state.safetensors";
  constexpr std::array scored{0, 1, 1, 2, 2, 3, 4};
  for (const bool warm : {true, false}) {
    auto options = options_of();
    options.config.ttt_warm_start_a = warm;
    Communicator alone;
    test::TwoLayers undisturbed;
    const auto expected = run_ttt(tokens, options, alone, undisturbed);
    for (int times = 0; times < std::ssize(scored); ++times) {
      SCOPED_TRACE(times);
      const auto batches = scored.at(static_cast<std::size_t>(times));
      const auto text = test::error_of(ExitCode::stopped, [&] {
        test::TwoLayers model;
        run_ttt(tokens, stopping(options, path, times), alone, model);
      });
      EXPECT_NE(text.find(fmt::format("{} of 4 batches scored, state saved in {}", batches, path)),
                std::string::npos)
          << text;
      test::TwoLayers model;
      const auto run = run_ttt(tokens, stopping(options, path, 99), alone, model);
      EXPECT_EQ(run.score.loss, expected.score.loss);
      test::expect_same_weights(model.table, undisturbed.table);
      for (std::size_t t = 0; t < run.losses.size(); ++t) {
        if (std::isnan(run.losses[t])) continue;
        EXPECT_EQ(run.losses[t], expected.losses[t]) << t;
      }
      EXPECT_FALSE(std::filesystem::exists(path));
    }
  }
}

// At each of the times at which it asks; batches in flight are scored to their end.
TEST(PhasedTtt, GoesOnToTheSameBitsWithBatchesInFlight) {
  const auto tokens = documents_of(test::kManyLengths);
  const test::TempDir folder;
  const auto path = folder / "state.safetensors";
  Communicator alone;
  auto options = options_of();
  options.config.ttt_concurrent_batches = 2;
  int asked = 0;
  auto counting = options;
  counting.stop_requested = [&] { return ++asked < 0; };
  test::TwoLayers undisturbed;
  const auto expected = run_ttt(tokens, counting, alone, undisturbed);
  for (int times = 0; times < asked; ++times) {
    SCOPED_TRACE(times);
    test::TwoLayers stopped, model;
    test::error_of(ExitCode::stopped,
                   [&] { run_ttt(tokens, stopping(options, path, times), alone, stopped); });
    const auto run = run_ttt(tokens, stopping(options, path, 99), alone, model);
    EXPECT_EQ(run.score.loss, expected.score.loss);
    test::expect_same_weights(model.table, undisturbed.table);
    for (std::size_t t = 0; t < run.losses.size(); ++t) {
      if (std::isnan(run.losses[t])) continue;
      EXPECT_EQ(run.losses[t], expected.losses[t]) << t;
    }
  }
}

// One rank of two is told to stop; each has a file.
TEST(PhasedTtt, StopsOnAllRanksWhereOneIsToldToAndScoresTheOtherBatchesLater) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto path = [&](const Communicator& communicator) {
    return folder / fmt::format("state.{}", communicator.rank());
  };
  std::array<std::vector<double>, 2> first{}, later{};
  std::array<double, 2> scores{};
  test::as_ranks(2, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    const auto options = stopping(options_of(), path(communicator), rank == 1 ? 1 : 99);
    const SplitTokens split(test::ListedTokens(tokens), std::ssize(tokens) - 1, 20, nullptr, kBos,
                            at::kCPU);
    test::TwoLayers model;
    PhasedTtt ttt(model.gpt, model.table, split, options, at::kCPU, communicator);
    const auto losses = at::full({split.predictions()}, NAN, at::kDouble);
    ttt.save_token_losses(losses);
    test::error_of(ExitCode::stopped, [&] { ttt.run(); });
    first.at(rank) = test::values_of(losses);
  });
  test::as_ranks(2, [&](Communicator& communicator) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    test::TwoLayers model;
    const auto run =
        run_ttt(tokens, stopping(options_of(), path(communicator), 99), communicator, model);
    later.at(rank) = run.losses;
    scores.at(rank) = run.score.loss;
  });
  double sum = 0;
  int before = 0;
  for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
    int times = 0;
    for (const auto& losses : {first[0], first[1], later[0], later[1]}) {
      if (std::isnan(losses[t])) continue;
      sum += losses[t];
      ++times;
    }
    EXPECT_EQ(times, 1) << t;
    before += !std::isnan(first[0][t]) || !std::isnan(first[1][t]);
  }
  EXPECT_GT(before, 0);
  for (const double score : scores)
    EXPECT_NEAR(score, sum / static_cast<double>(tokens.size() - 1), 1e-7);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(PhasedTtt, RefusesAStateOfAnotherRunAndOneThatNotAllRanksHave) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto path = folder / "state.0";
  Communicator alone;
  test::TwoLayers model;
  test::error_of(ExitCode::stopped,
                 [&] { run_ttt(tokens, stopping(options_of(), path, 1), alone, model); });
  const auto refused = [&](const Tokens& of, const PhasedTttOptions& options, test::TwoLayers& own,
                           const std::string& why) {
    const auto text = test::error_of(ExitCode::config, [&] { run_ttt(of, options, alone, own); });
    EXPECT_NE(text.find(why), std::string::npos) << text;
  };
  auto others = stopping(options_of(), path, 99);
  others.config.ttt_lora_lr = 0.25;
  refused(tokens, others, model, "expected TTT_LORA_LR=0.25, found 0.02");
  others = stopping(options_of(), path, 99);
  others.config.ttt_concurrent_batches = 2;
  refused(tokens, others, model, "expected TTT_CONCURRENT_BATCHES=2, found 1");
  refused(documents_of(kLengths, 5), stopping(options_of(), path, 99), model, "expected tokens=");
  model.table.rows()[0].value.detach().add_(1);
  refused(tokens, stopping(options_of(), path, 99), model, "expected weights=");
  test::as_ranks(2, [&](Communicator& communicator) {
    const auto of_rank = folder / fmt::format("state.{}", communicator.rank());
    test::TwoLayers own;
    const auto lacking = test::error_of(ExitCode::missing_input, [&] {
      run_ttt(tokens, stopping(options_of(), of_rank, 99), communicator, own);
    });
    EXPECT_EQ(lacking.find("rank 1 has no state"), 0U) << lacking;
  });
}

// Rank 1's file is of a stop after the first phase, rank 0's of one before it.
TEST(PhasedTtt, RefusesStatesOfDifferentStops) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto path = [&](const char* stop, const Communicator& communicator) {
    return folder / fmt::format("{}.{}", stop, communicator.rank());
  };
  for (const auto& [stop, times] : {std::pair{"early", 0}, {"late", 2}})
    test::as_ranks(2, [&](Communicator& communicator) {
      test::TwoLayers model;
      test::error_of(ExitCode::stopped, [&] {
        run_ttt(tokens, stopping(options_of(), path(stop, communicator), times), communicator,
                model);
      });
    });
  std::filesystem::rename(folder / "late.1", folder / "early.1");
  test::as_ranks(2, [&](Communicator& communicator) {
    const auto of_rank = path("early", communicator);
    test::TwoLayers model;
    const auto text = test::error_of(ExitCode::config, [&] {
      run_ttt(tokens, stopping(options_of(), of_rank, 99), communicator, model);
    });
    EXPECT_EQ(text.find(of_rank + ": the ranks' states"), 0U) << text;
    EXPECT_NE(text.find("expected that of rank 1 to have 0 phases done"), std::string::npos)
        << text;
  });
}

}  // namespace
}  // namespace tg
