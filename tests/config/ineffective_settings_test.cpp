#include <gtest/gtest.h>

#include "config/check.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

std::vector<std::string> warnings_of(const std::vector<std::string>& variables) {
  const auto result = parse({}, variables);
  auto lines = ineffective_settings(result.settings, result.origins);
  lines.insert(lines.end(), result.warnings.begin(), result.warnings.end());
  return lines;
}

TEST(IneffectiveSettings, AreNoneByDefault) {
  EXPECT_EQ(warnings_of({}), std::vector<std::string>());
  EXPECT_EQ(warnings_of({"SEED=1", "LATE_QAT_THRESHOLD=0", "RESUME=never"}),
            std::vector<std::string>());
}

TEST(IneffectiveSettings, AreParametersThatNoGradientEverReaches) {
  const auto lines = warnings_of({"BIGRAM_DIM=32"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with(
      "BIGRAM_DIM=32 leaves bigram.embed.weight and bigram.proj.weight without effect: both begin "
      "at zero"))
      << lines[0];
  EXPECT_EQ(warnings_of({"MODEL_DIM=32", "BIGRAM_DIM=64"}).size(), 1u);
  // Without a projection the table learns from zero; weights from a file begin where they are.
  for (const std::vector<std::string>& alive :
       {std::vector<std::string>{"MODEL_DIM=32", "BIGRAM_DIM=32"},
        {"MODEL_DIM=64", "BIGRAM_DIM=80"},
        {"BIGRAM_DIM=32", "BIGRAM_VOCAB_SIZE=0"},
        {"BIGRAM_DIM=32", "INIT_FROM=weights.pt"}}) {
    EXPECT_EQ(warnings_of(alive), std::vector<std::string>()) << alive.back();
  }
}

TEST(IneffectiveSettings, AreNamedWithTheReason) {
  EXPECT_EQ(warnings_of({"MUON_BETA2=0.95"}),
            std::vector<std::string>{"MUON_BETA2=0.95 has no effect without NORMUON=1"});
  EXPECT_EQ(warnings_of({"MUON_BETA2=0.95", "NORMUON=1"}), std::vector<std::string>());
  EXPECT_EQ(
      warnings_of({"BOS_ID=2"}),
      std::vector<std::string>{"BOS_ID=2 has no effect without LOADER_ORDER=documents or aligned, "
                               "DOCUMENT_ATTENTION=1, SMEAR=gated, PHASED_TTT_ENABLED=1 or "
                               "DATA_PATH=synthetic:documents"});
  EXPECT_EQ(warnings_of({"BOS_ID=2", "PHASED_TTT_ENABLED=1"}), std::vector<std::string>());
  EXPECT_EQ(
      warnings_of({"SEGMENT_LIMIT=64"}),
      std::vector<std::string>{"SEGMENT_LIMIT=64 has no effect without DOCUMENT_ATTENTION=1 or "
                               "LOADER_ORDER=aligned"});
  EXPECT_EQ(warnings_of({"SEGMENT_LIMIT=64", "BOS_ID=2", "DOCUMENT_ATTENTION=1"}),
            std::vector<std::string>());
  for (const std::string order : {"documents", "aligned"})
    EXPECT_EQ(warnings_of({"BOS_ID=2", "LOADER_ORDER=" + order}), std::vector<std::string>());
  EXPECT_EQ(warnings_of({"SEGMENT_LIMIT=64", "LOADER_ORDER=aligned", "DOCUMENT_ATTENTION=0"}),
            std::vector<std::string>());
  EXPECT_EQ(warnings_of({"BOS_ID=2", "DATA_PATH=synthetic:documents"}), std::vector<std::string>());
  EXPECT_EQ(warnings_of({"BOS_ID=2", "SMEAR=gated"}), std::vector<std::string>());
  EXPECT_EQ(warnings_of({"SKIP_GATES_ENABLED=1", "UNET_SKIPS=0"}),
            std::vector<std::string>{"SKIP_GATES_ENABLED=1 has no effect with UNET_SKIPS=0"});
  EXPECT_EQ(warnings_of({"CASEOPS_ENABLED=1", "TOKENIZER_PATH="}),
            std::vector<std::string>{"CASEOPS_ENABLED=1 has no effect without TOKENIZER_PATH"});
  EXPECT_EQ(warnings_of({"CASEOPS_ENABLED=1"}), std::vector<std::string>());
  EXPECT_EQ(warnings_of({"CASEOPS_ENABLED=0", "TOKENIZER_PATH="}), std::vector<std::string>());
  EXPECT_EQ(warnings_of({"LATE_QAT=1"}),
            std::vector<std::string>{"LATE_QAT=1 has no effect: LATE_QAT_THRESHOLD decides"});
  EXPECT_EQ(warnings_of({"INT8_KEEP_FLOAT_FP32_NAME_PATTERNS=a"}),
            std::vector<std::string>{
                "INT8_KEEP_FLOAT_FP32_NAME_PATTERNS=a has no effect without ARTIFACT=int8_zlib"});
  EXPECT_EQ(
      warnings_of({"EVAL_STRIDE=2048"}),
      std::vector<std::string>{
          "EVAL_STRIDE=2048 is not below the evaluation's row: no sliding-window evaluation"});
}

TEST(IneffectiveSettings, AreThoseOfAnotherWarmDownOrOfACapThatIsNotThere) {
  EXPECT_EQ(warnings_of({"WARMDOWN_ITERS=100", "WARMDOWN_FRAC=0.5", "MIN_LR=0.1"}),
            std::vector<std::string>{"WARMDOWN_ITERS=100 has no effect with WARMDOWN_FRAC"});
  EXPECT_EQ(warnings_of({"MIN_LR=0.1"}),
            std::vector<std::string>{"MIN_LR=0.1 has no effect without WARMDOWN_FRAC"});
  EXPECT_EQ(warnings_of({"LR_FLOOR=0.1"}),
            std::vector<std::string>{"LR_FLOOR=0.1 has no effect without WARMDOWN_FRAC"});
  EXPECT_EQ(warnings_of({"GPTQ_RESERVE_SECONDS=4", "MAX_WALLCLOCK_SECONDS=0"}),
            std::vector<std::string>{
                "GPTQ_RESERVE_SECONDS=4.0 has no effect without MAX_WALLCLOCK_SECONDS"});
  EXPECT_EQ(warnings_of({"GPTQ_RESERVE_SECONDS=4"}), std::vector<std::string>());
}

TEST(IneffectiveSettings, AreThoseOfATimingOrTraceThatIsOff) {
  EXPECT_EQ(warnings_of({"TRAINING_TIMING_EVERY=5"}),
            std::vector<std::string>{
                "TRAINING_TIMING_EVERY=5 has no effect without TRAINING_TIMING_BREAKDOWN"});
  EXPECT_EQ(warnings_of({"TRAINING_TIMING_EVERY=5", "TRAINING_TIMING_BREAKDOWN=events"}).size(),
            0u);
  EXPECT_EQ(warnings_of({"PROFILE_START=5", "PROFILE_STEPS=2"}).size(), 2u);
  EXPECT_EQ(warnings_of({"PROFILE_START=5", "PROFILE=1"}).size(), 0u);
}

TEST(IneffectiveSettings, AreCheckpointsThatNoLaterRunFinds) {
  const auto lines = warnings_of({"CHECKPOINT_EVERY=5m"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("CHECKPOINT_EVERY=5m without RUN_ID or OUTPUT_DIR:"));
  for (const auto* name : {"RUN_ID=a", "OUTPUT_DIR=a"}) {
    EXPECT_EQ(warnings_of({"CHECKPOINT_EVERY=5", name}), std::vector<std::string>());
  }
  EXPECT_EQ(warnings_of({"KEEP=5"}),
            std::vector<std::string>{"KEEP=5 has no effect without CHECKPOINT_EVERY"});
}

TEST(IneffectiveSettings, AreAGpusMemoryLimitOnTheCpu) {
  const auto lines = warnings_of({"DEVICE=cpu", "MEMORY_LIMIT_GB=8"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("MEMORY_LIMIT_GB=8.0 has no effect with DEVICE=cpu"))
      << lines[0];
  EXPECT_EQ(warnings_of({"MEMORY_LIMIT_GB=8"}).size(), 0u);
  EXPECT_EQ(warnings_of({"DEVICE=cpu", "MEMORY_LIMIT_GB=0"}).size(), 0u);
}

TEST(IneffectiveSettings, AreNotThoseThatHaveAnEffect) {
  EXPECT_EQ(warnings_of({"COMPUTE_DTYPE=fp16", "ACTIVATION_RECOMPUTE=block"}).size(), 0u);
  EXPECT_EQ(warnings_of({"FP8=1", "VAL_PREFETCH=1"}).size(), 0u);
}

}  // namespace
}  // namespace tg
