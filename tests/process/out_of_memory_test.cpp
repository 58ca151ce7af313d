#include "process/out_of_memory.h"

#include <gtest/gtest.h>

#include "tests/model/spec.h"

namespace tg {
namespace {

std::string message(const Settings& settings) {
  return explain_out_of_memory(settings, "CUDA out of memory").what();
}

bool has(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

TEST(OutOfMemory, TheMessageSaysWhatWouldHelpThatIsNotYetSet) {
  auto settings = test::settings_of({});
  settings.model.vocab_size = 1024;
  const auto usual = message(settings);
  EXPECT_TRUE(has(usual,
                  "micro-batches of 98304 tokens (48 sequences of 2048, whose logits take "
                  "4 MiB each): CUDA out of memory; set GRAD_ACCUM_STEPS=auto"))
      << usual;
  EXPECT_TRUE(has(usual, "ACTIVATION_RECOMPUTE=block")) << usual;
  EXPECT_TRUE(has(usual, "lower TRAIN_BATCH_TOKENS")) << usual;

  settings.run.grad_accum_steps = {.automatic = true};
  const auto measured = message(settings);
  EXPECT_TRUE(has(measured, "; set ACTIVATION_RECOMPUTE=block")) << measured;
  EXPECT_FALSE(has(measured, "TRAIN_BATCH_TOKENS")) << measured;

  settings.runtime.activation_recompute = ActivationRecompute::block;
  const auto both = message(settings);
  EXPECT_TRUE(has(both, "; lower TRAIN_SEQ_LEN, or choose a smaller MODEL_DIM")) << both;
  EXPECT_FALSE(has(both, "ACTIVATION_RECOMPUTE")) << both;
}

TEST(OutOfMemory, AMicroBatchOfOneRowHasNoParts) {
  auto settings = test::settings_of({});
  settings.model.vocab_size = 1024;
  using enum LoaderOrder;
  for (const auto& [order, measured] :
       {std::pair{documents, false}, std::pair{documents, true}, std::pair{aligned, true}}) {
    settings.data.loader_order = order;
    settings.run.grad_accum_steps = {.automatic = measured};
    const auto text = message(settings);
    EXPECT_TRUE(has(text, "(1 sequences of 98304, whose logits take 192 MiB each)")) << text;
    EXPECT_TRUE(has(text, "; set ACTIVATION_RECOMPUTE=block")) << text;
    EXPECT_TRUE(has(text, "or lower TRAIN_BATCH_TOKENS or raise GRAD_ACCUM_STEPS")) << text;
  }
}

TEST(OutOfMemory, JoinedMicroBatchesAreNamedFirst) {
  auto settings = test::settings_of({});
  settings.data.loader_order = LoaderOrder::aligned;
  settings.run.pass_tokens = 98304;  // one micro-batch
  EXPECT_FALSE(has(message(settings), "PASS_TOKENS"));
  settings.run.pass_tokens = 2 * 98304;
  const auto text = message(settings);
  EXPECT_TRUE(
      has(text, "; set PASS_TOKENS=0 (a pass for each micro-batch) or ACTIVATION_RECOMPUTE"))
      << text;
}

}  // namespace
}  // namespace tg
