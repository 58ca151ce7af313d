#include "tests/comm/ranks.h"
#include "tests/eval/validation_fixture.h"

namespace tg {
namespace {

using test::kTolerance;
using test::kTrainLength;
using test::kVocab;
using test::random_tokens;

class ValidationTest : public test::ValidationFixture {};

TEST_F(ValidationTest, StreamScoresEverySequenceOfTheTrimmedSplit) {
  write_shards({101, 60, 30});  // 191 tokens: 11 sequences of 16 and a remainder
  for (const std::int64_t length : {kTrainLength, 2 * kTrainLength}) {
    Validation validation = make(bytes);
    EXPECT_EQ(validation.tokens(), 176);
    loss_sum = predictions = byte_count = 0;
    add_by_hand(all, 0, 176 / length, length);
    ASSERT_EQ(predictions, 176);
    expect_score(validation.score(model, length));
  }
}

// Rows of four sequences, in which attention spans a document but at most one sequence's length.
TEST_F(ValidationTest, StreamTrimsToWholeSequencesOfTheLongerLength) {
  write_shards({194});
  settings.run.eval_seq_len = 0;  // as in training: 193 = 24 · 8 + 1
  EXPECT_EQ(make(bytes).tokens(), 192);
  settings.run.eval_seq_len = 32;
  EXPECT_EQ(make(bytes).tokens(), 192);
  settings.run.eval_seq_len = 64;
  EXPECT_EQ(make(bytes).tokens(), 192);
  settings.run.eval_seq_len = 50;
  EXPECT_EQ(make(bytes).tokens(), 150);
  settings.run.eval_seq_len = 193;
  EXPECT_EQ(make(bytes).tokens(), 193);
  settings.run.eval_seq_len = 194;
  test::error_of(ExitCode::bad_data, [&] { make(bytes); });
  settings.run.eval_seq_len = 16;
  settings.run.val_tokens = 100;
  EXPECT_EQ(make(bytes).tokens(), 96);
}

TEST_F(ValidationTest, StreamDoesNotDependOnTheBatch) {
  write_shards({191});
  const auto score_with = [&](std::int64_t batch) {
    settings.run.val_batch_size = batch;
    return make(bytes).score(model, kTrainLength);
  };
  const auto whole = score_with(524288);
  for (const std::int64_t batch : {1, 64, 8 * 8 * 5, 8 * 8 * 7, 8 * 176}) {
    const auto score = score_with(batch);
    EXPECT_NEAR(score.loss, whole.loss, kTolerance) << batch;
    EXPECT_NEAR(*score.bpb, *whole.bpb, kTolerance) << batch;
  }
}

TEST_F(ValidationTest, StreamScoresTheSameTokensEveryTime) {
  write_shards({100, 50});
  Validation validation = make(bytes);
  EXPECT_EQ(validation.score(model, kTrainLength).loss, validation.score(model, kTrainLength).loss);
}

TEST_F(ValidationTest, WeightsAreScoredAsTheyAreWhileTrainingRoundsThem) {
  write_shards({100});
  Validation validation = make(std::nullopt);
  const double exact = validation.score(model, kTrainLength).loss;
  model.set_fake_quant(true);
  model.cast_weights();
  add_by_hand(all, 0, 12, kTrainLength);
  ASSERT_GT(std::abs(loss_sum / predictions - exact), 1e-3);  // rounding is larger than noise
  EXPECT_EQ(validation.score(model, kTrainLength).loss, exact);
}

TEST_F(ValidationTest, ASidecarCountsTheBytesInEitherOrder) {
  write_shards({101, 60, 40});
  const auto sidecar = write_sidecar();
  for (const auto order : {LoaderOrder::stream, LoaderOrder::strided}) {
    settings.data.loader_order = order;
    settings.run.val_batch_size = 4 * kTrainLength;
    settings.run.val_tokens = 3 * settings.run.val_batch_size;  // all from the first shard
    loss_sum = predictions = byte_count = 0;
    add_by_hand(all, 0, 12, kTrainLength);
    byte_count = 0;
    for (std::size_t i = 1; i <= 96; ++i) byte_count += all[i] == 1 ? 0 : all[i] + 7;
    for (const auto& counting : {TextBytes{.sidecar = sidecar, .bos_id = 1},
                                 TextBytes{.table = bytes, .sidecar = sidecar, .bos_id = 1}})
      expect_score(make(counting).score(model, kTrainLength));
  }
  test::error_of(ExitCode::bad_data,
                 [&] { make(TextBytes{.sidecar = sidecar, .bos_id = all[40]}); });
}

TEST_F(ValidationTest, WithoutBytesThereIsNoBpb) {
  write_shards({100});
  Validation validation = make(std::nullopt);
  const auto score = validation.score(model, kTrainLength);
  EXPECT_FALSE(score.bpb.has_value());
  add_by_hand(all, 0, 12, kTrainLength);
  EXPECT_NEAR(score.loss, loss_sum / predictions, kTolerance);
  EXPECT_EQ(validation.pattern(), dir / "fineweb_val_*.bin");
}

TEST_F(ValidationTest, StridedReadsWholeBatchesShardByShard) {
  constexpr std::int64_t kBatch = 4 * kTrainLength;  // 32 tokens
  write_shards({100, 70});                           // 3 batches and a remainder, 2 and a remainder
  settings.data.loader_order = LoaderOrder::strided;
  settings.run.val_batch_size = kBatch;
  settings.run.val_tokens = 7 * kBatch;
  Validation validation = make(bytes);
  EXPECT_EQ(validation.tokens(), 7 * kBatch);
  add_by_hand(shards[0], 0, 12, kTrainLength);
  add_by_hand(shards[1], 0, 8, kTrainLength);
  add_by_hand(shards[0], 0, 8, kTrainLength);  // wraps around
  ASSERT_EQ(predictions, 7 * kBatch);
  expect_score(validation.score(model, kTrainLength));
  // Every score restarts at the first shard.
  expect_score(validation.score(model, kTrainLength));
}

TEST_F(ValidationTest, StridedLeavesAShardWhoseRestIsOneTokenShort) {
  constexpr std::int64_t kBatch = 2 * kTrainLength;
  write_shards({32, 33});  // 32 holds one batch of 16 + 1, 33 holds two
  settings.data.loader_order = LoaderOrder::strided;
  settings.run.val_batch_size = kBatch;
  settings.run.val_tokens = 3 * kBatch;
  add_by_hand(shards[0], 0, 2, kTrainLength);
  add_by_hand(shards[1], 0, 4, kTrainLength);
  expect_score(make(bytes).score(model, kTrainLength));
}

TEST_F(ValidationTest, TrainingsPartsPlayNoRole) {
  write_shards({100});
  config = test::tiny_switches();
  const auto weights = test::random_parameters(config, at::kFloat, 2);
  Gpt switched(test::plan_of(config), weights, {});
  settings.model = config;
  const auto score = make(bytes).score(switched, 16);
  std::vector<std::int64_t> ids(all.begin(), all.begin() + 97);
  const auto tokens = at::tensor(ids, at::kLong);
  const auto losses = switched.token_losses(tokens.narrow(0, 0, 96).view({6, 16}),
                                            tokens.narrow(0, 1, 96).view({6, 16}));
  EXPECT_NEAR(score.loss, losses.to(at::kDouble).mean().item<double>(), kTolerance);
}

TEST_F(ValidationTest, OverlapAndWhereBytesAreCountedChangeNoScore) {
  write_shards({300, 200});
  for (const auto order : {LoaderOrder::stream, LoaderOrder::strided}) {
    settings.data.loader_order = order;
    settings.run.val_batch_size = 8 * 3 * kTrainLength;
    settings.run.val_tokens = 2 * settings.run.val_batch_size;
    settings.io = {};
    settings.io.val_prefetch = false;
    const auto plain = make(bytes).score(model, kTrainLength);
    for (const int queue : {1, 2, 7}) {
      for (const auto counter : {CountDevice::cpu, CountDevice::cuda}) {
        settings.io.val_prefetch = true;
        settings.io.val_prefetch_queue = queue;
        settings.io.val_bytecount_device = counter;
        const auto score = make(bytes).score(model, kTrainLength);
        EXPECT_EQ(score.loss, plain.loss);
        EXPECT_EQ(*score.bpb, *plain.bpb);
      }
    }
  }
}

TEST_F(ValidationTest, ATokenBeyondTheVocabularyIsNamedBeforeAnyIsScored) {
  write_shards({100});
  auto spoilt = shards[0];
  spoilt[70] = kVocab;
  test::write_file(dir / "fineweb_val_000000.bin", test::shard_bytes(spoilt));
  for (const auto order : {LoaderOrder::stream, LoaderOrder::strided}) {
    settings.data.loader_order = order;
    settings.run.val_batch_size = 2 * kTrainLength;
    settings.run.val_tokens = 6 * settings.run.val_batch_size;
    const auto message = test::error_of(ExitCode::bad_data, [&] { make(bytes); });
    EXPECT_NE(message.find("fineweb_val_000000.bin at token 70"), std::string::npos) << message;
    settings.run.val_tokens = 4 * settings.run.val_batch_size;
    EXPECT_NO_THROW(make(bytes)) << "it is not among those to score";
  }
}

// An unknown piece may stand for spaces.
TEST_F(ValidationTest, UnknownPiecesThatMayBeSpacesLeaveNoBitsPerByte) {
  write_shards({100});
  auto tokens = shards[0];
  std::ranges::replace(tokens, 5, 6);
  tokens[70] = 5;
  test::write_file(dir / "fineweb_val_000000.bin", test::shard_bytes(tokens));
  bytes.unknown_ids = {4000, 5};
  bytes.unknown_hide_spaces = true;
  for (const auto device : {CountDevice::cpu, CountDevice::cuda}) {
    settings.io.val_bytecount_device = device;
    settings.run.val_tokens = 64;
    EXPECT_EQ(make(bytes).unknown_tokens(), 0);
    EXPECT_TRUE(make(bytes).score(model, kTrainLength).bpb);
    settings.run.val_tokens = 80;
    EXPECT_EQ(make(bytes).unknown_tokens(), 1);
    EXPECT_FALSE(make(bytes).score(model, kTrainLength).bpb);
    auto others = bytes;
    others.unknown_hide_spaces = false;
    EXPECT_EQ(make(others).unknown_tokens(), 1);
    EXPECT_TRUE(make(others).score(model, kTrainLength).bpb);
  }
}

// Three of these ids together are one space, but none after a boundary; a boundary removes the
// space at the end of a document.
TEST_F(ValidationTest, BytesThatDependOnSeveralTokensAreTheSameForEveryCut) {
  bytes.spelled_space = {1, 2, 3};
  bytes.trailing_space.assign(kVocab, 0);
  bytes.trailing_space[4] = 1;
  bytes.first_is_added = true;
  std::ranges::fill(bytes.boundary, 0);
  bytes.boundary[0] = 1;
  auto tokens = random_tokens(401, 7);
  for (auto& id : tokens) id %= 5;
  test::write_file(dir / "fineweb_val_000000.bin", test::shard_bytes(tokens));
  double expected = 0;
  int spaces = 0, added = 0, behind = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const auto ends_mark = [&](std::size_t at) {
      return at >= 2 && tokens[at] == 3 && tokens[at - 1] == 2 && tokens[at - 2] == 1;
    };
    const bool first = ends_mark(i) && i >= 3 && tokens[i - 3] == 0;
    const bool last = tokens[i] == 0 && (tokens[i - 1] == 4 || ends_mark(i - 1));
    expected += bytes.base_bytes[tokens[i]] - 2 * ends_mark(i) - first - last;
    expected += bytes.leading_space[tokens[i]] != 0 && tokens[i - 1] != 0;
    spaces += ends_mark(i), added += first, behind += last;
  }
  ASSERT_TRUE(spaces > 0 && added > 0 && behind > 0);
  for (const std::int64_t length : {2, 5, 8, 80}) {
    settings.run.train_seq_len = length;
    settings.run.eval_seq_len = 0;
    for (const std::int64_t batch : {1, 8 * 7, 4000}) {
      settings.run.val_batch_size = batch;
      for (const auto counter : {CountDevice::cpu, CountDevice::cuda}) {
        settings.io.val_bytecount_device = counter;
        const auto score = make(bytes).score(model, length);
        EXPECT_NEAR(score.loss * 400 / std::numbers::ln2 / *score.bpb, expected, 1e-3);
      }
    }
  }
}

// Of each target the loss that masked_losses() gives row by row, whatever the batches and ranks;
// beside it the loss without a mask.
TEST_F(ValidationTest, WithAMaskTheScoreIsTheMaskedLossBesideTheOther) {
  write_shards({191});
  const auto mask = test::integers({kVocab, kVocab / 8}, 256, 5).to(at::kByte);
  double masked = 0;
  for (std::int64_t begin = 0; begin < 176; begin += kTrainLength) {
    std::vector<std::int64_t> ids(all.begin() + begin, all.begin() + begin + kTrainLength + 1);
    const auto row = at::tensor(ids, at::kLong).unsqueeze(0);
    masked += model.masked_losses(row.slice(1, 0, -1), row.slice(1, 1), mask, {})
                  .masked.sum()
                  .item<double>();
  }
  const auto plain = make(bytes).score(model, kTrainLength);
  EXPECT_FALSE(plain.unmasked_loss.has_value());
  EXPECT_GT(masked / 176, plain.loss + 1);
  const auto tokens = std::make_shared<ShardSet>(dir.path(), "val", kVocab);
  const auto score_on = [&](Gpt& scored, Communicator& communicator, const at::Tensor& nll) {
    Validation validation(settings, tokens, TextBytes{.table = bytes}, /*bos_id=*/1, at::kCPU,
                          communicator, mask);
    return validation.score(scored, kTrainLength, {}, nll);
  };
  const auto expect_scores = [&](const Score& score) {
    EXPECT_NEAR(score.loss, masked / 176, 1e-5);
    EXPECT_NEAR(*score.unmasked_loss, plain.loss, kTolerance);
    EXPECT_NEAR(*score.bpb / *plain.bpb, score.loss / plain.loss, 1e-5);
  };
  expect_scores(score_on(model, alone, {}));
  const auto nll = at::zeros({176});
  expect_scores(score_on(model, alone, nll));
  EXPECT_NEAR(nll.sum().item<double>(), masked, 1e-3);
  test::as_ranks(2, [&](Communicator& communicator) {
    Gpt own(test::plan_of(config), table, {});
    expect_scores(score_on(own, communicator, {}));
  });
}

}  // namespace
}  // namespace tg
