#include "config/fixed_settings.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "config/resolved.h"
#include "config/types/text.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

Settings settings_of(const std::vector<std::string>& variables) {
  return parse({}, variables).settings;
}

std::string error_of(const std::vector<std::string>& saved, const std::vector<std::string>& now,
                     int saved_ranks = 1, int ranks = 1) {
  try {
    require_resumable("c", fixed_settings(settings_of(saved), saved_ranks), settings_of(now),
                      ranks);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::config);
    return error.what();
  }
  return "";
}

TEST(FixedSettings, EveryDifferenceIsNamedWithBothValues) {
  EXPECT_EQ(error_of({"SEED=3", "MODEL_DIM=64"}, {"MATRIX_LR=0.5", "MODEL_DIM=128"}),
            "c: saved with other settings (MATRIX_LR=0.025, now 0.5; MODEL_DIM=64, now 128; "
            "SEED=3, now 1337); resume with those, or set RESUME=never for a new run");
}

TEST(FixedSettings, LengthLoggingValidationOverlapDevicesAndCheckpointsAreFree) {
  EXPECT_EQ(
      error_of({}, {"ITERATIONS=5", "WARMDOWN_ITERS=2", "MAX_WALLCLOCK_SECONDS=9",
                    "TRAIN_LOG_EVERY=3", "VAL_LOSS_EVERY=2", "VAL_TOKENS=4096", "EVAL_STRIDE=0",
                    "TTT_ENABLED=1", "TRAIN_PREFETCH_WORKERS=2", "DEVICE=cpu", "FUSED=0",
                    "GRAPHS=0", "CHECKPOINT_EVERY=7m", "KEEP=5", "OUTPUT_DIR=elsewhere",
                    "ARTIFACT=none", "RUN_ID=other", "ATTENTION=math", "INIT_FROM=w.pt"}),
      "");
}

TEST(FixedSettings, EverySettingOfModelAndOptimizerThatHasAnEffectIsFrozen) {
  const auto settings = settings_of({"MTP_NUM_HEADS=1", "ROPE_LONGEST=2048"});
  const auto fixed = fixed_settings(settings, 1);
  const std::set<std::string> free = {"lr_trace",
                                      "prefix_table",
                                      "muon_beta2",
                                      "muon_momentum_cooldown_steps",
                                      "embed_lr",
                                      "gate_window",
                                      "loop_start",
                                      "loop_end",
                                      "enable_looping_at",
                                      "parallel_final_lane",
                                      "sparse_attn_gate_init_std",
                                      "sparse_attn_gate_scale",
                                      "gated_attn_init_std",
                                      "attn_out_gate_src",
                                      "qk_head_dim",
                                      "bigram_sign_rows",
                                      "mudd_dim",
                                      "dc_window",
                                      "window_block",
                                      "short_window",
                                      "long_window",
                                      "final_long_window",
                                      "window_yarn",
                                      "attention_scale"};
  const auto expect_fixed = [&](const auto& setting) {
    EXPECT_EQ(fixed.contains(env_name(setting.name)), !free.contains(setting.name)) << setting.name;
  };
  for_each_setting(settings.model, expect_fixed, settings);
  for_each_setting(settings.optim, expect_fixed, settings);
}

TEST(FixedSettings, TheWindowsOfTheRecipeThatHasThemAreFrozen) {
  const auto settings = settings_of({"RECIPE=speedrun_43"});
  const auto fixed = fixed_settings(settings, 1);
  const auto expect_fixed = [&](const auto& setting) {
    EXPECT_TRUE(fixed.contains(env_name(setting.name))) << setting.name;
  };
  for_each_setting(settings.model.windows, expect_fixed, settings);
}

TEST(FixedSettings, OfRecord89AreFrozenWhereTheyHaveAnEffect) {
  const auto fixed = fixed_settings(settings_of({"RECIPE=speedrun_89"}), 1);
  for (const auto* name : {"QK_HEAD_DIM", "BIGRAM_SIGN_ROWS", "MUDD_DIM", "DC_WINDOW"})
    EXPECT_TRUE(fixed.contains(name)) << name;
  EXPECT_EQ(error_of({"RECIPE=speedrun_89", "QK_HEAD_DIM=64"}, {"RECIPE=speedrun_89"}), "");
  EXPECT_NE(error_of({"RECIPE=speedrun_89", "QK_HEAD_DIM=32"}, {"RECIPE=speedrun_89"}), "");
}

TEST(FixedSettings, WhatBelongsToAPartThatIsSwitchedOffIsFree) {
  const struct {
    std::string setting, without;  // the setting has no effect in a run with the other one
  } cases[] = {{"BIGRAM_DIM=64", "BIGRAM_VOCAB_SIZE=0"},
               {"GATE_WINDOW=8", "SMEAR_GATE_ENABLED=0"},
               {"LOOP_START=2", "NUM_LOOPS=0"},
               {"ENABLE_LOOPING_AT=0.5", "NUM_LOOPS=0"},
               {"PARALLEL_FINAL_LANE=mlp", "PARALLEL_START_LAYER=0"},
               {"SPARSE_ATTN_GATE_SCALE=2", "SPARSE_ATTN_GATE_ENABLED=0"},
               {"ATTN_OUT_GATE_SRC=q", "ATTN_OUT_GATE_ENABLED=0"},
               {"VE_DIM=64", "VE_ENABLED=0"},
               {"VE_LAYERS=1,2", "VE_ENABLED=0"},
               {"MTP_LOSS_WEIGHT=0.5", "MTP_NUM_HEADS=0"},
               {"TIED_EMBED_LR=1", "TIE_EMBEDDINGS=0"},
               {"TIED_EMBED_INIT_STD=1", "TIE_EMBEDDINGS=0"},
               {"EMBED_LR=1", "TIE_EMBEDDINGS=1"},
               {"HEAD_LR=1", "TIE_EMBEDDINGS=1"},
               {"MUON_MOMENTUM_WARMUP_START=0.5", "MUON_MOMENTUM_WARMUP_STEPS=0"},
               {"EMA_ENABLED=0", "LAWA_ENABLED=1"},
               {"SWA_ENABLED=0", "EMA_ENABLED=1"},
               {"SWA_EVERY=7", "EMA_ENABLED=1"},
               {"LAWA_K=3", "LAWA_ENABLED=0"},
               {"LAWA_FREQ=3", "LAWA_ENABLED=0"},
               {"LATE_QAT_THRESHOLD=0.5", "QAT_ENABLED=1"},
               {"MUON_BETA2=0.5", "NORMUON=0"},
               {"LATE_QAT=1", "QAT_ENABLED=0"}};
  for (const auto& [setting, without] : cases) {
    EXPECT_EQ(error_of({without}, {without, setting}), "") << setting;
    EXPECT_EQ(error_of({without, setting}, {without}), "") << setting;
  }
  // Where the part is on, it is fixed.
  const std::vector<std::string> untied = {"TIE_EMBEDDINGS=0"}, averages = {"EMA_ENABLED=0"};
  EXPECT_NE(error_of(untied, {"TIE_EMBEDDINGS=0", "EMBED_LR=1"}), "");
  EXPECT_NE(error_of(averages, {"EMA_ENABLED=0", "SWA_EVERY=7"}), "");
  EXPECT_NE(error_of({}, {"BIGRAM_DIM=64"}), "");
  EXPECT_NE(error_of({"NORMUON=1"}, {"NORMUON=1", "MUON_BETA2=0.5"}), "");
  EXPECT_NE(error_of({"MTP_NUM_HEADS=1"}, {"MTP_NUM_HEADS=1", "HEAD_LR=1"}), "");
}

TEST(FixedSettings, ASwitchIsNamedWithoutTheSettingsOfItsPart) {
  EXPECT_EQ(error_of({"BIGRAM_VOCAB_SIZE=0"}, {"BIGRAM_DIM=64"}),
            "c: saved with other settings (BIGRAM_VOCAB_SIZE=0, now 2048); resume with those, or "
            "set RESUME=never for a new run");
}

TEST(FixedSettings, ValuesThatMeanTheSameAreTheSame) {
  EXPECT_EQ(error_of({"ROPE_DIMS=0"}, {"ROPE_DIMS=64"}), "");  // the whole head
  EXPECT_NE(error_of({"ROPE_DIMS=0"}, {"ROPE_DIMS=16"}), "");
  EXPECT_EQ(error_of({"VE_LAYERS="}, {"VE_ENABLED=0"}), "");
  EXPECT_EQ(
      error_of({"NUM_LAYERS=3", "ATTENTION_WINDOW=9,9,9"}, {"NUM_LAYERS=3", "ATTENTION_WINDOW=9"}),
      "");
  EXPECT_NE(error_of({"ATTENTION_WINDOW=9"}, {"ATTENTION_WINDOW=8"}), "");
  EXPECT_EQ(error_of({"ADAM_EPS=1e-8"}, {"ADAM_EPS=0.00000001"}), "");
}

// auto follows from other settings, which are fixed; a number of the run counts.
TEST(FixedSettings, ANumberIsComparedWithANumberNotWithAuto) {
  EXPECT_EQ(error_of({}, {"ROPE_LONGEST=2048"}), "");
  EXPECT_EQ(error_of({"ROPE_LONGEST=2048"}, {"ROPE_LONGEST=2048"}), "");
  EXPECT_NE(
      error_of({"ROPE_LONGEST=2048"}, {"ROPE_LONGEST=1024"}).find("ROPE_LONGEST=2048, now 1024"),
      std::string::npos);
  const std::vector<std::string> off = {"ROPE_YARN=0", "ROPE_LONGEST=2048"};
  EXPECT_EQ(error_of(off, {"ROPE_YARN=0", "ROPE_LONGEST=1024"}), "");
}

TEST(FixedSettings, RanksAreFreeWhereTheMicroBatchesStayTheSame) {
  EXPECT_EQ(error_of({}, {}, 1, 8), "");
  EXPECT_EQ(error_of({"GRAD_ACCUM_STEPS=4"}, {"GRAD_ACCUM_STEPS=2"}, 2, 4), "");
  EXPECT_NE(error_of({}, {}, 8, 16).find("micro-batches of a step=8, now 16"), std::string::npos);
  const std::vector<std::string> strided = {"LOADER_ORDER=strided"};
  EXPECT_NE(error_of(strided, strided, 2, 4).find("ranks (LOADER_ORDER=strided)=2, now 4"),
            std::string::npos);
}

TEST(FixedSettings, OrdersOfRowsHaveOneOrderOnAnyRanksButWithTheScriptsQuirks) {
  for (const std::string order : {"documents", "aligned"}) {
    const std::vector<std::string> rows = {"LOADER_ORDER=" + order, "BOS_ID=1", "GRAD_CLIP_NORM=0"};
    auto quirks = rows;
    quirks.push_back("RECORD_QUIRKS=1");
    EXPECT_EQ(error_of(rows, rows, 2, 4), "");
    EXPECT_NE(error_of(quirks, quirks, 2, 4).find("ranks (RECORD_QUIRKS=1)=2, now 4"),
              std::string::npos);
    auto other = rows;
    other.push_back("BOS_ID=7");
    EXPECT_NE(error_of(rows, other).find("(BOS_ID=1, now 7)"), std::string::npos);
  }
  EXPECT_EQ(error_of({"BOS_ID=1"}, {"BOS_ID=7"}), "");
  // A checkpoint of a program that had no BOS_ID.
  auto saved = fixed_settings(Settings(), 1);
  EXPECT_FALSE(saved.contains("BOS_ID"));
}

TEST(FixedSettings, SegmentsOfAttentionAreFrozenByTheirMeaning) {
  const std::vector<std::string> documents = {"LOADER_ORDER=documents", "BOS_ID=1"};
  const auto with = [&](std::vector<std::string> settings, const std::vector<std::string>& more) {
    settings.insert(settings.end(), more.begin(), more.end());
    return settings;
  };
  EXPECT_EQ(error_of(documents, with(documents, {"DOCUMENT_ATTENTION=1", "SEGMENT_LIMIT=2048"})),
            "");
  EXPECT_NE(error_of(documents, with(documents, {"DOCUMENT_ATTENTION=0"})), "");
  EXPECT_NE(
      error_of(documents, with(documents, {"SEGMENT_LIMIT=0"})).find("SEGMENT_LIMIT=2048, now 0"),
      std::string::npos);
  EXPECT_EQ(error_of({}, {"DOCUMENT_ATTENTION=0", "SEGMENT_LIMIT=7"}), "");
  const std::vector<std::string> aligned = {"LOADER_ORDER=aligned", "DOCUMENT_ATTENTION=0"};
  EXPECT_NE(error_of(aligned, with(aligned, {"SEGMENT_LIMIT=7"})).find("SEGMENT_LIMIT=2048, now 7"),
            std::string::npos);
  // A checkpoint of a program without these settings.
  auto saved = fixed_settings(Settings(), 1);
  saved.erase("DOCUMENT_ATTENTION");
  EXPECT_NO_THROW(require_resumable("c", saved, Settings(), 1));
}

TEST(FixedSettings, TheEmbeddingsDecayIsFrozenByItsValue) {
  EXPECT_EQ(error_of({"ADAM_WD=0.1"}, {"ADAM_WD=0.1", "EMBED_WD=0.1"}), "");
  EXPECT_NE(error_of({}, {"EMBED_WD=0.1"}).find("EMBED_WD=0.04, now 0.1"), std::string::npos);
  // A checkpoint of a program without the setting.
  auto saved = fixed_settings(Settings(), 1);
  saved.erase("EMBED_WD");
  EXPECT_NO_THROW(require_resumable("c", saved, Settings(), 1));
}

TEST(FixedSettings, RanksAreFrozenWhereTheScriptsQuirksMakeLossesDependOnThem) {
  const std::vector<std::string> quirks = {"RECORD_QUIRKS=1"},
                                 none = {"RECORD_QUIRKS=1", "GRAD_CLIP_NORM=0"};
  EXPECT_NE(error_of(quirks, quirks, 2, 4).find("ranks (RECORD_QUIRKS=1)=2, now 4"),
            std::string::npos);
  EXPECT_EQ(error_of(quirks, quirks, 2, 2), "");
  EXPECT_EQ(error_of(none, none, 2, 4), "");
}

TEST(FixedSettings, OfAnOlderProgramTheTextsOfAllSettingsAreReadByTheirMeaning) {
  auto saved = fixed_settings(Settings(), 1);
  saved["EMBED_LR"] = "0.5";  // without effect
  saved["ADAM_EPS"] = "1e-08";
  saved["DATA_PATH"] = "./elsewhere";
  EXPECT_NO_THROW(require_resumable("c", saved, Settings(), 1));
}

TEST(FixedSettings, ATextThatIsNoValueIsADifference) {
  for (const auto* text : {"fast", "0", "-1", ""}) {
    auto saved = fixed_settings(Settings(), 1);
    saved["NUM_HEADS"] = text;
    try {
      require_resumable("c", saved, Settings(), 1);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("(NUM_HEADS={}, now 8)", text)),
                std::string::npos)
          << error.what();
    }
  }
}

TEST(FixedSettings, WhatAnOlderProgramDidNotKnowHadItsDefault) {
  auto saved = fixed_settings(Settings(), 1);
  saved.erase("SMEAR");
  EXPECT_NO_THROW(require_resumable("c", saved, Settings(), 1));
  EXPECT_THROW(require_resumable("c", saved, settings_of({"SMEAR=off"}), 1), Error);
}

TEST(FixedSettings, SwitchesOfOlderProgramsAreTheSettingsThatTheySelect) {
  auto saved = fixed_settings(settings_of({"SMEAR=gated", "HEAD_GATE=sparse"}), 1);
  saved.erase("SMEAR");
  saved.erase("HEAD_GATE");
  saved.insert({{"SMEAR_GATE", "0"},
                {"SMEAR_GATE_ENABLED", "1"},
                {"GATED_ATTENTION", "0"},
                {"SPARSE_ATTN_GATE_ENABLED", "1"},
                {"GATED_ATTN_ENABLED", "0"},
                {"ATTN_OUT_GATE_ENABLED", "0"}});
  EXPECT_NO_THROW(
      require_resumable("c", saved, settings_of({"SMEAR=gated", "HEAD_GATE=sparse"}), 1));
  EXPECT_EQ(failure_of([&] {
              require_resumable("c", saved, settings_of({"SMEAR=off", "HEAD_GATE=full"}), 1);
            }),
            "78 c: saved with other settings (HEAD_GATE=sparse, now full; SMEAR=gated, now off); "
            "resume with those, or set RESUME=never for a new run");
}

TEST(GradAccumSteps, IsANumberOrAuto) {
  EXPECT_EQ(settings_of({"GRAD_ACCUM_STEPS=3"}).run.grad_accum_steps.value, 3);
  const auto automatic = settings_of({"GRAD_ACCUM_STEPS= auto "});
  EXPECT_TRUE(automatic.run.grad_accum_steps.automatic);
  EXPECT_EQ(setting_text(automatic, "grad_accum_steps"), "auto");
  // Micro-batches as by default, and so equal tokens in every step.
  EXPECT_EQ(fixed_settings(automatic, 2), fixed_settings(Settings(), 2));
  for (const auto* wrong : {"-1", "automatic", "2.5", ""}) {
    EXPECT_NE(failure_of([&] {
                settings_of({std::string("GRAD_ACCUM_STEPS=") + wrong});
              }).find("expected auto or an integer in [0, 65536]"),
              std::string::npos)
        << wrong;
  }
}

TEST(CheckpointEvery, IsANumberOfStepsOrOfMinutes) {
  EXPECT_EQ(settings_of({"CHECKPOINT_EVERY=100"}).runtime.checkpoint_every.count, 100);
  EXPECT_FALSE(settings_of({"CHECKPOINT_EVERY=100"}).runtime.checkpoint_every.minutes);
  EXPECT_EQ(settings_of({"CHECKPOINT_EVERY= 5m "}).runtime.checkpoint_every.count, 5);
  EXPECT_TRUE(settings_of({"CHECKPOINT_EVERY=5m"}).runtime.checkpoint_every.minutes);
  EXPECT_EQ(setting_text(settings_of({"CHECKPOINT_EVERY=5m"}), "checkpoint_every"), "5m");
  for (const auto* wrong : {"-1", "m", "5s", "5 minutes", "1.5m", ""}) {
    EXPECT_THROW(settings_of({std::string("CHECKPOINT_EVERY=") + wrong}), Error) << wrong;
  }
}

}  // namespace
}  // namespace tg
