#include "config/unbuilt.h"

#include <fmt/format.h>

#include "config/derived.h"
#include "config/resolved.h"
#include "config/text.h"

namespace tg {
namespace {

struct Row {
  const char* setting;
  // Whether to warn about a run with these settings; `set`: the user gave the setting a value.
  bool (*missed)(const Settings&, bool set);
  const char* text;
};

constexpr bool if_set(const Settings&, bool set) {
  return set;
}

// Accepted as the reference implementation (the Python scripts) accepts them, but without effect.
constexpr Row without_effect[] = {
    {"muon_beta2", if_set, "has no effect"},
    {"late_qat", if_set, "has no effect: LATE_QAT_THRESHOLD decides"},
    {"int8_keep_float_fp32_name_patterns",
     [](const Settings& s, bool set) { return set && s.runtime.artifact != Artifact::int8_zlib; },
     "has no effect without ARTIFACT=int8_zlib"},
    {"eval_stride",
     [](const Settings& s, bool set) { return set && s.run.eval_stride >= eval_length(s); },
     "is not below the evaluation's row: no sliding-window evaluation"},
    {"training_timing_every",
     [](const Settings& s, bool set) {
       return set && s.io.training_timing_breakdown == TimingBreakdown::off;
     },
     "has no effect without TRAINING_TIMING_BREAKDOWN"},
    {"profile_start",
     [](const Settings& s, bool set) { return set && s.runtime.profile != ProfileMode::on; },
     "has no effect without PROFILE=1"},
    {"profile_steps",
     [](const Settings& s, bool set) { return set && s.runtime.profile != ProfileMode::on; },
     "has no effect without PROFILE=1"},
    {"schedule_iterations",
     [](const Settings& s, bool set) { return set && !s.optim.lr_trace.empty(); },
     "has no effect with LR_TRACE, which has the schedule"},
    {"checkpoint_every",
     [](const Settings& s, bool) {
       return s.runtime.checkpoint_every.count > 0 && s.data.run_id.empty() &&
              s.runtime.output_dir.empty();
     },
     "without RUN_ID or OUTPUT_DIR: each start draws a RUN_ID of its own and so finds no "
     "checkpoint "
     "to resume from; set one of them"},
    {"keep",
     [](const Settings& s, bool set) { return set && s.runtime.checkpoint_every.count == 0; },
     "has no effect without CHECKPOINT_EVERY"},
    {"memory_limit_gb",
     [](const Settings& s, bool) {
       return s.runtime.memory_limit_gb > 0 && s.runtime.device == DeviceChoice::cpu;
     },
     "has no effect with DEVICE=cpu: it limits a GPU's memory"},
    // The reference implementation trains without a warning.
    {"bigram_dim",
     [](const Settings& s, bool) {
       const ModelConfig& m = s.model;
       return m.bigram_vocab_size > 0 && m.bigram_dim != m.model_dim &&
              !is_drawn_projection(m.model_dim, m.bigram_dim) && s.runtime.init_from.empty();
     },
     "leaves bigram.embed.weight and bigram.proj.weight without effect: both begin at zero, as in "
     "the record where MODEL_DIM or BIGRAM_DIM is under 64, and so no gradient ever reaches them; "
     "use 64 or more for both, BIGRAM_DIM=MODEL_DIM, or BIGRAM_VOCAB_SIZE=0"},
};

}  // namespace

std::vector<std::string> notices(const Settings& settings, const Origins& origins) {
  std::vector<std::string> lines;
  const auto add = [&](const Row& row, const char* separator) {
    const auto origin = origins.find(row.setting);
    const bool set = origin != origins.end() && origin->second != "default";
    if (!row.missed(settings, set)) return;
    lines.push_back(fmt::format("{}={}{}{}", env_name(row.setting),
                                setting_text(settings, row.setting), separator, row.text));
  };
  for (const Row& row : without_effect) add(row, " ");
  return lines;
}

}  // namespace tg
