// Compares the sliding window and test-time training with plain loops over the model, in fp64,
// where another order of summation changes 1e-15.
#include <algorithm>
#include <numbers>
#include <numeric>

#include "data/segments.h"
#include "eval/sampling/generate.h"
#include "eval/scores/window_scorer.h"
#include "tests/comm/ranks.h"
#include "tests/eval/legality.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

constexpr int kVocab = 40;
constexpr std::int64_t kLength = 16, kStride = 5, kPredictions = 160;
constexpr double kTolerance = 1e-10;
constexpr int kBos = 1;  // begins a document

using test::Tokens;

Tokens random_tokens(std::uint64_t seed) {
  return test::random_tokens(kPredictions + 1, kVocab, seed);
}

// Returns a row [1, count] of tokens from `begin` on.
at::Tensor row(const Tokens& tokens, std::int64_t begin, std::int64_t count) {
  const std::vector<std::int64_t> ids(tokens.begin() + begin, tokens.begin() + begin + count);
  return at::tensor(ids, at::kLong).unsqueeze(0);
}

struct TestModel {
  explicit TestModel(const ModelConfig& config)
      : table(test::random_parameters(config, at::kDouble, 1)),
        gpt(test::plan_of(config), table, {.compute = at::kDouble, .bos_id = kBos}) {}
  ParameterTable table;
  Gpt gpt;
};

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

std::optional<Documents> bos_documents(const at::Tensor& inputs, bool documents) {
  if (!documents) return {};
  return documents_in(inputs.eq(kBos), at::kCPU);
}

// Returns every token's nll in the window that scores it.
std::vector<double> window_losses(const Gpt& gpt, const Tokens& tokens,
                                  std::span<const Window> windows, bool documents = false) {
  std::vector<double> losses(kPredictions);
  for (const auto& [begin, from, to] : windows) {
    const auto inputs = row(tokens, begin, to);
    const auto nll = test::values_of(
        gpt.token_losses(inputs, row(tokens, begin + 1, to), {}, bos_documents(inputs, documents)));
    std::copy(nll.begin() + from, nll.begin() + to, losses.begin() + begin + from);
  }
  return losses;
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

TttOptions ttt_options() {
  TttOptions options;
  options.windows = {.length = kLength, .stride = kStride};
  options.config.ttt_lr = 0.5;
  options.config.ttt_epochs = 2;
  options.config.ttt_chunk_tokens = 64;
  options.config.ttt_freeze_blocks = 2;
  options.config.ttt_batch_seqs = 3;
  return options;
}

struct TttRun {
  std::vector<double> losses;  // one for each token
  Score score;
  ParameterTable table;
};
TttRun run_ttt(const Tokens& tokens, const TttOptions& options, Communicator& communicator,
               std::optional<std::int64_t> bos_id = {}) {
  TestModel model(test::tiny_record());
  auto [losses, score] =
      test::ttt_scores(model.gpt, model.table, tokens, options, at::kCPU, communicator, bos_id);
  return {std::move(losses), score, std::move(model.table)};
}
TttRun run_ttt(const Tokens& tokens, const TttOptions& options,
               std::optional<std::int64_t> bos_id = {}) {
  Communicator alone;
  return run_ttt(tokens, options, alone, bos_id);
}

TEST(TestTimeTrainingTest, NoScoreChangesWhenLaterTokensDo) {
  test::expect_no_score_sees_later_tokens(
      random_tokens(5), kVocab, {30, 64, 65, 101, 150},
      [](const Tokens& tokens) { return run_ttt(tokens, ttt_options()).losses; });
}

// Scores the chunks and trains on them one after the other, with autograd and an SGD loop.
void expect_chunks_scored_and_trained_on(bool documents) {
  const auto tokens = random_tokens(6);
  auto options = ttt_options();
  options.config.ttt_freeze_blocks = 0;
  std::optional<std::int64_t> bos;
  if (documents) bos = kBos;
  const auto run = run_ttt(tokens, options, bos);

  TestModel model(test::tiny_record());
  const auto chunks = windows_of_chunks(kPredictions, options.windows, 64);
  std::map<std::string, at::Tensor> momentum;
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const auto expected = window_losses(model.gpt, tokens, chunks[chunk], documents);
    for (const auto& window : chunks[chunk]) {
      for (auto t = window.begin + window.from; t < window.begin + window.to; ++t) {
        const auto at = static_cast<std::size_t>(t);
        EXPECT_NEAR(run.losses[at], expected[at], 1e-6) << "token " << t;  // stored in fp32
      }
    }
    // Chunks of 64, 64 and 32 tokens; the last one is not trained on. Batches of 3 rows and 1.
    if (chunk + 1 == chunks.size()) break;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const auto& [first, rows] : {std::pair{0, 3}, std::pair{3, 1}}) {
        const auto begin = static_cast<std::int64_t>(chunk) * 64 + first * kLength;
        const auto ids = row(tokens, begin, rows * kLength + 1);
        const auto inputs = ids.narrow(1, 0, rows * kLength).view({rows, kLength});
        model.gpt
            .loss(inputs, ids.narrow(1, 1, rows * kLength).view({rows, kLength}), {},
                  bos_documents(inputs, documents))
            .backward();
        model.gpt.collect_gradients();
        const at::NoGradGuard no_grad;
        double squares = 0;
        for (const auto& row : model.table.rows()) {
          if (row.value.grad().defined()) squares += row.value.grad().square().sum().item<double>();
        }
        const double clip = std::min(1.0, 1.0 / (std::sqrt(squares) + 1e-6));
        for (const auto& row : model.table.rows()) {
          if (!row.value.grad().defined()) continue;
          auto& buffer = momentum[row.name];
          if (!buffer.defined()) buffer = at::zeros_like(row.value);
          buffer.mul_(0.9).add_(row.value.grad() * clip);
          row.value.detach().sub_(buffer * (0.25 * (1 + std::cos(M_PI * double(chunk) / 2))));
          row.value.grad().zero_();
        }
        model.gpt.cast_weights();
      }
    }
  }
}

TEST(TestTimeTrainingTest, EveryChunkIsScoredByTheModelThatEarlierChunksTrained) {
  expect_chunks_scored_and_trained_on(/*documents=*/false);
}
TEST(TestTimeTrainingTest, OfDocumentsSeesNoOtherInScoresAndUpdates) {
  expect_chunks_scored_and_trained_on(/*documents=*/true);
}

TEST(TestTimeTrainingTest, LeavesTheFirstBlocksAloneAndTheirSlicesOfTheBanks) {
  const auto tokens = random_tokens(7);
  const TestModel fresh(test::tiny_record());
  for (const bool quirks : {false, true}) {
    auto options = ttt_options();
    options.record_quirks = quirks;
    const auto run = run_ttt(tokens, options);
    for (std::size_t i = 0; i < run.table.rows().size(); ++i) {
      const auto &row = run.table.rows()[i], &before = fresh.table.rows()[i];
      for (std::size_t j = 0; j < row.parts.size(); ++j) {
        const auto& part = row.parts[j];
        const bool first = part.name.starts_with("blocks.0.") || part.name.starts_with("blocks.1.");
        const bool bank = row.value.dim() == 3;
        EXPECT_EQ(part.value.equal(before.parts[j].value), first && !(bank && quirks)) << part.name;
      }
    }
  }
}

TEST(TestTimeTrainingTest, EndsOnAnyNumberOfRanksAndAgreesWithOneWhereTheirSharesAreEqual) {
  const auto tokens = random_tokens(8);
  auto options = ttt_options();
  options.config.ttt_batch_seqs =
      4;  // a chunk's four rows at once: two ranks have two of them each
  const auto alone = run_ttt(tokens, options);
  for (const int world : {2, 3, 6}) {  // six: more ranks than rows
    std::vector<double> scores(static_cast<std::size_t>(world));
    test::as_ranks(world, [&](Communicator& communicator) {
      scores[static_cast<std::size_t>(communicator.rank())] =
          run_ttt(tokens, options, communicator).score.loss;
    });
    for (const double score : scores) EXPECT_EQ(score, scores[0]);
    if (world != 2) continue;
    EXPECT_NEAR(scores[0], alone.score.loss, 1e-9);
  }
}

}  // namespace
}  // namespace tg
