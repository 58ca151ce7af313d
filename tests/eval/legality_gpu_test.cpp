// On a GPU, in bf16 with own kernels and CUDA graphs: no token's score depends on later tokens, and
// a chunk of test-time training is scored before any update that used it. With deterministic
// algorithms, so that equality is bitwise. Skipped without a GPU.
#include "ops/attention/attention.h"
#include "tests/eval/deterministic_on_gpu.h"
#include "tests/eval/legality.h"
#include "tests/eval/small_record.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

using test::Tokens;

// Batches of 512 windows are replayed from a graph: two in each later chunk.
constexpr std::int64_t kLength = 256, kStride = 16, kChunk = 16384, kPredictions = 3 * kChunk;
constexpr std::int64_t kVocab = 256;
constexpr double kLr = 0.05;

struct GpuModel {
  GpuModel()
      : table(test::make_parameters(test::small_record(kVocab), at::kBFloat16, at::kCUDA)),
        gpt(test::plan_of(test::small_record(kVocab)), table, {.compute = at::kBFloat16}) {
    const auto source = test::random_parameters(test::small_record(kVocab), at::kFloat, 1);
    for (const auto& row : table.rows()) row.value.detach().copy_(source[row.name].detach() * 0.3);
    gpt.cast_weights();
  }
  ParameterTable table;
  Gpt gpt;
};

using BosId = std::optional<std::int64_t>;
constexpr BosId kBos = 1;

std::vector<double> losses_of_windows(const Tokens& tokens, BosId bos_id) {
  const GpuModel model;
  const WindowOptions options{.length = kLength, .stride = kStride};
  return test::window_scores(model.gpt, tokens, options, at::kCUDA, /*graphs=*/true, bos_id).losses;
}

std::vector<double> losses_of_ttt(const Tokens& tokens, double lr, BosId bos_id = {}) {
  GpuModel model;
  TttOptions options;
  options.windows = {.length = kLength, .stride = kStride};
  options.config.ttt_lr = lr;
  options.config.ttt_epochs = 2;
  options.config.ttt_chunk_tokens = kChunk;
  options.config.ttt_freeze_blocks = 1;
  Communicator alone;
  return test::ttt_scores(model.gpt, model.table, tokens, options, at::kCUDA, alone, bos_id).losses;
}

class LegalityGpu : public test::DeterministicOnGpu {
 protected:
  void SetUp() override {
    DeterministicOnGpu::SetUp();
    if (IsSkipped()) return;
    use_attention(choose_attention("auto", at::kCUDA, at::kBFloat16, 64, /*deterministic=*/true));
  }

  const Tokens tokens_ = test::random_tokens(kPredictions + 1, kVocab, 2);
};

TEST_F(LegalityGpu, NoWindowsScoreChangesWhenLaterTokensDo) {
  for (const auto& bos_id : {BosId(), kBos}) {
    test::expect_no_score_sees_later_tokens(
        tokens_, kVocab, {1, 255, 256, 257, 20000, 40001, kPredictions},
        [&](const Tokens& tokens) { return losses_of_windows(tokens, bos_id); });
  }
}

TEST_F(LegalityGpu, NoScoreOfTestTimeTrainingChangesWhenLaterTokensDo) {
  for (const auto& bos_id : {BosId(), kBos}) {
    test::expect_no_score_sees_later_tokens(
        tokens_, kVocab, {100, kChunk, kChunk + 1, 20000, 2 * kChunk, 40001},
        [&](const Tokens& tokens) { return losses_of_ttt(tokens, kLr, bos_id); });
  }
}

TEST_F(LegalityGpu, AChunkIsScoredBeforeTheUpdatesThatItMakes) {
  const auto untrained = losses_of_ttt(tokens_, 0), trained = losses_of_ttt(tokens_, kLr);
  const auto [first_changed, unused] =
      std::mismatch(untrained.begin(), untrained.end(), trained.begin());
  EXPECT_EQ(first_changed - untrained.begin(), kChunk);
}

}  // namespace
}  // namespace tg
