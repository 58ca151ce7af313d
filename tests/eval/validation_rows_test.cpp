// Validation with micro-batches that are rows of documents.
#include "tests/comm/ranks.h"
#include "tests/eval/validation_fixture.h"

namespace tg {
namespace {

using test::kTolerance;
using test::kTrainLength;
using test::kVocab;

class ValidationRowsTest : public test::ValidationFixture {};

TEST_F(ValidationRowsTest, DocumentsScoresLongRowsOfSegments) {
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

// Three rows of VAL_BATCH_SIZE / 8 tokens, the last one with three sequences.
TEST_F(ValidationRowsTest, DocumentsHaveOneScoreOnAnyRanksAndGradAccumSteps) {
  write_shards({101, 60, 30});
  settings.data.loader_order = LoaderOrder::documents;
  settings.run.val_batch_size = 8 * 4 * 16;
  const auto expected = make(bytes).score(model, 16);
  for (const int ranks : {1, 2, 4}) {
    for (const std::int64_t steps : {1, 2, 16}) {
      settings.run.grad_accum_steps = {.value = steps};
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

// Rows of EVAL_SEQ_LEN from the first token on, which overlap by one token, the last target;
// attention spans documents of any length.
TEST_F(ValidationRowsTest, AlignedScoresRowsInOrderWithoutALimitOnAnyRanks) {
  write_shards({101, 60, 30});
  settings.data.loader_order = LoaderOrder::aligned;
  settings.data.segment_limit = {.value = 3};  // for training
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

}  // namespace
}  // namespace tg
