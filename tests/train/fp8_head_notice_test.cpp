#include <gtest/gtest.h>

#include "train/run_parts.h"

namespace tg {
namespace {

Settings with_head() {
  Settings settings;
  settings.runtime.fp8 = {.mlp = true, .head = true};
  return settings;
}

constexpr Fp8Parts kAllButTheHead{.mlp = true};

TEST(Fp8HeadNotice, SaysWhyTheHeadIsNotInFp8) {
  Machine machine;
  machine.fp8 = true;
  auto settings = with_head();
  EXPECT_EQ(fp8_head_notice(settings, machine, kAllButTheHead),
            "FP8=mlp,head has no effect on the head: expected a vocabulary of 8192 or more, in "
            "multiples of 16, and LOGIT_SOFTCAP up to 35, found 1024 and 30");
}

TEST(Fp8HeadNotice, IsForNobodyElse) {
  Machine machine;
  auto settings = with_head();
  EXPECT_FALSE(fp8_head_notice(settings, machine, {})) << "nothing is in FP8 on this machine";
  machine.fp8 = true;
  EXPECT_FALSE(fp8_head_notice(settings, machine, settings.runtime.fp8)) << "the head is";
  settings.runtime.fp8.head = false;
  EXPECT_FALSE(fp8_head_notice(settings, machine, kAllButTheHead)) << "it is not asked for";
  settings.runtime.fp8 = {.mlp = true, .qkv = true, .out = true, .head = true};  // FP8=1
  EXPECT_FALSE(fp8_head_notice(settings, machine, kAllButTheHead)) << "a tied one has to be named";
  settings.model.tie_embeddings = false;
  EXPECT_TRUE(fp8_head_notice(settings, machine, kAllButTheHead));
}

}  // namespace
}  // namespace tg
