// Phased test-time training that is stopped or killed and resumed.
#include <array>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>

#include "tests/comm/ranks.h"
#include "tests/eval/phased_ttt.h"

namespace tg {
namespace {

namespace fs = std::filesystem;
using test::documents_of, test::expect_part, test::going_on, test::kBos, test::kLengths,
    test::options_of, test::run_ttt, test::stopping, test::Tokens;

std::string file_of(const std::string& prefix, int phases) {
  return fmt::format("{}.phase-{}.safetensors", prefix, phases);
}

// A run without a stop, and how often it queries for one.
struct Undisturbed {
  Undisturbed(const Tokens& tokens, PhasedTttOptions options) {
    options.stop_requested = [this] { return ++asked < 0; };
    Communicator alone;
    run = run_ttt(tokens, options, alone, model);
  }
  test::TwoLayers model;
  test::TttRun run;
  int asked = 0;
};

// Resumes from PREFIX and expects the result of an undisturbed run. Returns the predictions that
// were scored now.
test::TttRun expect_the_same_bits(const Tokens& tokens, const PhasedTttOptions& options,
                                  const std::string& prefix, const Undisturbed& expected) {
  Communicator alone;
  test::TwoLayers model;
  auto run = run_ttt(tokens, going_on(options, prefix), alone, model);
  EXPECT_EQ(run.score.loss, expected.run.score.loss);
  test::expect_same_weights(model.table, expected.model.table);
  for (std::size_t t = 0; t < run.losses.size(); ++t) {
    if (std::isnan(run.losses[t])) continue;
    EXPECT_EQ(run.losses[t], expected.run.losses[t]) << t;
  }
  EXPECT_TRUE(fs::is_empty(fs::path(prefix).parent_path()));
  return run;
}

// Stops within a batch, whose scores are then dropped, between batches, in a phase, and at the end:
// each start goes on from the stop before it, and gets a little further until it has scored another
// batch. A is carried over to a slot's next batch, or drawn anew.
TEST(PhasedTtt, StopsBetweenChunksAndGoesOnToTheSameBits) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto prefix = folder / "state";
  for (const auto& [concurrent, warm] : {std::pair{1, true}, {1, false}, {2, true}}) {
    auto options = options_of();
    options.config.ttt_warm_start_a = warm;
    options.config.ttt_concurrent_batches = concurrent;
    Communicator alone;
    const Undisturbed expected(tokens, options);
    const int asked = expected.asked;
    ASSERT_GT(asked, 30);
    // Stops after so many queries; returns the number of scored batches.
    const auto stop = [&](int times) {
      SCOPED_TRACE(fmt::format("{} in flight, asked {} times", concurrent, times));
      const auto text = test::error_of(ExitCode::stopped, [&] {
        test::TwoLayers model;
        run_ttt(tokens, stopping(options, prefix, times), alone, model);
      });
      int scored = -1;
      EXPECT_EQ(
          std::sscanf(text.c_str(), "phased test-time training stopped with %d of 4", &scored), 1);
      expect_part(text, "batches scored, state saved in " + prefix + ".phase-");
      return scored;
    };
    EXPECT_EQ(stop(asked - 1), 4);  // the last stop that there is
    expect_the_same_bits(tokens, options, prefix, expected);
    int most = 0, stops = 0;
    for (int times = 3; most < 4 - concurrent; ++stops) {
      ASSERT_LT(times, asked);
      const int scored = stop(times);
      ASSERT_GE(scored, most);
      times = scored > most ? 3 : times + 2;
      most = scored;
    }
    EXPECT_GE(stops, 8);
    expect_the_same_bits(tokens, options, prefix, expected);
  }
}

// Kills may come at any time; scores that were saved after a batch are not computed again.
TEST(PhasedTtt, IsKilledAndGoesOnFromTheLastBatchToTheSameBits) {
  const auto tokens = documents_of(test::kManyLengths);
  const test::TempDir folder;
  const auto prefix = folder / "state";
  struct Killed {};
  for (const int concurrent : {1, 2}) {
    auto options = options_of();
    options.saving_fraction = 1e18;
    options.config.ttt_concurrent_batches = concurrent;
    Communicator alone;
    const Undisturbed expected(tokens, options);
    // All of them together have fewer queries than the run.
    for (int times = 3, sum = 3; sum < expected.asked; sum += times += 11) {
      SCOPED_TRACE(fmt::format("{} in flight, asked {} times", concurrent, times));
      auto killed = going_on(options, prefix);
      killed.stop_requested = [left = times]() mutable {
        if (left-- == 0) throw Killed();
        return false;
      };
      test::TwoLayers model;
      EXPECT_THROW(run_ttt(tokens, killed, alone, model), Killed);
    }
    const auto run = expect_the_same_bits(tokens, options, prefix, expected);
    const auto scored_again = std::ranges::count_if(run.losses, [](double l) { return l == l; });
    EXPECT_LT(scored_again, std::ssize(run.losses) * 2 / 3);
  }
}

// A state stores only what it needs.
TEST(PhasedTtt, SavesAOnlyWhereItGoesOnAndWeightsOnlyOnceTheyChanged) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto prefix = folder / "state";
  Communicator alone;
  for (const bool warm : {true, false}) {
    auto options = options_of();
    options.config.ttt_warm_start_a = warm;
    for (const auto& [times, phases] :
         {std::pair{0, 0}, {Undisturbed(tokens, options).asked - 1, 2}}) {
      test::TwoLayers model;
      testing::internal::CaptureStdout();
      test::error_of(ExitCode::stopped,
                     [&] { run_ttt(tokens, stopping(options, prefix, times), alone, model); });
      const auto lines = testing::internal::GetCapturedStdout();
      std::uint64_t announced = 0;
      const auto line = "ttt_state: " + prefix + ".phase-K.safetensors bytes:";
      expect_part(lines, line);
      announced = std::stoull(lines.substr(lines.find(line) + line.size()));
      std::set<std::string> names;
      std::uint64_t bytes = 0;
      for (const auto& [name, tensor] : load_safetensors(file_of(prefix, phases))) {
        names.insert(name.substr(0, name.find('.', 8)));
        bytes += tensor.nbytes();
      }
      EXPECT_EQ(names.contains("slots.0.adapters"), warm);
      const auto weights = [](const std::string& name) { return name.starts_with("weights."); };
      EXPECT_EQ(std::ranges::any_of(names, weights), phases > 0);
      EXPECT_LE(bytes, announced);
      if (phases > 0) {
        EXPECT_EQ(bytes, announced);
      }
      fs::remove(file_of(prefix, phases));
    }
  }
}

// Two ranks, of which rank 1 is told to stop; each has its own files.
class PhasedTttOnTwoRanks : public testing::Test {
 protected:
  using Runs = std::array<test::TttRun, 2>;
  std::string prefix(int rank) const { return folder_ / fmt::format("state.{}", rank); }
  bool has_state(int rank, int phases) const { return fs::exists(file_of(prefix(rank), phases)); }

  // Runs until rank 1 sees the stop request; null: to the end.
  Runs run(const std::function<bool()>& stops = nullptr) const {
    Runs runs{};
    test::as_ranks(2, [&](Communicator& communicator) {
      const int rank = communicator.rank();
      auto options = going_on(options_of(), prefix(rank));
      if (stops && rank == 1) options.stop_requested = stops;
      const SplitTokens split(test::ListedTokens(tokens_), std::ssize(tokens_) - 1, 20, nullptr,
                              kBos, at::kCPU);
      test::TwoLayers model;
      PhasedTtt ttt(model.gpt, model.table, split, options, at::kCPU, communicator);
      const auto losses = at::full({split.predictions()}, NAN, at::kDouble);
      ttt.save_token_losses(losses);
      auto& own = runs.at(static_cast<std::size_t>(rank));
      if (stops)
        test::error_of(ExitCode::stopped, [&] { ttt.run(); });
      else
        own.score = ttt.run();
      own.losses = test::values_of(losses);
    });
    return runs;
  }
  static std::function<bool()> asked_more_than(int times) {
    return [times, asked = std::make_shared<int>(0)] { return (*asked)++ >= times; };
  }
  // The score is the mean of the losses that were computed last.
  void expect_score_of(const std::vector<Runs>& starts) const {
    double sum = 0;
    for (std::size_t t = 0; t + 1 < tokens_.size(); ++t) {
      double last = NAN;
      for (const auto& runs : starts) {
        EXPECT_FALSE(!std::isnan(runs[0].losses[t]) && !std::isnan(runs[1].losses[t])) << t;
        for (const auto& run : runs)
          if (!std::isnan(run.losses[t])) last = run.losses[t];
      }
      sum += last;
    }
    for (const auto& run : starts.back())
      EXPECT_NEAR(run.score.loss, sum / static_cast<double>(tokens_.size() - 1), 1e-7);
    EXPECT_TRUE(fs::is_empty(folder_.path()));
  }

  const Tokens tokens_ = documents_of(kLengths);
  const test::TempDir folder_;
};

TEST_F(PhasedTttOnTwoRanks, StopWhereOneIsToldToAndScoreTheOtherBatchesLater) {
  for (const int times : {0, 6}) {
    const auto first = run(asked_more_than(times));
    EXPECT_FALSE(fs::is_empty(folder_.path()));
    expect_score_of({first, run()});
  }
}

// A kill before rank 1 saved for the first time: its scores are computed again.
TEST_F(PhasedTttOnTwoRanks, GoOnWhereOneHadNotSavedYet) {
  const auto first = run(asked_more_than(2));
  ASSERT_TRUE(has_state(0, 0) && has_state(1, 0));
  fs::remove(file_of(prefix(1), 0));
  expect_score_of({first, run()});
}

// A kill after rank 0 saved its state of a phase, and before rank 1 did.
TEST_F(PhasedTttOnTwoRanks, GoOnFromTheLastPhaseThatBothHave) {
  const auto early = run(asked_more_than(2));
  const test::TempDir aside;
  for (const int rank : {0, 1}) fs::copy(file_of(prefix(rank), 0), aside / std::to_string(rank));
  run([this] { return has_state(1, 1); });
  ASSERT_TRUE(has_state(0, 1) && !has_state(0, 0));
  for (const int rank : {0, 1}) fs::copy(aside / std::to_string(rank), file_of(prefix(rank), 0));
  fs::remove(file_of(prefix(1), 1));
  expect_score_of({early, run()});
}

TEST_F(PhasedTttOnTwoRanks, RefuseStatesThatDoNotBelongTogether) {
  run([this] { return has_state(1, 1); });
  const auto scored_first = [&](int rank) {
    for (const auto& [name, tensor] : load_safetensors(file_of(prefix(rank), 1)))
      if (name == "scored") return *tensor.const_data_ptr<double>() > 0;
    return false;
  };
  const int owner = scored_first(0) ? 0 : 1, other = 1 - owner;
  fs::remove(file_of(prefix(other), 1));
  const auto refused = [&](ExitCode code, const std::string& why) {
    test::as_ranks(2, [&](Communicator& communicator) {
      const auto options = going_on(options_of(), prefix(communicator.rank()));
      test::TwoLayers model;
      expect_part(test::error_of(code, [&] { run_ttt(tokens_, options, communicator, model); }),
                  why);
    });
  };
  refused(ExitCode::missing_input,
          fmt::format("rank {} has a state of test-time training of a later phase", owner));
  fs::copy(file_of(prefix(owner), 1), file_of(prefix(other), 1));
  refused(ExitCode::config, "two ranks' states of test-time training have scored batch 1 ");
}

TEST(PhasedTtt, RefusesAStateOfAnotherEvaluation) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto prefix = folder / "state";
  const auto bytes_of_each = [&](TokenId bytes) {
    return TextBytes{.sidecar = std::make_shared<test::ListedTokens>(Tokens(tokens.size(), bytes))};
  };
  const auto two = bytes_of_each(2), three = bytes_of_each(3);
  auto options = options_of();
  options.settings = {{"LOGIT_SOFTCAP", "30"}, {"XSA_LAST_N", "4"}};
  Communicator alone;
  test::TwoLayers model;
  test::error_of(ExitCode::stopped,
                 [&] { run_ttt(tokens, stopping(options, prefix, 1), alone, model, &two); });
  const auto refused = [&](const Tokens& others, const PhasedTttOptions& now,
                           const TextBytes& bytes, const std::string& why) {
    const auto text = test::error_of(
        ExitCode::config, [&] { run_ttt(others, going_on(now, prefix), alone, model, &bytes); });
    expect_part(text, file_of(prefix, 0) + ": this state of test-time training is of another");
    expect_part(text, why);
  };
  auto others = options;
  others.config.ttt_lora_lr = 0.25;
  others.config.ttt_concurrent_batches = 2;
  refused(tokens, others, two, "(TTT_CONCURRENT_BATCHES=1, now 2; TTT_LORA_LR=0.02, now 0.25)");
  others = options;
  others.settings["LOGIT_SOFTCAP"] = "20";
  refused(tokens, others, two, "(LOGIT_SOFTCAP=30, now 20)");
  others.settings = {{"LOGIT_SOFTCAP", "30"}, {"XSA_LAST_N", "4"}, {"A_LATER_SETTING", "1"}};
  refused(tokens, others, two, "(no A_LATER_SETTING, now 1)");
  refused(tokens, options, three, "(byte counts=");
  refused(documents_of(kLengths, 5), options, two, "(tokens=");
  model.gpt.set_stage(0);
  refused(tokens, options, two, "(stage=1, now 0)");
  model.gpt.set_stage(1);
  model.table.rows()[0].value.detach().add_(1);
  refused(tokens, options, two, "(weights=");
  fs::rename(file_of(prefix, 0), file_of(prefix, 1));
  auto text = test::error_of(ExitCode::config, [&] {
    test::TwoLayers own;
    run_ttt(tokens, going_on(options, prefix), alone, own, &two);
  });
  expect_part(text, "(phases done=0, now 1)");
}

// A folder that cannot be written, or that another evaluation uses, is an error at once.
TEST(TttStateFiles, TryTheirPlaceHoldItAndRemoveWhatAKillLeft) {
  const test::TempDir folder;
  const auto prefix = folder / "state";
  const auto left = file_of(prefix, 3) + ".tmp.4194304", other = prefix + ".phase-x.tmp.4194304";
  test::write_file(left, "half");
  test::write_file(other, "another's");
  {
    const TttStateFiles files(prefix);
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(other));
    const auto text = test::error_of(ExitCode::cannot_create, [&] { TttStateFiles again(prefix); });
    expect_part(text, "another evaluation keeps its state in " + prefix);
    expect_part(text, "found it locked by pid ");
    expect_part(text, "--state-dir DIR");
  }
  const TttStateFiles again(prefix);
  const auto text =
      test::error_of(ExitCode::cannot_create, [&] { TttStateFiles files(folder / "none/state"); });
  expect_part(text, folder / "none/state.lock: cannot be created (No such file");
  expect_part(text, "--state-dir DIR");
}

// A full disk causes a warning; only a stop then fails.
TEST(PhasedTtt, GoesOnWhereItsStateCannotBeSaved) {
  const auto tokens = documents_of(kLengths);
  const test::TempDir folder;
  const auto prefix = folder / "state";
  Communicator alone;
  test::TwoLayers undisturbed, model;
  const auto expected = run_ttt(tokens, options_of(), alone, undisturbed);
  auto options = going_on(options_of(), prefix);
  options.saving_fraction = 1e18;
  // A file cannot replace a folder.
  options.stop_requested = [&] {
    for (const int phases : {0, 1, 2}) fs::create_directory(file_of(prefix, phases));
    return false;
  };
  testing::internal::CaptureStderr();
  const auto run = run_ttt(tokens, options, alone, model);
  expect_part(testing::internal::GetCapturedStderr(),
              "is a folder, expected a file; a kill would lose what was scored");
  EXPECT_EQ(run.score.loss, expected.score.loss);
  options.stop_requested = [&] {
    fs::create_directory(file_of(prefix, 0));
    return true;
  };
  test::error_of(ExitCode::cannot_create, [&] { run_ttt(tokens, options, alone, model); });
}

TEST(SavingPace, TakesItsShareOfTheTimeByWhatSavingTookOrWouldTake) {
  EXPECT_TRUE(SavingPace(0.02, 0).due());
  EXPECT_FALSE(SavingPace(0.02, 1'000'000'000).due());
  SavingPace pace(0.02, 1'000'000'000);
  pace.saved(1e-12);
  EXPECT_TRUE(pace.due());
  pace.saved(1);
  EXPECT_FALSE(pace.due());
}

}  // namespace
}  // namespace tg
