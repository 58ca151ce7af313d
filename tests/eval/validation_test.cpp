#include "eval/validation.h"

#include <fmt/format.h>

#include <numbers>

#include "data/shard.h"
#include "tests/comm/ranks.h"
#include "tests/data/shards.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

constexpr int kVocab = 40;
constexpr std::int64_t kTrainLength = 8;
// The model computes in fp32 in batches of other sizes, which may add up in another order: 1e-7 of
// each loss, and far less of their mean.
constexpr double kTolerance = 1e-6;

std::vector<std::uint16_t> random_tokens(std::int64_t count, std::uint64_t seed) {
  const auto ids = test::values_of(test::integers({count}, kVocab, seed));
  return {ids.begin(), ids.end()};
}

class ValidationTest : public testing::Test {
 protected:
  ValidationTest()
      : config(test::tiny_record()),
        table(test::random_parameters(config, at::kFloat, 1)),
        model(test::plan_of(config), table, {}) {
    settings.model = config;
    settings.data.data_path = dir.path();
    settings.run.train_seq_len = kTrainLength;
    settings.run.eval_seq_len = 2 * kTrainLength;
    settings.run.val_tokens = 0;
    settings.run.val_batch_size = 8 * 3 * kTrainLength;
    for (int id = 0; id < kVocab; ++id) {
      bytes.base_bytes.push_back(static_cast<std::int16_t>(id % 5));
      bytes.leading_space.push_back(id % 3 == 0);
      bytes.boundary.push_back(id % 7 == 0);
    }
  }

  void write_shards(const std::vector<std::int64_t>& sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      shards.push_back(random_tokens(sizes[i], 10 + i));
      test::write_file(dir / (fmt::format("fineweb_val_{:06}.bin", i)),
                       test::shard_bytes(shards.back()));
      all.insert(all.end(), shards.back().begin(), shards.back().end());
    }
  }

  Validation make(const std::optional<TextBytes>& counting) const {
    return Validation(settings, std::make_shared<ShardSet>(dir.path(), "val", kVocab), counting,
                      /*bos_id=*/1, at::kCPU, alone);
  }
  Validation make(const ByteTable& table_of_bytes) const {
    return make(TextBytes{.table = table_of_bytes});
  }
  // One for each shard, in which every token counts its id and 7 more, BOS (1) none.
  std::shared_ptr<const TokenSource> write_sidecar() {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      auto entries = shards[i];
      for (auto& entry : entries) entry = entry == 1 ? 0 : entry + 7;
      test::write_file(dir / (fmt::format("fineweb_val_bytes_{:06}.bin", i)),
                       test::shard_bytes(entries));
    }
    return open_sidecar(settings.data, ShardSet(dir.path(), "val", kVocab));
  }

  // Adds the losses and bytes of `count` sequences of `length` from `first` on, one at a time.
  void add_by_hand(const std::vector<std::uint16_t>& tokens, std::size_t first, std::int64_t count,
                   std::int64_t length) {
    for (std::int64_t s = 0; s < count; ++s) {
      const auto begin = first + static_cast<std::size_t>(s * length);
      std::vector<std::int64_t> ids(
          tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(begin) + length + 1);
      const auto row = at::tensor(ids, at::kLong).unsqueeze(0);
      for (const double loss :
           test::values_of(model.token_losses(row.slice(1, 0, -1), row.slice(1, 1)))) {
        loss_sum += loss;
        ++predictions;
      }
      for (std::size_t t = 1; t < ids.size(); ++t) {
        const auto x = static_cast<std::size_t>(ids[t - 1]), y = static_cast<std::size_t>(ids[t]);
        byte_count += bytes.base_bytes[y];
        if (bytes.leading_space[y] != 0 && bytes.boundary[x] == 0) byte_count += 1;
      }
    }
  }

  void expect_score(const Score& score) const {
    EXPECT_NEAR(score.loss, loss_sum / predictions, kTolerance);
    ASSERT_TRUE(score.bpb.has_value());
    EXPECT_NEAR(*score.bpb, loss_sum / std::numbers::ln2 / byte_count, kTolerance);
  }

  test::TempDir dir;
  mutable Communicator alone;
  Settings settings;
  ModelConfig config;
  ParameterTable table;
  Gpt model;
  ByteTable bytes;
  std::vector<std::vector<std::uint16_t>> shards;
  std::vector<std::uint16_t> all;
  double loss_sum = 0, predictions = 0, byte_count = 0;
};

TEST_F(ValidationTest, StreamScoresEverySequenceOfTheTrimmedSplit) {
  write_shards({101, 60, 30});  // 191 tokens: 11 sequences of 16 and a rest
  for (const std::int64_t length : {kTrainLength, 2 * kTrainLength}) {
    Validation validation = make(bytes);
    EXPECT_EQ(validation.tokens(), 176);
    loss_sum = predictions = byte_count = 0;
    add_by_hand(all, 0, 176 / length, length);
    ASSERT_EQ(predictions, 176);
    expect_score(validation.score(model, length));
  }
}

// Rows of four sequences, in each of which attention spans a document, at most a sequence's length.
TEST_F(ValidationTest, DocumentsScoresLongRowsOfSegments) {
  write_shards({101, 60, 30});
  settings.data.loader_order = LoaderOrder::documents;
  settings.run.val_batch_size = 8 * 4 * 16;
  const at::NoGradGuard no_grad;
  for (std::int64_t begin = 0; begin < 176; begin += 64) {
    const auto length = std::min<std::int64_t>(64, 176 - begin);
    auto ids = at::empty({1, length + 1}, at::kLong), starts = at::zeros({1, length}, at::kBool);
    for (std::int64_t t = 0, last = 0; t <= length; ++t) {
      const int id = all[static_cast<std::size_t>(begin + t)];
      ids[0][t] = id;
      if (t == length || (t > 0 && id != 1 && t - last != 16)) continue;
      starts[0][t] = true;
      last = t;
    }
    const auto loss = model.loss(ids.narrow(1, 0, length), ids.narrow(1, 1, length), {},
                                 documents_in(starts, at::kCPU));
    loss_sum += loss.item<double>() * static_cast<double>(length);
  }
  predictions = 176;
  const auto score = make(bytes).score(model, 16);
  EXPECT_NEAR(score.loss, loss_sum / predictions, kTolerance);
  settings.data.document_attention = DocumentAttentionChoice::off;
  EXPECT_GT(std::abs(make(bytes).score(model, 16).loss - score.loss), 1e-4);
}

// Rows of VAL_BATCH_SIZE / 8: three, the last one of three sequences.
TEST_F(ValidationTest, DocumentsHaveOneScoreOnAnyRanksAndGradAccumSteps) {
  write_shards({101, 60, 30});
  settings.data.loader_order = LoaderOrder::documents;
  settings.run.val_batch_size = 8 * 4 * 16;
  const auto expected = make(bytes).score(model, 16);
  for (const int ranks : {1, 2, 4}) {
    for (const std::int64_t steps : {1, 2, 16}) {
      settings.run.grad_accum_steps = {.count = steps};
      test::as_ranks(ranks, [&](Communicator& communicator) {
        Gpt own(test::plan_of(config), table, {});
        Validation validation(settings, std::make_shared<ShardSet>(dir.path(), "val", kVocab),
                              TextBytes{.table = bytes}, /*bos_id=*/1, at::kCPU, communicator);
        const auto score = validation.score(own, 16);
        EXPECT_NEAR(score.loss, expected.loss, 1e-7) << ranks << " ranks, " << steps << " steps";
        EXPECT_NEAR(*score.bpb, *expected.bpb, 1e-7);
      });
    }
  }
}

// Rows of EVAL_SEQ_LEN from the first token on, which overlap by the last one's target; attention
// spans a document of any length in them.
TEST_F(ValidationTest, AlignedScoresRowsInOrderWithoutALimitOnAnyRanks) {
  write_shards({101, 60, 30});
  settings.data.loader_order = LoaderOrder::aligned;
  settings.data.segment_limit = {.count = 3};  // of training
  settings.run.eval_seq_len = 32;
  settings.run.val_batch_size = 8 * 2 * 32;
  settings.run.val_tokens = 128;
  const at::NoGradGuard no_grad;
  for (std::int64_t begin = 0; begin < 128; begin += 32) {
    auto ids = at::empty({1, 33}, at::kLong), starts = at::zeros({1, 32}, at::kBool);
    for (std::int64_t t = 0; t <= 32; ++t) {
      const int id = all[static_cast<std::size_t>(begin + t)];
      ids[0][t] = id;
      if (t < 32 && (t == 0 || id == 1)) starts[0][t] = true;
    }
    loss_sum +=
        model.loss(ids.narrow(1, 0, 32), ids.narrow(1, 1, 32), {}, documents_in(starts, at::kCPU))
            .item<double>();
  }
  EXPECT_NEAR(make(bytes).score(model, 32).loss, loss_sum / 4, kTolerance);
  for (const int ranks : {2, 3}) {
    test::as_ranks(ranks, [&](Communicator& communicator) {
      Gpt own(test::plan_of(config), table, {});
      Validation validation(settings, std::make_shared<ShardSet>(dir.path(), "val", kVocab),
                            TextBytes{.table = bytes}, /*bos_id=*/1, at::kCPU, communicator);
      EXPECT_EQ(validation.tokens(), 128);
      EXPECT_NEAR(validation.score(own, 32).loss, loss_sum / 4, kTolerance) << ranks;
    });
  }
}

TEST_F(ValidationTest, StreamTrimsToWholeSequencesOfTheLongerLength) {
  write_shards({194});
  settings.run.eval_seq_len = 0;  // as training: 193 = 24 · 8 + 1
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
  ASSERT_GT(std::abs(loss_sum / predictions - exact), 1e-3);  // rounding is not lost in noise
  EXPECT_EQ(validation.score(model, kTrainLength).loss, exact);
}

TEST_F(ValidationTest, ASidecarCountsTheBytesInEitherOrder) {
  write_shards({101, 60, 40});
  const auto sidecar = write_sidecar();
  for (const auto order : {LoaderOrder::stream, LoaderOrder::strided}) {
    settings.data.loader_order = order;
    settings.run.val_batch_size = 4 * kTrainLength;
    settings.run.val_tokens = 3 * settings.run.val_batch_size;  // of the first shard
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
  write_shards({100, 70});                           // 3 batches and a rest, 2 and a rest
  settings.data.loader_order = LoaderOrder::strided;
  settings.run.val_batch_size = kBatch;
  settings.run.val_tokens = 7 * kBatch;
  Validation validation = make(bytes);
  EXPECT_EQ(validation.tokens(), 7 * kBatch);
  add_by_hand(shards[0], 0, 12, kTrainLength);
  add_by_hand(shards[1], 0, 8, kTrainLength);
  add_by_hand(shards[0], 0, 8, kTrainLength);  // round again
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

// An unknown piece may hide spaces.
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

// Three ids together are one space, but none behind a boundary; a boundary takes off the space that
// ends a document.
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

}  // namespace
}  // namespace tg
