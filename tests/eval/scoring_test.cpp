// Compares decoding and the sliding window with plain loops over the model, in fp64,
// where another order of summation changes 1e-15.
#include <algorithm>
#include <numbers>
#include <numeric>

#include "data/segments.h"
#include "eval/sampling/generate.h"
#include "tests/comm/ranks.h"
#include "tests/eval/scoring_fixture.h"

namespace tg {
namespace {

using test::Tokens;
using test::scoring::kBos, test::scoring::kLength, test::scoring::kPredictions,
    test::scoring::kStride, test::scoring::kVocab;
using test::scoring::random_tokens, test::scoring::row, test::scoring::TestModel,
    test::scoring::window_losses;

constexpr double kTolerance = 1e-10;

ModelConfig config_of(const std::string& name) {
  if (name == "record") return test::tiny_record();
  if (name == "windows") {
    auto config = test::tiny_record();
    config.attention_window = {3, 0, 7, 1, 5};
    return config;
  }
  if (name == "gated_smear") return test::tiny_gated_smear();
  return name == "switches" ? test::tiny_switches() : test::tiny_speedrun();
}

TEST(TokenLosses, OfSomePositionsAreThoseOfAll) {
  for (const char* name : {"record", "switches", "speedrun", "windows"}) {
    const TestModel model(config_of(name));
    const auto inputs = test::integers({3, kLength}, kVocab, 2);
    const auto targets = test::integers({3, kLength}, kVocab, 3);
    const auto all = model.gpt.token_losses(inputs, targets);
    for (const Positions only : {Positions{11, 16}, Positions{0, 4}, Positions{7, 9}}) {
      const auto some =
          model.gpt.token_losses(inputs, targets.narrow(1, only.from, only.count()), only);
      EXPECT_TRUE(test::is_close(some, all.narrow(1, only.from, only.count()), 0, kTolerance))
          << name;
    }
  }
}

TEST(Decoding, TokenByTokenGivesTheLogitsOfTheWholeRow) {
  for (const char* name : {"record", "switches", "speedrun", "windows", "gated_smear"}) {
    const TestModel model(config_of(name));
    const auto ids = test::integers({2, kLength}, kVocab, 2);
    ids.select(1, 9).fill_(kBos);
    auto all_at_once = model.gpt.make_cache(2, kLength);
    const auto expected = model.gpt.next_logits(ids, all_at_once);
    // The logits are those that the loss uses.
    const auto next = test::integers({2, 1}, kVocab, 3);
    const auto nll = model.gpt.token_losses(ids, next, Positions{kLength - 1, kLength});
    EXPECT_TRUE(test::is_close(-expected.log_softmax(-1).gather(1, next), nll, 0, 1e-5)) << name;
    auto cache = model.gpt.make_cache(2, kLength);
    model.gpt.next_logits(ids.narrow(1, 0, 5), cache);
    at::Tensor logits;
    for (std::int64_t t = 5; t < kLength; ++t)
      logits = model.gpt.next_logits(ids.narrow(1, t, 1), cache);
    EXPECT_TRUE(test::is_close(logits, expected, 0, 1e-5)) << name;  // returned in fp32
  }
}

// Returns the nll [n] of every target of a row with documents, in one forward pass.
std::vector<double> losses_in_documents(const Gpt& model, const Tokens& tokens,
                                        const SegmentRule& rule) {
  const at::NoGradGuard no_grad;
  std::vector<double> losses;
  double before = 0;
  for (std::int64_t n = 1; n < std::ssize(tokens); ++n) {
    auto starts = at::zeros({1, n}, at::kBool);
    const std::span inputs(tokens.data(), static_cast<std::size_t>(n));
    for (const auto start : segment_starts(inputs, n, rule)) starts[0][start] = true;
    const auto mean =
        model.loss(row(tokens, 0, n), row(tokens, 1, n), {}, documents_in(starts, at::kCPU));
    const double sum = mean.item<double>() * static_cast<double>(n);
    losses.push_back(sum - before);
    before = sum;
  }
  return losses;
}

// BOS is 1. Two documents are longer than a segment; one begins with the second to last token.
TEST(Decoding, SeesWhatARowOfDocumentsSees) {
  auto tokens = random_tokens(4);
  tokens.resize(33);
  for (auto& token : tokens) token = std::max<std::uint16_t>(token, 2);
  for (const std::size_t bos : {0, 3, 4, 20, 31}) tokens[bos] = 1;
  for (const char* name : {"record", "windows"}) {
    SCOPED_TRACE(name);
    const TestModel model(config_of(name));
    for (const std::int64_t limit : {0, 6}) {
      const SegmentRule rule{.bos_id = 1, .limit = limit};
      const auto expected = losses_in_documents(model.gpt, tokens, rule);
      // A prompt of this length, then token by token.
      for (const std::int64_t prompt : {1, 4, 12, 32}) {
        auto cache = model.gpt.make_cache(1, std::ssize(tokens));
        for (auto n = static_cast<std::size_t>(prompt); n < tokens.size(); ++n) {
          const auto logits =
              next_logits(model.gpt, std::span(tokens).first(n), rule, cache, at::kCPU);
          const double nll = -logits.log_softmax(-1)[0][tokens[n]].item<double>();
          EXPECT_NEAR(nll, expected[n - 1], 1e-5) << n << " of " << prompt << ", " << limit;
        }
      }
    }
  }
}

TEST(Decoding, TakesTheRopeOfTheContextThatAttentionSpans) {
  auto config = test::tiny_speedrun();
  const TestModel model(config);
  const auto ids = test::integers({1, 40}, kVocab, 2);
  const auto logits = [&](std::int64_t capacity, std::int64_t context) {
    auto cache = model.gpt.make_cache(1, capacity, context);
    return model.gpt.next_logits(ids, cache);
  };
  EXPECT_TRUE(test::is_same(logits(1536, 1024), logits(40, 0)));
  EXPECT_FALSE(test::is_close(logits(1536, 0), logits(40, 0), 0, 1e-5));
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(SlidingWindow, IsTheMeanOfEveryWindowsOwnTokensOnAnyNumberOfRanks) {
  // Shorter rows would have another RoPE table if the sequence were longer than 1,024 tokens.
  const auto tokens = random_tokens(4);
  const WindowOptions options{.length = kLength, .stride = kStride};
  const auto windows = sliding_windows(kPredictions, options);
  const double expected = mean(window_losses(TestModel(test::tiny_record()).gpt, tokens, windows));
  for (const int world : {1, 2, 3}) {
    test::as_ranks(world, [&](Communicator& communicator) {
      TestModel model(test::tiny_record());
      const auto score = sliding_window_score(model.gpt, test::split_of(tokens, kLength, at::kCPU),
                                              options, at::kCPU, {.graphs = false}, communicator);
      EXPECT_NEAR(score.loss, expected, kTolerance) << world << " ranks";
      EXPECT_FALSE(score.bpb.has_value());
    });
  }
}

// The speedrun reads earlier tokens through attention only.
TEST(SlidingWindow, OfDocumentsLosesWhatEachSegmentLosesAlone) {
  const TestModel model(test::tiny_speedrun());
  const auto tokens = random_tokens(4);
  for (const std::int64_t stride : {3, 5, 16}) {
    for (const bool rescores : {false, true}) {
      const WindowOptions options{.length = kLength, .stride = stride, .rescore_tail = rescores};
      const auto scores = test::window_scores(model.gpt, tokens, options, at::kCPU,
                                              /*graphs=*/false, kBos);
      std::vector<double> alone(kPredictions);
      double sum = 0, count = 0;
      int segments = 0;
      for (const auto& [begin, from, to] : sliding_windows(kPredictions, options)) {
        for (auto first = begin; first < begin + to; ++segments) {
          auto end = first + 1;
          while (end < begin + to && tokens[static_cast<std::size_t>(end)] != kBos) ++end;
          const auto nll = test::values_of(model.gpt.token_losses(
              row(tokens, first, end - first), row(tokens, first + 1, end - first)));
          for (auto t = std::max(first, begin + from); t < end; ++t) {
            alone[static_cast<std::size_t>(t)] = nll[static_cast<std::size_t>(t - first)];
            sum += alone[static_cast<std::size_t>(t)], ++count;
          }
          first = end;
        }
      }
      ASSERT_GT(segments, kPredictions / stride);
      EXPECT_NEAR(scores.score.loss, sum / count, kTolerance) << stride;
      for (std::size_t t = 0; t < alone.size(); ++t)
        EXPECT_NEAR(scores.losses[t], alone[t], 1e-6) << t;  // stored in fp32
    }
  }
}

// A captured graph reads these segments.
TEST(HeldSegments, StayAtOneAddressUntilMoreComeThanThereIsRoomFor) {
  DeviceBatch batch{.inputs = at::zeros({2, 100}, at::kLong), .targets = {}};
  const auto held = [&](std::int64_t segments) {
    const auto own = at::cat({at::arange(segments, at::kInt), at::tensor({200}, at::kInt)});
    const bool moved = hold_segments(own, batch);
    EXPECT_TRUE(batch.segments.narrow(0, 0, segments + 1).equal(own));
    EXPECT_TRUE(batch.segments.slice(0, segments).eq(200).all().item<bool>());
    return moved;
  };
  EXPECT_TRUE(held(3));
  EXPECT_FALSE(held(64));
  EXPECT_FALSE(held(2));
  EXPECT_TRUE(held(65));
  EXPECT_FALSE(held(128));
  EXPECT_FALSE(hold_segments({}, batch));
}

TEST(SlidingWindow, OfDocumentsHasTheSameScoreOnAnyNumberOfRanks) {
  const auto tokens = random_tokens(4);
  const WindowOptions options{.length = kLength, .stride = kStride};
  const double expected = mean(window_losses(TestModel(test::tiny_record()).gpt, tokens,
                                             sliding_windows(kPredictions, options), true));
  for (const int world : {1, 3}) {
    test::as_ranks(world, [&](Communicator& communicator) {
      TestModel model(test::tiny_record());
      const auto split = test::split_of(tokens, kLength, at::kCPU, kBos);
      const auto score = sliding_window_score(model.gpt, split, options, at::kCPU,
                                              {.graphs = false}, communicator);
      EXPECT_NEAR(score.loss, expected, kTolerance) << world << " ranks";
    });
  }
}

// Expects sliding windows over the split to count this many bytes.
void expect_bytes(const Tokens& tokens, const TextBytes& counting, double bytes) {
  const SplitTokens split(test::ListedTokens(tokens), kPredictions, kLength, &counting, {},
                          at::kCPU);
  for (const int world : {1, 3}) {
    test::as_ranks(world, [&](Communicator& communicator) {
      TestModel model(test::tiny_record());
      const WindowOptions options{.length = kLength, .stride = kStride};
      const auto score = sliding_window_score(model.gpt, split, options, at::kCPU,
                                              {.graphs = false}, communicator);
      EXPECT_NEAR(score.loss * kPredictions / std::numbers::ln2 / *score.bpb, bytes, 1e-6);
    });
  }
}

// With a table that needs tokens from before a window, and windows that reach past the end.
TEST(SlidingWindow, CountsTheBytesOfEveryTokenOnce) {
  auto tokens = random_tokens(4);
  ByteTable table{.base_bytes = std::vector<std::int16_t>(kVocab, 3),
                  .leading_space = std::vector<std::uint8_t>(kVocab),
                  .boundary = std::vector<std::uint8_t>(kVocab),
                  .spelled_space = {1, 2, 3}};
  for (std::size_t i = 3; i + 2 < tokens.size(); i += 7)
    for (std::uint16_t k = 0; k < 3; ++k) tokens[i + k] = 1 + k;
  const auto bytes = static_cast<double>(count_bytes(table, tokens));
  ASSERT_LT(bytes, 3 * kPredictions);
  const TextBytes by_table{.table = table};
  expect_bytes(tokens, by_table, bytes);
}

TEST(SlidingWindow, CountsTheBytesOfASidecar) {
  auto entries = random_tokens(6);
  entries[20] = 60'000;
  const double bytes = std::accumulate(entries.begin() + 1, entries.end(), 0.0);
  expect_bytes(random_tokens(4), {.sidecar = std::make_shared<test::ListedTokens>(entries)}, bytes);
}

TEST(SlidingWindow, NoScoreChangesWhenLaterTokensDo) {
  const TestModel model(test::tiny_record());
  const WindowOptions options{.length = kLength, .stride = kStride};
  for (const auto& bos : {std::optional<std::int64_t>(), std::optional<std::int64_t>(kBos)}) {
    test::expect_no_score_sees_later_tokens(
        random_tokens(9), kVocab, {1, 15, 16, 17, 21, 150, kPredictions},
        [&](const Tokens& tokens) {
          return test::window_scores(model.gpt, tokens, options, at::kCPU, /*graphs=*/false, bos)
              .losses;
        });
  }
}

}  // namespace
}  // namespace tg
