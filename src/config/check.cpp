#include "config/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>
#include <utility>

#include "base/error.h"
#include "config/derived.h"
#include "config/types/text.h"

namespace tg {
namespace {

class Conflicts {
 public:
  template <class... Args>
  void unless(bool fine, fmt::format_string<Args...> format, Args&&... args) {
    if (!fine) found_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool any() const { return !found_.empty(); }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void check_ranges(const Settings& settings, Conflicts& conflicts) {
  for_each_setting(settings, [&]<class T>(const Setting<const T>& setting) {
    conflicts.unless(is_allowed(setting.value, setting.limit), "{}={}: expected {}",
                     env_name(setting.name), value_text(setting.value),
                     expected_text<T>(setting.limit));
  });
}

// Returns the most tokens that attention spans.
std::int64_t longest_context(const Settings& settings, int world_size, SettingsUse use) {
  if (use == SettingsUse::weights) return 0;
  const auto& trained = settings.run.train_seq_len;
  if (use == SettingsUse::sampling) return trained.last();
  if (use == SettingsUse::tasks) return eval_length(settings);
  const auto scored = std::max(trained.largest(), eval_length(settings));
  if (use == SettingsUse::scoring) return scored;
  return std::max(scored, attention_context(settings, longest_training_row(settings, world_size)));
}

void check_heads(const ModelConfig& m, std::int64_t longest, const RopeStretch& stretch,
                 Conflicts& conflicts) {
  conflicts.unless(m.num_heads % m.num_kv_heads == 0,
                   "NUM_HEADS={} is no multiple of NUM_KV_HEADS={}", m.num_heads, m.num_kv_heads);
  if (m.model_dim % m.num_heads != 0) {
    conflicts.unless(false, "MODEL_DIM={} is no multiple of NUM_HEADS={}", m.model_dim,
                     m.num_heads);
    return;
  }
  const auto head = head_dim(m);
  conflicts.unless(head % 2 == 0,
                   "MODEL_DIM / NUM_HEADS = {} / {} = {}: a head's size must be even", m.model_dim,
                   m.num_heads, head);
  conflicts.unless(m.rope_dims % 2 == 0 && m.rope_dims <= head,
                   "ROPE_DIMS={}: expected an even number up to the head's size {}", m.rope_dims,
                   head);
  // Beyond these tokens the RoPE base is scaled by a power of rd / (rd - 2).
  const auto rotated = m.rope_dims == 0 ? head : m.rope_dims;
  conflicts.unless(
      rotated > 2 || stretch.trained == 0 || longest <= stretch.trained,
      "{} rotated channels cannot serve rows of {} tokens: expected at least 4 beyond {}", rotated,
      longest, stretch.trained);
}

// Recurrence and lanes.
void check_passes(const ModelConfig& m, Conflicts& conflicts) {
  const auto& [loops, start, end, at] = m.recurrence;
  conflicts.unless(loops == 0 || (start <= end && end < m.num_layers),
                   "NUM_LOOPS={} of the blocks LOOP_START={} to LOOP_END={}: expected "
                   "LOOP_START <= LOOP_END < NUM_LAYERS={}",
                   loops, start, end, m.num_layers);
  conflicts.unless(loops == 0 || start > 0 || m.value_residual == ValueResidual::off,
                   "LOOP_START=0 and VALUE_RESIDUAL={}: the first block's values are those of its "
                   "one visit: expected LOOP_START of at least 1",
                   choice_name(m.value_residual));
  const auto lanes = m.lanes.parallel_start_layer;
  conflicts.unless(lanes < m.num_layers, "PARALLEL_START_LAYER={}: no block {} in 0..{}", lanes,
                   lanes, m.num_layers - 1);
  conflicts.unless(lanes == 0 || !m.dtg_enabled,
                   "PARALLEL_START_LAYER={} and DTG_ENABLED=1: a token bypasses whole blocks, not "
                   "lanes: expected one of them to be 0",
                   lanes);
}

void check_model(const Settings& settings, Conflicts& conflicts) {
  const auto& m = settings.model;
  conflicts.unless(mlp_hidden(m) >= 1,
                   "MLP_MULT={} of MODEL_DIM={} leaves the MLP no hidden channel",
                   value_text(m.mlp_mult), m.model_dim);
  conflicts.unless(m.xsa_last_n <= m.num_layers, "XSA_LAST_N={} is more than NUM_LAYERS={}",
                   m.xsa_last_n, m.num_layers);
  const auto windows = std::ssize(m.attention_window);
  conflicts.unless(windows == 1 || windows == m.num_layers,
                   "ATTENTION_WINDOW={} has {} values: expected one for all blocks, or one for "
                   "each of NUM_LAYERS={}",
                   value_text(m.attention_window), windows, m.num_layers);
  conflicts.unless(m.bigram_vocab_size != 1,
                   "BIGRAM_VOCAB_SIZE=1 leaves no row to hash into: expected 0 or at least 2");
  conflicts.unless(!mode::has_gate_window(settings) || m.gates.gate_window <= m.model_dim,
                   "GATE_WINDOW={} is more than MODEL_DIM={}", m.gates.gate_window, m.model_dim);
  check_passes(m, conflicts);
  if (!m.ve_enabled) return;
  std::set<std::int64_t> seen;
  for (const auto layer : m.ve_layers) {
    conflicts.unless(layer >= 0 && layer < m.num_layers, "VE_LAYERS={}: no block {} in 0..{}",
                     value_text(m.ve_layers), layer, m.num_layers - 1);
    conflicts.unless(seen.insert(layer).second, "VE_LAYERS={} names block {} twice",
                     value_text(m.ve_layers), layer);
  }
}

void check_training_batch(const Settings& settings, int world_size, Conflicts& conflicts) {
  const RunConfig& run = settings.run;
  const auto batches = parts_of_batch(run, world_size);
  const auto why =
      run.grad_accum_steps.value > 0
          ? fmt::format("GRAD_ACCUM_STEPS={} on {} ranks", run.grad_accum_steps.value, world_size)
          : fmt::format("the number for world size {}", world_size);
  const auto fits = [&](std::int64_t tokens, std::int64_t seq_len) {
    conflicts.unless(
        tokens % (batches * seq_len) == 0,
        "TRAIN_BATCH_TOKENS={} is no multiple of {}: {} micro-batches ({}) of whole rows of "
        "TRAIN_SEQ_LEN={}",
        tokens, batches * seq_len, batches, why, seq_len);
  };
  const auto order = choice_name(settings.data.loader_order);
  const auto fits_in_rows = [&](std::int64_t tokens) {
    conflicts.unless(tokens % batches == 0,
                     "TRAIN_BATCH_TOKENS={} is no multiple of {} rows ({}), as "
                     "LOADER_ORDER={} reads them",
                     tokens, batches, why, order);
    conflicts.unless(static_cast<double>(tokens / batches) <= most_tokens_in_row,
                     "TRAIN_BATCH_TOKENS={} in {} rows ({}): LOADER_ORDER={} expects rows of at "
                     "most {} tokens",
                     tokens, batches, why, order, static_cast<std::int64_t>(most_tokens_in_row));
  };
  for (const auto& batch : run.train_batch_tokens.stages()) {
    if (mode::batches_are_rows(settings)) {
      fits_in_rows(batch.value);
    } else {
      for (const auto& row : run.train_seq_len.stages()) fits(batch.value, row.value);
    }
  }
  for (const auto& stage : settings.model.objective.prefix_weight.stages()) {
    conflicts.unless(stage.value.size() == 1,
                     "PREFIX_WEIGHT={} has lists of numbers: expected one number for each stage",
                     value_text(settings.model.objective.prefix_weight));
  }
  for (const auto& row : run.train_seq_len.stages()) {
    conflicts.unless(settings.model.mtp_num_heads < row.value,
                     "MTP_NUM_HEADS={} looks further ahead than TRAIN_SEQ_LEN={}",
                     settings.model.mtp_num_heads, row.value);
  }
}

void check_documents(const Settings& settings, Conflicts& conflicts) {
  const auto& length = settings.run.train_seq_len;
  const bool rows = mode::batches_are_rows(settings);
  conflicts.unless(length.constant() || !rows,
                   "TRAIN_SEQ_LEN={} changes, and with LOADER_ORDER={} rows change with "
                   "TRAIN_BATCH_TOKENS alone: expected one number",
                   value_text(length), choice_name(settings.data.loader_order));
  conflicts.unless(
      !mode::segments_attention(settings) || !measures_memory(settings) || rows,
      "DOCUMENT_ATTENTION=1 and GRAD_ACCUM_STEPS=auto, which divides micro-batches but not their "
      "segments: expected LOADER_ORDER=documents or aligned, whose rows are whole, or a number");
  const auto bos = settings.data.bos_id.value;  // 0 with auto
  conflicts.unless(mode::reads_no_bos_id(settings) || bos < settings.model.vocab_size,
                   "BOS_ID={} is no token of VOCAB_SIZE={}", bos, settings.model.vocab_size);
}

void check_validation_batch(const Settings& settings, int world_size, Conflicts& conflicts) {
  const RunConfig& run = settings.run;
  if (settings.data.loader_order == LoaderOrder::strided) {
    const auto unit = world_size * run.train_seq_len.last();
    conflicts.unless(
        run.val_batch_size % unit == 0,
        "VAL_BATCH_SIZE={} is no multiple of {}: whole rows of TRAIN_SEQ_LEN={} on each of {} "
        "ranks, as LOADER_ORDER=strided reads them",
        run.val_batch_size, unit, run.train_seq_len.last(), world_size);
    conflicts.unless(
        run.val_tokens > 0 && run.val_tokens % run.val_batch_size == 0,
        "VAL_TOKENS={}: LOADER_ORDER=strided needs a positive multiple of VAL_BATCH_SIZE={}",
        run.val_tokens, run.val_batch_size);
  }
  const auto parts = validation_parts(settings, world_size);
  const auto longest = std::max(validation_length(settings), eval_length(settings));
  const auto why =
      validates_segments_of_rows(settings)
          ? fmt::format("rows of LOADER_ORDER={}", choice_name(settings.data.loader_order))
          : fmt::format("{} ranks, {} micro-steps", world_size, parts / world_size);
  conflicts.unless(run.val_batch_size / parts >= longest,
                   "VAL_BATCH_SIZE={} split in {} ({}) is less than one row of {} "
                   "tokens (the longer of TRAIN_SEQ_LEN and EVAL_SEQ_LEN): expected at least {}",
                   run.val_batch_size, parts, why, longest, parts * longest);
}

void check_test_time_training(const Settings& settings, Conflicts& conflicts) {
  const TttConfig& ttt = settings.ttt;
  const RunConfig& run = settings.run;
  if (!ttt.ttt_enabled) return;
  const auto length = run.train_seq_len.last();
  conflicts.unless(run.eval_stride > 0 && run.eval_stride <= length,
                   "EVAL_STRIDE={}: TTT_ENABLED=1 scores in strides of 1 to TRAIN_SEQ_LEN={}",
                   run.eval_stride, length);
  conflicts.unless(ttt.ttt_chunk_tokens >= length,
                   "TTT_CHUNK_TOKENS={} holds no row of TRAIN_SEQ_LEN={} to train on",
                   ttt.ttt_chunk_tokens, length);
  conflicts.unless(ttt.ttt_freeze_blocks <= settings.model.num_layers,
                   "TTT_FREEZE_BLOCKS={} is more than NUM_LAYERS={}", ttt.ttt_freeze_blocks,
                   settings.model.num_layers);
}

void check_phased_ttt(const Settings& settings, Conflicts& conflicts) {
  const PhasedTttConfig& ttt = settings.phased_ttt;
  if (!ttt.phased_ttt_enabled) return;
  conflicts.unless(!settings.ttt.ttt_enabled,
                   "PHASED_TTT_ENABLED=1 and TTT_ENABLED=1, and each would train what the other "
                   "scores: expected one of them");
  const auto row = adaptation_row(settings);
  conflicts.unless(ttt.ttt_chunk_size <= row,
                   "TTT_CHUNK_SIZE={} is more than TTT_EVAL_SEQ_LEN={}{}", ttt.ttt_chunk_size,
                   ttt.ttt_eval_seq_len,
                   ttt.ttt_eval_seq_len == 0
                       ? fmt::format(", the {} tokens that attention spans in training", row)
                       : "");
  conflicts.unless(
      ttt.phased_ttt_prefix_docs == 0 || ttt.global_ttt_chunk_tokens >= eval_length(settings),
      "GLOBAL_TTT_CHUNK_TOKENS={} holds no row of EVAL_SEQ_LEN={} to train on",
      ttt.global_ttt_chunk_tokens, eval_length(settings));
}

void check_machine(const RuntimeConfig& r, Conflicts& conflicts) {
  const bool cpu = r.device == DeviceChoice::cpu;
  const bool wide = r.compute_dtype == ComputeDtype::fp32 || r.compute_dtype == ComputeDtype::tf32;
  const bool bf16 =
      r.compute_dtype == ComputeDtype::automatic || r.compute_dtype == ComputeDtype::bf16;
  conflicts.unless(!cpu || !r.fp8.any(), "FP8={} needs a GPU, and DEVICE=cpu", value_text(r.fp8));
  conflicts.unless(bf16 || !r.fp8.any(), "FP8={} and COMPUTE_DTYPE={}: expected bf16 or auto",
                   value_text(r.fp8), choice_name(r.compute_dtype));
  conflicts.unless(!cpu || r.compute_dtype != ComputeDtype::tf32,
                   "COMPUTE_DTYPE=tf32 needs a GPU, and DEVICE=cpu");
  conflicts.unless(!cpu || r.attention != AttentionChoice::cudnn,
                   "ATTENTION=cudnn needs a GPU, and DEVICE=cpu");
  conflicts.unless(!wide || r.attention != AttentionChoice::cudnn,
                   "ATTENTION=cudnn knows bf16 and fp16 only, and COMPUTE_DTYPE={}",
                   choice_name(r.compute_dtype));
  conflicts.unless(
      !r.deterministic || r.attention != AttentionChoice::cudnn,
      "DETERMINISTIC=1 and ATTENTION=cudnn, whose backward is not: expected auto, flash or math");
}

void check_byte_count(const Settings& settings, Conflicts& conflicts) {
  const bool cpu = settings.runtime.device == DeviceChoice::cpu;
  conflicts.unless(!cpu || settings.io.val_bytecount_device != CountDevice::cuda,
                   "VAL_BYTECOUNT_DEVICE=cuda needs a GPU, and DEVICE=cpu");
}

// Asymmetric factors have 2 and 4 bits; the reference implementation ignores LQER_FACTOR_BITS then.
void check_quantization(const Settings& settings, Conflicts& conflicts) {
  const GptqConfig& gptq = settings.gptq;
  const bool corrects = settings.runtime.artifact == Artifact::gptq && gptq.lqer_enabled;
  conflicts.unless(!corrects || !gptq.lqer_asym_enabled || settings.runtime.record_quirks ||
                       gptq.lqer_factor_bits == GptqConfig().lqer_factor_bits,
                   "LQER_FACTOR_BITS={} and LQER_ASYM_ENABLED=1, whose factors have 2 and 4 bits: "
                   "expected LQER_ASYM_ENABLED=0",
                   gptq.lqer_factor_bits);
}

void check_run(const Settings& settings, Conflicts& conflicts) {
  const RunConfig& run = settings.run;
  conflicts.unless(run.min_lr == 0 || run.lr_floor == 0,
                   "MIN_LR={} and LR_FLOOR={}, which end the warm-down in different ways: expected "
                   "one of them to be 0",
                   value_text(run.min_lr), value_text(run.lr_floor));
  conflicts.unless(run.max_wallclock_seconds == 0 || training_seconds(run) > 0,
                   "GPTQ_RESERVE_SECONDS={} leaves no time to train of MAX_WALLCLOCK_SECONDS={}",
                   value_text(run.gptq_reserve_seconds), value_text(run.max_wallclock_seconds));
  const RuntimeConfig& r = settings.runtime;
  const bool traced = r.profile == ProfileMode::on;
  conflicts.unless(!traced || r.profile_start < settings.run.iterations,
                   "PROFILE=1 and PROFILE_START={}: the run ends before it, at ITERATIONS={}",
                   r.profile_start, settings.run.iterations);
  conflicts.unless(
      !traced || settings.io.training_timing_breakdown != TimingBreakdown::sync,
      "PROFILE=1 and TRAINING_TIMING_BREAKDOWN=1, which turns off the overlap that a trace is to "
      "show: expected one of them, or TRAINING_TIMING_BREAKDOWN=events");
  conflicts.unless(!r.resume.empty(),
                   "RESUME is empty: expected auto, never or a checkpoint's folder");
}

}  // namespace

std::vector<std::string> find_conflicts(const Settings& settings, int world_size, SettingsUse use) {
  assert(world_size >= 1);
  Conflicts conflicts;
  check_ranges(settings, conflicts);
  // The other checks divide by these values.
  if (conflicts.any()) return conflicts.take();
  const bool trains = use >= SettingsUse::training, scores = use >= SettingsUse::scoring,
             computes = use >= SettingsUse::sampling;
  check_heads(settings.model, longest_context(settings, world_size, use),
              rope_stretch(settings, world_size), conflicts);
  check_model(settings, conflicts);
  check_quantization(settings, conflicts);
  if (trains) check_training_batch(settings, world_size, conflicts);
  if (scores) check_documents(settings, conflicts);
  if (scores) check_validation_batch(settings, world_size, conflicts);
  if (scores) check_test_time_training(settings, conflicts);
  if (scores) check_phased_ttt(settings, conflicts);
  if (computes) check_machine(settings.runtime, conflicts);
  if (scores) check_byte_count(settings, conflicts);
  if (trains) check_run(settings, conflicts);
  return conflicts.take();
}

void check_settings(const Settings& settings, int world_size, SettingsUse use) {
  const auto conflicts = find_conflicts(settings, world_size, use);
  if (conflicts.size() == 1) throw Error(ExitCode::config, conflicts[0]);
  REQUIRE(conflicts.empty(), ExitCode::config, "{} settings do not fit: {}", conflicts.size(),
          fmt::join(conflicts, "; "));
}

std::vector<std::string> ineffective_settings(const Settings& settings, const Origins& origins) {
  std::vector<std::string> lines;
  for_each_setting(settings, [&](const auto& setting) {
    const Ineffective& ineffective = setting.role.ineffective;
    if (!ineffective.is_so) return;
    const bool given = origins.contains(setting.name) && is_given(origins, setting.name);
    if (!given && !ineffective.default_too) return;
    lines.push_back(fmt::format("{}={} {}", env_name(setting.name), value_text(setting.value),
                                ineffective.text));
  });
  return lines;
}

}  // namespace tg
