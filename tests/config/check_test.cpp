#include "config/check.h"

#include <gtest/gtest.h>

#include "config/derived.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

Settings with(const std::vector<std::string>& variables) {
  return parse({}, variables).settings;
}

TEST(Check, DefaultsFitEveryWorldSizeThatDividesTheWork) {
  for (const int world_size : {1, 2, 3, 4, 5, 6, 7, 8, 16}) {
    EXPECT_EQ(find_conflicts(Settings(), world_size), std::vector<std::string>()) << world_size;
  }
}

TEST(Check, AStepIsTheSameMicroBatchesForUpToEightRanks) {
  const int rounds[] = {8, 4, 3, 2, 2, 2, 2, 1};
  for (int world_size = 1; world_size <= 8; ++world_size) {
    EXPECT_EQ(micro_batches(Settings(), world_size), 8);
    EXPECT_EQ(micro_steps(Settings(), world_size), rounds[world_size - 1]);
    EXPECT_EQ(micro_batch_tokens(Settings(), world_size), 98304);
  }
  EXPECT_EQ(micro_batches(Settings(), 12), 12);
  EXPECT_EQ(micro_steps(Settings(), 12), 1);
  const auto accumulating = with({"GRAD_ACCUM_STEPS=2"});
  EXPECT_EQ(micro_batches(accumulating, 3), 6);
  EXPECT_EQ(micro_steps(accumulating, 3), 2);
}

TEST(Check, AStridedStepIsWholeRoundsOfAllRanks) {
  const int micro[] = {8, 8, 9, 8, 10, 12, 14, 8};
  const auto strided = with({"LOADER_ORDER=strided"});
  for (int world_size = 1; world_size <= 8; ++world_size) {
    const auto expected = micro[world_size - 1];
    EXPECT_EQ(micro_batches(strided, world_size), expected);
    EXPECT_EQ(micro_steps(strided, world_size), expected / world_size);
    EXPECT_EQ(micro_batch_tokens(strided, world_size), 98304);
    EXPECT_EQ(tokens_per_step(strided, world_size), expected * 98304);
    EXPECT_EQ(tokens_per_step(Settings(), world_size), 786432);
  }
  EXPECT_EQ(micro_batches(strided, 12), 12);
  const auto accumulating = with({"LOADER_ORDER=strided", "GRAD_ACCUM_STEPS=2"});
  EXPECT_EQ(micro_batches(accumulating, 3), 6);
  EXPECT_EQ(micro_batch_tokens(accumulating, 3), 131072);
  EXPECT_EQ(tokens_per_step(accumulating, 3), 786432);
}

TEST(Check, AMicroBatchOfTheDocumentsAndAlignedOrdersIsOneRow) {
  for (const std::string order : {"documents", "aligned"}) {
    const auto rows = with({"LOADER_ORDER=" + order, "TRAIN_BATCH_TOKENS=8000,16000@0.5",
                            "TRAIN_SEQ_LEN=64", "EVAL_SEQ_LEN=64"});
    for (const int world_size : {1, 2, 3, 5, 8}) {
      EXPECT_EQ(find_conflicts(rows, world_size), std::vector<std::string>()) << world_size;
      EXPECT_EQ(batch_shapes(rows, world_size),
                (std::vector<BatchShape>{{1000, 1000, 64}, {2000, 2000, 64}}));
      EXPECT_EQ(micro_batches(rows, world_size), 8);
      EXPECT_EQ(longest_training_row(rows, world_size), 2000);
    }
    EXPECT_EQ(batch_shape(rows, 16, {}), (BatchShape{500, 500, 64}));
  }
  EXPECT_EQ(longest_training_row(with({"TRAIN_SEQ_LEN=64,128@0.2"}), 1), 128);
}

TEST(Check, CountsOfTokensEndWhereProductsOfThemStillFitInto64Bits) {
  for (const std::string name : {"VAL_TOKENS", "VAL_BATCH_SIZE", "TRAIN_BATCH_TOKENS"}) {
    EXPECT_EQ(failure_of([&] { with({name + "=1099511627776"}); }), "") << name;
    for (const std::string value : {"1099511627777", "9223372036854774784"}) {
      const auto failure = failure_of([&] { with({name + "=" + value}); });
      EXPECT_TRUE(failure.starts_with("64 " + name)) << failure;
      EXPECT_NE(failure.find("1099511627776]"), std::string::npos) << failure;
    }
  }
}

TEST(Check, DerivedSizes) {
  EXPECT_EQ(mlp_hidden(with({"MODEL_DIM=48", "MLP_MULT=2.55"}).model), 122);
  EXPECT_EQ(head_dim(Settings().model), 64);
  EXPECT_EQ(eval_length(with({"EVAL_SEQ_LEN=0", "TRAIN_SEQ_LEN=128"})), 128);
  EXPECT_EQ(eval_length(with({"EVAL_SEQ_LEN=256", "TRAIN_SEQ_LEN=128"})), 256);
}

std::int64_t rope_longest(const std::vector<std::string>& variables, int ranks = 1) {
  return rope_stretch(with(variables), ranks).longest;
}

TEST(RopeStretch, IsThatOfTheRowsOfTraining) {
  EXPECT_EQ(rope_longest({}), 2048);
  EXPECT_EQ(rope_longest({"TRAIN_SEQ_LEN=512,1024@0.5,768@0.9"}), 1024);
  EXPECT_EQ(rope_longest({"DOCUMENT_ATTENTION=1", "SEGMENT_LIMIT=300"}), 300);
  const std::string documents = "LOADER_ORDER=documents", tokens = "TRAIN_BATCH_TOKENS=65536";
  EXPECT_EQ(rope_longest({documents, tokens}), 2048);
  EXPECT_EQ(rope_longest({documents, tokens, "SEGMENT_LIMIT=0"}), 8192);
  EXPECT_EQ(rope_longest({documents, tokens, "DOCUMENT_ATTENTION=0"}), 8192);
  // A run's own number holds on other ranks, too.
  EXPECT_EQ(rope_longest({documents, tokens, "SEGMENT_LIMIT=0"}, 16), 4096);
  auto settings = with({documents, tokens, "SEGMENT_LIMIT=0"});
  resolve_rope_longest(settings, 16);
  EXPECT_EQ(rope_stretch(settings, 1).longest, 4096);
  EXPECT_EQ(rope_longest({"RECORD_QUIRKS=1"}), 0);  // a pass's own rows
  EXPECT_EQ(rope_longest({"ROPE_LONGEST=0"}), 0);
  EXPECT_EQ(rope_longest({"ROPE_YARN=1", tokens}), 65536);
  EXPECT_EQ(rope_stretch(with({"ROPE_YARN=0"}), 1).trained, 0);
}

TEST(AdaptationRow, IsWhatAttentionSpansInTraining) {
  const auto row = [](const std::vector<std::string>& variables) {
    return adaptation_row(with(variables));
  };
  EXPECT_EQ(row({"TTT_EVAL_SEQ_LEN=100"}), 100);
  EXPECT_EQ(row({"TRAIN_SEQ_LEN=512"}), 512);
  EXPECT_EQ(row({"LOADER_ORDER=documents"}), 2048);
  EXPECT_EQ(row({"LOADER_ORDER=documents", "SEGMENT_LIMIT=300"}), 300);
  EXPECT_EQ(row({"LOADER_ORDER=documents", "SEGMENT_LIMIT=0", "TRAIN_BATCH_TOKENS=65536",
                 "GRAD_ACCUM_STEPS=2"}),
            8192);
}

struct Conflict {
  std::vector<std::string> variables;
  int world_size;
  std::string expected;
};

TEST(Check, NamesWhatDoesNotFit) {
  const Conflict cases[] = {
      {{"MODEL_DIM=500"}, 1, "MODEL_DIM=500 is no multiple of NUM_HEADS=8"},
      {{"NUM_KV_HEADS=3"}, 1, "NUM_HEADS=8 is no multiple of NUM_KV_HEADS=3"},
      {{"MODEL_DIM=136", "ROPE_DIMS=16"},
       1,
       "MODEL_DIM / NUM_HEADS = 136 / 8 = 17: a head's size must be even"},
      {{"ROPE_DIMS=15"}, 1, "ROPE_DIMS=15: expected an even number up to the head's size 64"},
      {{"ROPE_DIMS=66"}, 1, "ROPE_DIMS=66: expected an even number up to the head's size 64"},
      {{"ROPE_DIMS=2"},
       1,
       "2 rotated channels cannot serve rows of 2048 tokens: expected at least 4 beyond 1024"},
      {{"MODEL_DIM=8", "NUM_HEADS=4", "ROPE_DIMS=0"},
       1,
       "2 rotated channels cannot serve rows of 2048 tokens: expected at least 4 beyond 1024"},
      {{"MLP_MULT=0.001"}, 1, "MLP_MULT=0.001 of MODEL_DIM=512 leaves the MLP no hidden channel"},
      {{"XSA_LAST_N=12"}, 1, "XSA_LAST_N=12 is more than NUM_LAYERS=11"},
      {{"ATTENTION_WINDOW=1024,0"},
       1,
       "ATTENTION_WINDOW=1024,0 has 2 values: expected one for all blocks, or one for each of "
       "NUM_LAYERS=11"},
      {{"ATTENTION_WINDOW="},
       1,
       "ATTENTION_WINDOW= has 0 values: expected one for all blocks, or one for each of "
       "NUM_LAYERS=11"},
      {{"BIGRAM_VOCAB_SIZE=1"},
       1,
       "BIGRAM_VOCAB_SIZE=1 leaves no row to hash into: expected 0 or at least 2"},
      {{"SMEAR=gated", "GATE_WINDOW=513"}, 1, "GATE_WINDOW=513 is more than MODEL_DIM=512"},
      {{"NUM_LOOPS=1", "LOOP_START=4", "LOOP_END=3"},
       1,
       "NUM_LOOPS=1 of the blocks LOOP_START=4 to LOOP_END=3: expected LOOP_START <= LOOP_END < "
       "NUM_LAYERS=11"},
      {{"NUM_LOOPS=1", "LOOP_START=0", "VALUE_RESIDUAL=1"},
       1,
       "LOOP_START=0 and VALUE_RESIDUAL=1: the first block's values are those of its one visit: "
       "expected LOOP_START of at least 1"},
      {{"PARALLEL_START_LAYER=11"}, 1, "PARALLEL_START_LAYER=11: no block 11 in 0..10"},
      {{"PARALLEL_START_LAYER=5", "DTG_ENABLED=1"},
       1,
       "PARALLEL_START_LAYER=5 and DTG_ENABLED=1: a token bypasses whole blocks, not lanes: "
       "expected one of them to be 0"},
      {{"SMEAR=gated", "BOS_ID=1024"}, 1, "BOS_ID=1024 is no token of VOCAB_SIZE=1024"},
      {{"NUM_LAYERS=10"}, 1, "VE_LAYERS=9,10: no block 10 in 0..9"},
      {{"VE_LAYERS=-1"}, 1, "VE_LAYERS=-1: no block -1 in 0..10"},
      {{"VE_LAYERS=3,3"}, 1, "VE_LAYERS=3,3 names block 3 twice"},
      {{"TRAIN_BATCH_TOKENS=8192"},
       2,
       "TRAIN_BATCH_TOKENS=8192 is no multiple of 16384: 8 micro-batches (the number for world "
       "size 2) of "
       "whole rows of TRAIN_SEQ_LEN=2048"},
      {{"TRAIN_BATCH_TOKENS=8192", "GRAD_ACCUM_STEPS=3"},
       2,
       "TRAIN_BATCH_TOKENS=8192 is no multiple of 12288: 6 micro-batches (GRAD_ACCUM_STEPS=3 on 2 "
       "ranks) of "
       "whole rows of TRAIN_SEQ_LEN=2048"},
      {{"VAL_BATCH_SIZE=16384"},
       3,
       "VAL_BATCH_SIZE=16384 split in 9 (3 ranks, 3 micro-steps) is less than one row of 2048 "
       "tokens (the "
       "longer of TRAIN_SEQ_LEN and EVAL_SEQ_LEN): expected at least 18432"},
      {{"VAL_BATCH_SIZE=8192", "TRAIN_SEQ_LEN=512"},
       1,
       "VAL_BATCH_SIZE=8192 split in 8 (1 ranks, 8 micro-steps) is less than one row of 2048 "
       "tokens (the "
       "longer of TRAIN_SEQ_LEN and EVAL_SEQ_LEN): expected at least 16384"},
      {{"LOADER_ORDER=strided"},
       1,
       "VAL_TOKENS=0: LOADER_ORDER=strided needs a positive multiple of VAL_BATCH_SIZE=524288"},
      {{"LOADER_ORDER=strided", "VAL_TOKENS=524289"},
       1,
       "VAL_TOKENS=524289: LOADER_ORDER=strided needs a positive multiple of "
       "VAL_BATCH_SIZE=524288"},
      {{"LOADER_ORDER=strided", "VAL_TOKENS=524288"},
       3,
       "VAL_BATCH_SIZE=524288 is no multiple of 6144: whole rows of TRAIN_SEQ_LEN=2048 on each of "
       "3 ranks, as "
       "LOADER_ORDER=strided reads them"},
      {{"LOADER_ORDER=documents", "TRAIN_BATCH_TOKENS=8196"},
       3,
       "TRAIN_BATCH_TOKENS=8196 is no multiple of 8 rows (the number for world size 3), as "
       "LOADER_ORDER=documents reads them"},
      {{"LOADER_ORDER=documents", "TRAIN_BATCH_TOKENS=67108864", "GRAD_ACCUM_STEPS=2"},
       1,
       "TRAIN_BATCH_TOKENS=67108864 in 2 rows (GRAD_ACCUM_STEPS=2 on 1 ranks): "
       "LOADER_ORDER=documents expects rows of at most 16777216 tokens"},
      {{"LOADER_ORDER=documents", "BOS_ID=1024"}, 1, "BOS_ID=1024 is no token of VOCAB_SIZE=1024"},
      {{"DATA_PATH=synthetic:documents", "BOS_ID=1024"},
       1,
       "BOS_ID=1024 is no token of VOCAB_SIZE=1024"},
      {{"LOADER_ORDER=documents", "TRAIN_SEQ_LEN=64,128@0.2"},
       1,
       "TRAIN_SEQ_LEN=64,128@0.2 changes, and with LOADER_ORDER=documents rows change with "
       "TRAIN_BATCH_TOKENS alone: expected one number"},
      {{"DOCUMENT_ATTENTION=1", "GRAD_ACCUM_STEPS=auto"},
       1,
       "DOCUMENT_ATTENTION=1 and GRAD_ACCUM_STEPS=auto, which divides micro-batches but not their "
       "segments: expected LOADER_ORDER=documents or aligned, whose rows are whole, or a number"},
      // A whole micro-batch is a row.
      {{"LOADER_ORDER=documents", "DOCUMENT_ATTENTION=0", "TRAIN_BATCH_TOKENS=16384",
        "TRAIN_SEQ_LEN=1024", "EVAL_SEQ_LEN=0", "ROPE_DIMS=2"},
       1,
       "2 rotated channels cannot serve rows of 2048 tokens: expected at least 4 beyond 1024"},
      {{"MTP_NUM_HEADS=16", "TRAIN_SEQ_LEN=16"},
       1,
       "MTP_NUM_HEADS=16 looks further ahead than TRAIN_SEQ_LEN=16"},
      {{"TTT_ENABLED=1", "EVAL_STRIDE=0"},
       1,
       "EVAL_STRIDE=0: TTT_ENABLED=1 scores in strides of 1 to TRAIN_SEQ_LEN=2048"},
      {{"TTT_ENABLED=1", "TTT_CHUNK_TOKENS=2047"},
       1,
       "TTT_CHUNK_TOKENS=2047 holds no row of TRAIN_SEQ_LEN=2048 to train on"},
      {{"TTT_ENABLED=1", "TTT_FREEZE_BLOCKS=12"},
       1,
       "TTT_FREEZE_BLOCKS=12 is more than NUM_LAYERS=11"},
      {{"FP8=1", "DEVICE=cpu"}, 1, "FP8=1 needs a GPU, and DEVICE=cpu"},
      {{"FP8=1", "COMPUTE_DTYPE=fp32"}, 1, "FP8=1 and COMPUTE_DTYPE=fp32: expected bf16 or auto"},
      {{"FP8=out,mlp", "COMPUTE_DTYPE=fp16"},
       1,
       "FP8=mlp,out and COMPUTE_DTYPE=fp16: expected bf16 or auto"},
      {{"COMPUTE_DTYPE=tf32", "DEVICE=cpu"}, 1, "COMPUTE_DTYPE=tf32 needs a GPU, and DEVICE=cpu"},
      {{"ATTENTION=cudnn", "DEVICE=cpu"}, 1, "ATTENTION=cudnn needs a GPU, and DEVICE=cpu"},
      {{"ATTENTION=cudnn", "COMPUTE_DTYPE=fp32"},
       1,
       "ATTENTION=cudnn knows bf16 and fp16 only, and COMPUTE_DTYPE=fp32"},
      {{"ATTENTION=cudnn", "DETERMINISTIC=1"},
       1,
       "DETERMINISTIC=1 and ATTENTION=cudnn, whose backward is not: expected auto, flash or math"},
      {{"VAL_BYTECOUNT_DEVICE=cuda", "DEVICE=cpu"},
       1,
       "VAL_BYTECOUNT_DEVICE=cuda needs a GPU, and DEVICE=cpu"},
      {{"GPTQ_RESERVE_SECONDS=600"},
       1,
       "GPTQ_RESERVE_SECONDS=600.0 leaves no time to train of MAX_WALLCLOCK_SECONDS=600.0"},
      {{"WARMDOWN_FRAC=0.5", "MIN_LR=0.1", "LR_FLOOR=0.2"},
       1,
       "MIN_LR=0.1 and LR_FLOOR=0.2, which end the warm-down in different ways: expected one of "
       "them to be 0"},
      {{"ARTIFACT=gptq", "LQER_FACTOR_BITS=3"},
       1,
       "LQER_FACTOR_BITS=3 and LQER_ASYM_ENABLED=1, whose factors have 2 and 4 bits: expected "
       "LQER_ASYM_ENABLED=0"},
      {{"PHASED_TTT_ENABLED=1", "TTT_ENABLED=1"},
       1,
       "PHASED_TTT_ENABLED=1 and TTT_ENABLED=1, and each would train what the other scores: "
       "expected one of them"},
      {{"PHASED_TTT_ENABLED=1", "TTT_CHUNK_SIZE=64", "TTT_EVAL_SEQ_LEN=32"},
       1,
       "TTT_CHUNK_SIZE=64 is more than TTT_EVAL_SEQ_LEN=32"},
      {{"PHASED_TTT_ENABLED=1", "TTT_CHUNK_SIZE=64", "DOCUMENT_ATTENTION=1", "SEGMENT_LIMIT=32"},
       1,
       "TTT_CHUNK_SIZE=64 is more than TTT_EVAL_SEQ_LEN=0, the 32 tokens that attention spans in "
       "training"},
      {{"LOADER_ORDER=documents", "GRAD_ACCUM_STEPS=2", "VAL_BATCH_SIZE=16000"},
       4,
       "VAL_BATCH_SIZE=16000 split in 8 (rows of LOADER_ORDER=documents) is less than one row of "
       "2048 tokens (the longer of TRAIN_SEQ_LEN and EVAL_SEQ_LEN): expected at least 16384"},
      {{"LOADER_ORDER=aligned", "TRAIN_BATCH_TOKENS=512", "EVAL_SEQ_LEN=320",
        "VAL_BATCH_SIZE=2400"},
       3,
       "VAL_BATCH_SIZE=2400 split in 8 (rows of LOADER_ORDER=aligned) is less than one row of 320 "
       "tokens (the longer of TRAIN_SEQ_LEN and EVAL_SEQ_LEN): expected at least 2560"},
      {{"PHASED_TTT_ENABLED=1", "GLOBAL_TTT_CHUNK_TOKENS=1000"},
       1,
       "GLOBAL_TTT_CHUNK_TOKENS=1000 holds no row of EVAL_SEQ_LEN=2048 to train on"},
      {{"RESUME="}, 1, "RESUME is empty: expected auto, never or a checkpoint's folder"},
  };
  for (const auto& [variables, world_size, expected] : cases) {
    EXPECT_EQ(find_conflicts(with(variables), world_size), std::vector<std::string>{expected});
  }
}

TEST(Check, LetsPassWhatIsMerelyUnused) {
  const std::vector<std::string> fine[] = {
      {"VE_ENABLED=0", "VE_LAYERS=40"},
      {"TTT_FREEZE_BLOCKS=40", "EVAL_STRIDE=0"},
      {"EVAL_STRIDE=4096"},
      {"DEVICE=cpu", "COMPUTE_DTYPE=bf16"},
      {"VE_LAYERS="},
      {"LQER_FACTOR_BITS=3"},
      {"ARTIFACT=gptq", "LQER_FACTOR_BITS=3", "RECORD_QUIRKS=1"},
      {"ARTIFACT=gptq", "LQER_FACTOR_BITS=3", "LQER_ASYM_ENABLED=0"},
      {"PHASED_TTT_ENABLED=1", "PHASED_TTT_PREFIX_DOCS=0", "GLOBAL_TTT_CHUNK_TOKENS=1"},
      {"ATTENTION_WINDOW=9999"},
      {"ATTENTION_WINDOW=0,1,2,3,4,5,6,7,8,9,4096"},
      {"BOS_ID=40000"},
      {"LOADER_ORDER=documents", "GRAD_ACCUM_STEPS=auto"},
      {"LOADER_ORDER=aligned", "GRAD_ACCUM_STEPS=auto"},
      {"LOADER_ORDER=aligned", "TRAIN_BATCH_TOKENS=512", "EVAL_SEQ_LEN=320", "VAL_BATCH_SIZE=2560"},
      {"LOADER_ORDER=documents", "TRAIN_BATCH_TOKENS=16384", "TRAIN_SEQ_LEN=1024", "EVAL_SEQ_LEN=0",
       "ROPE_DIMS=2"},
      {"ROPE_DIMS=2", "TRAIN_SEQ_LEN=1024", "EVAL_SEQ_LEN=0"},
  };
  for (const auto& variables : fine) {
    EXPECT_EQ(find_conflicts(with(variables), 1), std::vector<std::string>()) << variables[0];
  }
}

TEST(Check, ConcernsOnlyTheSettingsThatAUseReads) {
  using Use = SettingsUse;
  struct Case {
    std::vector<std::string> variables;
    Use first;  // the first use with the conflict
  };
  const Case cases[] = {
      {{"XSA_LAST_N=20"}, Use::weights},
      {{"ATTENTION_WINDOW=1,2"}, Use::weights},
      {{"MODEL_DIM=500"}, Use::weights},
      {{"COMPUTE_DTYPE=tf32", "DEVICE=cpu"}, Use::sampling},
      {{"ROPE_DIMS=2", "EVAL_SEQ_LEN=0"}, Use::sampling},
      {{"ROPE_DIMS=2", "TRAIN_SEQ_LEN=1024"}, Use::scoring},
      {{"VAL_BATCH_SIZE=1024"}, Use::scoring},
      {{"LOADER_ORDER=strided"}, Use::scoring},
      {{"TTT_ENABLED=1", "EVAL_STRIDE=0"}, Use::scoring},
      {{"VAL_BYTECOUNT_DEVICE=cuda", "DEVICE=cpu"}, Use::scoring},
      {{"TRAIN_BATCH_TOKENS=1000"}, Use::training},
      {{"PROFILE=1", "ITERATIONS=3"}, Use::training},
      {{"RESUME="}, Use::training},
  };
  for (const auto& [variables, first] : cases) {
    for (const Use use : {Use::weights, Use::sampling, Use::scoring, Use::training}) {
      EXPECT_EQ(find_conflicts(with(variables), 1, use).size(), use >= first ? 1U : 0U)
          << variables[0];
    }
  }
}

TEST(Check, ReportsAllConflictsInOneError) {
  EXPECT_EQ(failure_of([] {
              check_settings(with({"XSA_LAST_N=20", "ROPE_DIMS=3"}), 1);
            }),
            "78 2 settings do not fit: ROPE_DIMS=3: expected an even number up to the head's size "
            "64; XSA_LAST_N=20 is more than NUM_LAYERS=11");
  EXPECT_EQ(failure_of([] { check_settings(with({"XSA_LAST_N=20"}), 1); }),
            "78 XSA_LAST_N=20 is more than NUM_LAYERS=11");
  EXPECT_EQ(failure_of([] { check_settings(Settings(), 1); }), "");
}

TEST(Check, RangesHoldForSettingsThatNoParserSaw) {
  Settings settings;
  settings.model.num_heads = 0;
  settings.averaging.ema_decay = 1;
  EXPECT_EQ(find_conflicts(settings, 1),
            (std::vector<std::string>{"NUM_HEADS=0: expected an integer in [1, 65536]",
                                      "EMA_DECAY=1.0: expected a number in [0, 1)"}));
}

}  // namespace
}  // namespace tg
