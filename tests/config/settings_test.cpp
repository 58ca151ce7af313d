#include "config/settings.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "config/resolved.h"
#include "config/types/text.h"
#include "tests/config/helpers.h"

namespace tg {
namespace {

// The names and defaults that the Python scripts and their users rely on.
const char* const all_defaults = R"(DATA_PATH=./data/datasets/fineweb10B_sp1024
SHARD_PREFIX=fineweb
TOKENIZER_PATH=./data/tokenizers/fineweb_1024_bpe.model
TOKENIZER_PATTERN=
DOCUMENT_START=auto
CASEOPS_ENABLED=0
BYTE_COUNTS=auto
TEXT_KEY=text
RUN_ID=
SEED=1337
LOADER_ORDER=stream
BOS_ID=auto
DOCUMENT_ATTENTION=auto
SEGMENT_LIMIT=auto
VAL_BATCH_SIZE=524288
VAL_TOKENS=0
VAL_LOSS_EVERY=4000
TRAIN_LOG_EVERY=500
ITERATIONS=20000
SCHEDULE_ITERATIONS=0
WARMDOWN_ITERS=3500
WARMDOWN_FRAC=auto
WARMDOWN_WHOLE_STEPS=0
MIN_LR=0.0
LR_FLOOR=0.0
LR_SCALE=1
WARMUP_STEPS=20
TRAIN_BATCH_TOKENS=786432
GRAD_ACCUM_STEPS=0
PASS_TOKENS=0
TRAIN_SEQ_LEN=2048
EVAL_SEQ_LEN=2048
EVAL_STRIDE=64
VALIDATION_MASK=0
VALIDATION_MASK_VOCABULARY=
MAX_WALLCLOCK_SECONDS=600.0
GPTQ_RESERVE_SECONDS=0.0
VOCAB_SIZE=1024
NUM_LAYERS=11
NUM_HEADS=8
NUM_KV_HEADS=4
QK_HEAD_DIM=0
MODEL_DIM=512
MLP_MULT=3.0
MLP_NEGATIVE_SLOPE=0.5
TIE_EMBEDDINGS=1
ROPE_BASE=10000.0
ROPE_DIMS=16
ROPE_YARN=auto
ROPE_LONGEST=auto
ATTENTION_WINDOW=0
QK_GAIN_INIT=1.5
BIGRAM_VOCAB_SIZE=2048
BIGRAM_DIM=128
BIGRAM_SIGN_ROWS=8192
XSA_LAST_N=4
LN_SCALE=1
VE_ENABLED=1
VE_DIM=128
VE_LAYERS=9,10
DTG_ENABLED=0
VALUE_RESIDUAL=0
MTP_NUM_HEADS=0
MTP_LOSS_WEIGHT=0.2
UNET_SKIPS=1
LAYER_SCALES=1
RESID_MIX=vector
RECIPE=auto
LOGIT_SOFTCAP=30.0
LOGIT_SOFTCAP_SHIFT=0.0
LOGIT_SOFTCAP_TEMPERATURE=0.0
MTP_WEIGHTS=1
PREFIX_WEIGHT=0
PREFIX_TABLE=
NUM_LOOPS=0
LOOP_START=3
LOOP_END=5
ENABLE_LOOPING_AT=0.35
PARALLEL_START_LAYER=0
PARALLEL_FINAL_LANE=mean
SMEAR=channels
SKIP_GATES_ENABLED=0
HEAD_GATE=off
SPARSE_ATTN_GATE_INIT_STD=0.0
SPARSE_ATTN_GATE_SCALE=1.0
GATED_ATTN_INIT_STD=0.01
ATTN_OUT_GATE_SRC=proj
GATE_WINDOW=12
MUDD_DIM=64
DC_WINDOW=112
WINDOW_BLOCK=128
SHORT_WINDOW=1
LONG_WINDOW=1
FINAL_LONG_WINDOW=0
WINDOW_YARN=0
ATTENTION_SCALE=0.0
EMBED_LR=0.6
HEAD_LR=0.008
TIED_EMBED_LR=0.035
TIED_EMBED_INIT_STD=0.005
MATRIX_LR=0.025
SCALAR_LR=0.025
MUON_MOMENTUM=0.99
MUON_MOMENTUM_WARMUP_START=0.92
MUON_MOMENTUM_WARMUP_STEPS=1500
MUON_MOMENTUM_COOLDOWN_STEPS=0
MUON_BACKEND_STEPS=5
MUON_COEFFICIENTS=quintic
MUON_ROW_NORMALIZE=0
NORMUON=0
MUON_BETA2=0.95
MUON_WD=0.04
CAUTIOUS_WD=0
ADAM_WD=0.04
EMBED_WD=auto
BETA1=0.9
BETA2=0.95
ADAM_EPS=1e-08
ADAM_EVERY=1
UNTIE_EMBEDDINGS_AT=0
GRAD_CLIP_NORM=0.3
LR_TRACE=
EMA_ENABLED=1
EMA_DECAY=0.997
SWA_ENABLED=1
SWA_EVERY=50
LAWA_ENABLED=0
LAWA_K=10
LAWA_FREQ=100
QAT_ENABLED=0
LATE_QAT_THRESHOLD=0.15
CONTROL_TENSOR_NAME_PATTERNS=attn_scale,mlp_scale,resid_mix,q_gain,skip_weight,smear,dtg_gate,ve_layer_scales,ve_shared.scale,attn_gate,vr_lambda
INT8_KEEP_FLOAT_FP32_NAME_PATTERNS=attn_scale,mlp_scale,resid_mix,q_gain,skip_weight,smear,dtg_gate,ve_layer_scales,ve_shared.scale,attn_gate,vr_lambda
GPTQ_CALIBRATION_BATCHES=16
MATRIX_BITS=6
EMBED_BITS=8
MATRIX_CLIP_SIGMAS=12.85
EMBED_CLIP_SIGMAS=20.0
MLP_CLIP_SIGMAS=10.0
ATTN_CLIP_SIGMAS=13.0
GATED_ATTN_QUANT_GATE=0
LQER_ENABLED=1
LQER_RANK=4
LQER_TOP_K=3
LQER_FACTOR_BITS=4
LQER_ASYM_ENABLED=1
LQER_ASYM_GROUP=64
COMPRESSOR=brotli
TTT_ENABLED=0
TTT_LR=0.002
TTT_EPOCHS=3
TTT_CHUNK_TOKENS=32768
TTT_FREEZE_BLOCKS=2
TTT_MOMENTUM=0.9
TTT_BATCH_SEQS=32
TTT_GRAD_CLIP=1.0
PHASED_TTT_ENABLED=0
PHASED_TTT_PREFIX_DOCS=2000
PHASED_TTT_NUM_PHASES=1
VAL_DOC_FRACTION=1.0
TTT_LORA_RANK=96
TTT_LORA_ALPHA=144.0
TTT_WARM_START_A=1
TTT_LORA_LR=0.0001
TTT_OPTIMIZER=adam
TTT_BETA1=0.0
TTT_BETA2=0.999
TTT_WEIGHT_DECAY=1.0
TTT_CHUNK_SIZE=48
TTT_EVAL_SEQ_LEN=0
TTT_BATCH_SIZE=64
TTT_CONCURRENT_BATCHES=1
TTT_GRAD_STEPS=1
TTT_K_LORA=1
TTT_MLP_LORA=1
TTT_O_LORA=1
GLOBAL_TTT_LR=0.001
GLOBAL_TTT_MOMENTUM=0.9
GLOBAL_TTT_EPOCHS=1
GLOBAL_TTT_CHUNK_TOKENS=32768
GLOBAL_TTT_BATCH_SEQS=32
GLOBAL_TTT_WARMUP_START_LR=0.0
GLOBAL_TTT_WARMUP_CHUNKS=0
GLOBAL_TTT_GRAD_CLIP=1.0
GLOBAL_TTT_RESPECT_DOC_BOUNDARIES=1
TRAIN_PREFETCH=1
TRAIN_PREFETCH_QUEUE=2
TRAIN_PREFETCH_WORKERS=1
TRAIN_COPY_STREAM=1
VAL_PREFETCH=1
VAL_PREFETCH_QUEUE=2
VAL_COPY_STREAM=1
VAL_BYTECOUNT_DEVICE=cpu
VAL_PROGRESS_LOG_EVERY=0
TRAINING_TIMING_BREAKDOWN=0
TRAINING_TIMING_EVERY=200
DEVICE=auto
COMPUTE_DTYPE=auto
ATTENTION=auto
FUSED=1
HOPPER=auto
GRAPHS=1
PAD_VOCAB=auto
FP8=0
ACTIVATION_RECOMPUTE=0
MEMORY_LIMIT_GB=0.0
INIT_FROM=
WEIGHTS=auto
OUTPUT_DIR=
PROFILE=0
PROFILE_START=10
PROFILE_STEPS=3
DETERMINISTIC=0
ON_NONFINITE=stop
NONFINITE_LIMIT=10
COMM_TIMEOUT_S=100.0
CHECKPOINT_EVERY=0
KEEP=2
RESUME=auto
ARTIFACT=int6
RECORD_QUIRKS=0
TENSORBOARD=0
)";

TEST(Settings, HaveTheRecordsNamesAndDefaults) {
  EXPECT_EQ(settings_text(Settings()), all_defaults);
}

TEST(Settings, AreNamedOnceAndSayWhatTheyDo) {
  std::set<std::string> names;
  for_each_setting(Settings(), [&](const auto& setting) {
    const auto& [name, value, limit, role, help] = setting;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_GT(std::string(help).size(), 5u) << name;
    EXPECT_TRUE(is_allowed(value, limit)) << name << ": the default is out of range";
  });
}

TEST(Settings, ReadBackFromTheirOwnText) {
  Settings settings;
  settings.data.run_id = "a 'name' with \"quotes\", a # and a \\n";
  settings.data.tokenizer_path = "";
  settings.data.data_path = "line\nbreak \t and edge ";
  settings.data.loader_order = LoaderOrder::strided;
  settings.model.value_residual = ValueResidual::blend;
  settings.model.ve_layers = {0, 3, 7};
  settings.optim.matrix_lr = 0.1 + 0.2;
  settings.optim.adam_eps = 1.2345678901234567e-300;
  settings.run.iterations = 1234567890123456;
  settings.averaging.control_tensor_name_patterns = {"x", "y.z"};
  settings.io.training_timing_breakdown = TimingBreakdown::events;
  settings.runtime.record_quirks = true;
  settings.model.recipe = RecipeChoice::speedrun;  // as RECIPE=auto is resolved
  const std::string text = settings_text(settings);
  const auto read = parse({"--config", write_file("settings.env", text)}).settings;
  EXPECT_EQ(settings_text(read), text);
  EXPECT_EQ(read.data.run_id, settings.data.run_id);
  EXPECT_EQ(read.data.data_path, settings.data.data_path);
  EXPECT_EQ(read.optim.matrix_lr, settings.optim.matrix_lr);
  EXPECT_EQ(read.optim.adam_eps, settings.optim.adam_eps);
  EXPECT_EQ(read.model.ve_layers, settings.model.ve_layers);
}

TEST(Settings, AsJsonKeepTheirTypesAndOrigins) {
  const auto result = parse({"--matrix-lr", "0.5", "--device=cpu"}, {"SEED=7"});
  const auto json = settings_json(result.settings, result.origins);
  EXPECT_EQ(json["settings"]["MATRIX_LR"], 0.5);
  EXPECT_TRUE(json["settings"]["SEED"].is_number_integer());
  EXPECT_EQ(json["settings"]["TIE_EMBEDDINGS"], true);
  EXPECT_EQ(json["settings"]["DEVICE"], "cpu");
  EXPECT_EQ(json["settings"]["VE_LAYERS"], nlohmann::json({9, 10}));
  EXPECT_EQ(json["origins"]["MATRIX_LR"], "flag");
  EXPECT_EQ(json["origins"]["SEED"], "environment");
  EXPECT_EQ(json["origins"]["KEEP"], "default");
  EXPECT_EQ(json["settings"].size(), json["origins"].size());
}

TEST(Settings, ChangedOnesOfAConfigFileAreThoseThatAreNotTheDefaults) {
  Settings settings;
  EXPECT_EQ(changed_settings_text(settings_json(settings, {})), "");
  settings.data.run_id = "two words";
  settings.model.ve_layers = {1, 2};
  settings.model.tie_embeddings = false;
  settings.optim.adam_eps = 1e-9;
  auto json = settings_json(settings, {});
  json["settings"]["FROM_ANOTHER_VERSION"] = nlohmann::json::parse("[[1], null]");
  json["settings"]["ROPE_BASE"] = 10000;  // equal, though no floating-point number
  EXPECT_EQ(changed_settings_text(json),
            "ADAM_EPS=1e-09\nFROM_ANOTHER_VERSION=...,null\nRUN_ID=\"two words\"\n"
            "TIE_EMBEDDINGS=0\nVE_LAYERS=1,2\n");
  for (const char* other : {"{}", "[]", "1", "{\"settings\": 1}"}) {
    EXPECT_EQ(changed_settings_text(nlohmann::json::parse(other)), std::nullopt) << other;
  }
}

TEST(Settings, OfAConfigFileTheModelsAreThoseNotOfItsRunAndMachine) {
  Settings settings;
  settings.data.run_id = "one";
  settings.runtime.device = DeviceChoice::cuda;
  settings.runtime.artifact = Artifact::none;
  settings.runtime.fp8 = {.mlp = true, .qkv = true, .out = true};
  settings.model.ve_layers = {1, 2};
  settings.optim.matrix_lr = 1e-9;
  auto json = settings_json(settings, {});
  json["settings"]["FROM_ANOTHER_VERSION"] = 1;
  const auto taken = model_settings(json);
  ASSERT_TRUE(taken.has_value());
  std::map<std::string, std::string> values;
  for (const auto& assignment : *taken) values[assignment.name] = assignment.value;
  EXPECT_EQ(values.at("VE_LAYERS"), "1,2");
  EXPECT_EQ(values.at("MATRIX_LR"), "1e-09");
  EXPECT_EQ(values.at("TIE_EMBEDDINGS"), "1");
  EXPECT_EQ(values.at("TOKENIZER_PATH"), settings.data.tokenizer_path);
  for (const char* name :
       {"RUN_ID", "DEVICE", "FP8", "ARTIFACT", "INIT_FROM", "WEIGHTS", "FROM_ANOTHER_VERSION"})
    EXPECT_FALSE(values.contains(name)) << name;
  // What is read back is what was written.
  const char* const none[] = {"train_gpt"};
  const auto read = parse_settings(1, none, nullptr, {.run_settings = *taken, .run_config = "c"});
  settings.data.run_id = "";
  settings.runtime.device = DeviceChoice::automatic;
  settings.runtime.artifact = Artifact::int6;
  settings.runtime.fp8 = {};
  settings.model.recipe = RecipeChoice::record;  // as RECIPE=auto is resolved
  EXPECT_EQ(settings_text(read.settings), settings_text(settings));
  EXPECT_EQ(model_settings(nlohmann::json::parse("[]")), std::nullopt);
}

TEST(Settings, ExperimentTextTellsExperimentsApartAndNotTheirNames) {
  const auto text = experiment_text(Settings());
  Settings named;
  named.data.run_id = "other";
  named.runtime.output_dir = "elsewhere";
  named.runtime.profile = ProfileMode::nvtx;
  EXPECT_EQ(experiment_text(named), text);
  Settings wider;
  wider.model.model_dim = 64;
  EXPECT_NE(experiment_text(wider), text);
}

}  // namespace
}  // namespace tg
