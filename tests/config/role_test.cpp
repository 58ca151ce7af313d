#include <gtest/gtest.h>

#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>

#include "config/setting.h"
#include "config/settings.h"
#include "config/types/text.h"

namespace tg {
namespace {

using Names = std::set<std::string>;

// A group's line compiles with a role, and not without one.
struct Ignore {
  template <class T>
  void operator()(const Setting<T>&) const {}
};
template <class... Arguments>
constexpr bool compiles = std::is_invocable_v<decltype(setting_line(std::declval<Ignore&>())),
                                              const char*, double&, Limit, Arguments...>;
static_assert(compiles<Role, const char*>);
static_assert(!compiles<const char*>);
static_assert(!std::is_default_constructible_v<Role>);
static_assert(!std::is_convertible_v<const char*, Role>);

// The roles that users rely on, by name, with their settings.
const std::map<std::string, std::string> expected_roles = {
    {"free",
     "DATA_PATH SHARD_PREFIX TOKENIZER_PATH TOKENIZER_PATTERN DOCUMENT_START TEXT_KEY BYTE_COUNTS "
     "RUN_ID VAL_BATCH_SIZE "
     "VAL_TOKENS VAL_LOSS_EVERY VALIDATION_MASK VALIDATION_MASK_VOCABULARY TRAIN_LOG_EVERY "
     "ITERATIONS WARMDOWN_ITERS WARMDOWN_FRAC WARMDOWN_WHOLE_STEPS MIN_LR LR_FLOOR LR_SCALE "
     "WARMUP_STEPS GRAD_ACCUM_STEPS PASS_TOKENS EVAL_SEQ_LEN EVAL_STRIDE "
     "MAX_WALLCLOCK_SECONDS "
     "GPTQ_RESERVE_SECONDS MUON_MOMENTUM_COOLDOWN_STEPS LR_TRACE PREFIX_TABLE "
     "INT8_KEEP_FLOAT_FP32_NAME_PATTERNS GPTQ_CALIBRATION_BATCHES MATRIX_BITS EMBED_BITS "
     "MATRIX_CLIP_SIGMAS EMBED_CLIP_SIGMAS MLP_CLIP_SIGMAS ATTN_CLIP_SIGMAS "
     "GATED_ATTN_QUANT_GATE LQER_ENABLED LQER_RANK LQER_TOP_K LQER_FACTOR_BITS LQER_ASYM_ENABLED "
     "LQER_ASYM_GROUP COMPRESSOR TTT_ENABLED TTT_LR TTT_EPOCHS TTT_CHUNK_TOKENS "
     "TTT_FREEZE_BLOCKS TTT_MOMENTUM TTT_BATCH_SEQS TTT_GRAD_CLIP PHASED_TTT_ENABLED "
     "PHASED_TTT_PREFIX_DOCS PHASED_TTT_NUM_PHASES VAL_DOC_FRACTION TTT_LORA_RANK TTT_LORA_ALPHA "
     "TTT_WARM_START_A TTT_LORA_LR TTT_OPTIMIZER TTT_BETA1 TTT_BETA2 TTT_WEIGHT_DECAY "
     "TTT_CHUNK_SIZE TTT_EVAL_SEQ_LEN TTT_BATCH_SIZE TTT_CONCURRENT_BATCHES TTT_GRAD_STEPS "
     "TTT_K_LORA TTT_MLP_LORA TTT_O_LORA GLOBAL_TTT_LR GLOBAL_TTT_MOMENTUM GLOBAL_TTT_EPOCHS "
     "GLOBAL_TTT_CHUNK_TOKENS GLOBAL_TTT_BATCH_SEQS GLOBAL_TTT_WARMUP_START_LR "
     "GLOBAL_TTT_WARMUP_CHUNKS GLOBAL_TTT_GRAD_CLIP GLOBAL_TTT_RESPECT_DOC_BOUNDARIES "
     "TRAIN_PREFETCH TRAIN_PREFETCH_QUEUE TRAIN_PREFETCH_WORKERS TRAIN_COPY_STREAM VAL_PREFETCH "
     "VAL_PREFETCH_QUEUE VAL_COPY_STREAM VAL_BYTECOUNT_DEVICE VAL_PROGRESS_LOG_EVERY "
     "TRAINING_TIMING_BREAKDOWN TRAINING_TIMING_EVERY DEVICE ATTENTION FUSED HOPPER GRAPHS "
     "PAD_VOCAB "
     "ACTIVATION_RECOMPUTE MEMORY_LIMIT_GB INIT_FROM WEIGHTS OUTPUT_DIR PROFILE PROFILE_START "
     "PROFILE_STEPS DETERMINISTIC ON_NONFINITE NONFINITE_LIMIT COMM_TIMEOUT_S CHECKPOINT_EVERY "
     "KEEP RESUME ARTIFACT TENSORBOARD"},
    {"fixed with an effect",
     "SCHEDULE_ITERATIONS BOS_ID SEGMENT_LIMIT QK_HEAD_DIM ROPE_LONGEST BIGRAM_DIM "
     "BIGRAM_SIGN_ROWS GATE_WINDOW MUDD_DIM DC_WINDOW LOOP_START "
     "LOOP_END ENABLE_LOOPING_AT PARALLEL_FINAL_LANE SPARSE_ATTN_GATE_INIT_STD "
     "SPARSE_ATTN_GATE_SCALE GATED_ATTN_INIT_STD ATTN_OUT_GATE_SRC WINDOW_BLOCK SHORT_WINDOW "
     "LONG_WINDOW FINAL_LONG_WINDOW WINDOW_YARN ATTENTION_SCALE VE_DIM VE_LAYERS MTP_LOSS_WEIGHT "
     "EMBED_LR HEAD_LR TIED_EMBED_LR TIED_EMBED_INIT_STD MUON_MOMENTUM_WARMUP_START MUON_BETA2 "
     "EMA_ENABLED EMA_DECAY SWA_ENABLED SWA_EVERY LAWA_K LAWA_FREQ LATE_QAT_THRESHOLD"},
    {"of a run", "DEVICE ATTENTION FP8 INIT_FROM WEIGHTS ARTIFACT"},
    {"of a rank", "RUN_ID OUTPUT_DIR PROFILE PROFILE_START PROFILE_STEPS TENSORBOARD"},
    {"path",
     "DATA_PATH TOKENIZER_PATH VALIDATION_MASK_VOCABULARY LR_TRACE PREFIX_TABLE INIT_FROM "
     "OUTPUT_DIR RESUME"},
    {"compatibility", "RECORD_QUIRKS"},
    {"warned about",
     "CASEOPS_ENABLED BOS_ID WINDOW_BLOCK SHORT_WINDOW LONG_WINDOW FINAL_LONG_WINDOW WINDOW_YARN "
     "ATTENTION_SCALE SEGMENT_LIMIT VALIDATION_MASK_VOCABULARY SCHEDULE_ITERATIONS "
     "WARMDOWN_ITERS WARMDOWN_WHOLE_STEPS MIN_LR LR_FLOOR EVAL_STRIDE GPTQ_RESERVE_SECONDS "
     "QK_HEAD_DIM ROPE_LONGEST BIGRAM_DIM BIGRAM_SIGN_ROWS "
     "SKIP_GATES_ENABLED MUDD_DIM DC_WINDOW MUON_BETA2 "
     "INT8_KEEP_FLOAT_FP32_NAME_PATTERNS TRAINING_TIMING_EVERY MEMORY_LIMIT_GB PREFIX_TABLE "
     "UNTIE_EMBEDDINGS_AT PROFILE_START PROFILE_STEPS CHECKPOINT_EVERY KEEP"},
};

Names words_of(const std::string& text) {
  std::istringstream words(text);
  return {std::istream_iterator<std::string>(words), {}};
}

Names names_where(const std::function<bool(const Role&)>& holds) {
  Names names;
  for_each_setting(Settings(), [&](const auto& setting) {
    if (holds(setting.role)) names.insert(env_name(setting.name));
  });
  return names;
}

bool is_free(const Role& role) {
  return !role.is_fixed && !role.is_fixed_by_effect;
}
bool is_fixed_sometimes(const Role& role) {
  return role.is_fixed_by_effect;
}

TEST(Roles, AreThoseThatUsersRelyOn) {
  const std::map<std::string, Names> declared = {
      {"free", names_where(is_free)},
      {"fixed with an effect", names_where(is_fixed_sometimes)},
      {"of a run", names_where([](const Role& r) { return r.scope == Scope::run; })},
      {"of a rank", names_where([](const Role& r) { return r.scope == Scope::rank; })},
      {"path", names_where([](const Role& r) { return r.is_path; })},
      {"compatibility", names_where([](const Role& r) { return r.is_compatibility; })},
      {"warned about", names_where([](const Role& r) { return r.ineffective.text != nullptr; })},
  };
  for (const auto& [role, names] : expected_roles)
    EXPECT_EQ(declared.at(role), words_of(names)) << role;
  EXPECT_EQ(declared.size(), expected_roles.size());
}

}  // namespace
}  // namespace tg
