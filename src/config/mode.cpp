#include "config/mode.h"

#include "config/derived.h"
#include "config/settings.h"

namespace tg::mode {

bool reads_documents(const Settings& s) {
  return batches_are_rows(s) || segments_attention(s) || has_gated_smear(s) ||
         s.data.data_path == synthetic_documents;
}

bool reads_no_bos_id(const Settings& s) {
  return !reads_documents(s) && !s.phased_ttt.phased_ttt_enabled;
}

bool batches_are_rows(const Settings& s) {
  const auto order = s.data.loader_order;
  return order == LoaderOrder::documents || order == LoaderOrder::aligned;
}

bool segments_attention(const Settings& s) {
  const auto chosen = s.data.document_attention;
  return chosen == DocumentAttentionChoice::on ||
         (chosen == DocumentAttentionChoice::automatic && batches_are_rows(s));
}

bool limits_segments(const Settings& s) {
  return segments_attention(s) || s.data.loader_order == LoaderOrder::aligned;
}

bool caseops_without_tokenizer(const Settings& s) {
  return s.data.caseops_enabled && s.data.tokenizer_path.empty();
}

bool has_bigram(const Settings& s) {
  return s.model.bigram_vocab_size > 0;
}

bool keeps_rope_base(const Settings& s) {
  return s.model.rope_yarn == RopeYarn::off;
}

bool has_gated_smear(const Settings& s) {
  return s.model.gates.smear == SmearKind::gated;
}

bool has_sparse_gate(const Settings& s) {
  return s.model.gates.head_gate == HeadGateKind::sparse;
}

bool has_full_gate(const Settings& s) {
  return s.model.gates.head_gate == HeadGateKind::full;
}

bool has_output_gate(const Settings& s) {
  return s.model.gates.head_gate == HeadGateKind::output;
}

bool has_gate_window(const Settings& s) {
  return has_gated_smear(s) || has_sparse_gate(s) || has_output_gate(s);
}

bool has_own_layers(const Settings& s) {
  return s.model.recipe == RecipeChoice::speedrun_43 || is_speedrun_of_2026(s);
}

bool has_recurrence(const Settings& s) {
  return s.model.recurrence.num_loops > 0;
}

bool has_lanes(const Settings& s) {
  return s.model.lanes.parallel_start_layer > 0;
}

bool has_no_skips(const Settings& s) {
  return !s.model.unet_skips;
}

bool has_value_embedding(const Settings& s) {
  return s.model.ve_enabled;
}

bool has_mtp_heads(const Settings& s) {
  return s.model.mtp_num_heads > 0;
}

bool has_prefix_targets(const Settings& s) {
  return s.model.objective.prefix_weight != RampSchedule(Ramps{{0, 0}});
}

bool ties_embeddings(const Settings& s) {
  return s.model.tie_embeddings;
}

bool draws_tied_embeddings(const Settings& s) {
  return s.model.tie_embeddings || s.optim.untie_embeddings_at > 0;
}

bool is_speedrun_of_2026(const Settings& s) {
  const auto recipe = s.model.recipe;
  return recipe == RecipeChoice::speedrun_89 || recipe == RecipeChoice::speedrun_91;
}

bool steps_heads(const Settings& s) {
  return !ties_embeddings(s) || (has_mtp_heads(s) && !s.runtime.record_quirks);
}

bool changes_momentum(const Settings& s) {
  return s.optim.muon_momentum_warmup_steps > 0 || s.optim.muon_momentum_cooldown_steps > 0;
}

bool keeps_second_moments(const Settings& s) {
  return s.optim.normuon;
}

bool has_schedule_length(const Settings& s) {
  return s.run.schedule_iterations > 0 && !follows_lr_trace(s);
}

bool follows_lr_trace(const Settings& s) {
  return !s.optim.lr_trace.empty();
}

bool warms_down_by_fraction(const Settings& s) {
  return !s.run.warmdown_frac.automatic;
}

bool has_no_cap(const Settings& s) {
  return s.run.max_wallclock_seconds == 0;
}

bool bigram_stays_zero(const Settings& s) {
  const ModelConfig& m = s.model;
  return has_bigram(s) && m.bigram_dim != m.model_dim &&
         !is_drawn_projection(m.model_dim, m.bigram_dim) && s.runtime.init_from.empty();
}

bool averages_by_lawa(const Settings& s) {
  return s.averaging.lawa_enabled;
}

bool updates_ema(const Settings& s) {
  return s.averaging.ema_enabled || s.averaging.lawa_enabled;
}

bool may_apply_swa(const Settings& s) {
  return !updates_ema(s) && !s.runtime.record_quirks;
}

bool applies_swa(const Settings& s) {
  return s.averaging.swa_enabled && may_apply_swa(s);
}

bool starts_without_qat(const Settings& s) {
  return !s.averaging.qat_enabled;
}

bool writes_no_int8_artifact(const Settings& s) {
  return s.runtime.artifact != Artifact::int8_zlib;
}

bool masks_no_validation(const Settings& s) {
  return !s.run.validation_mask;
}

bool windows_do_not_overlap(const Settings& s) {
  return s.run.eval_stride >= eval_length(s);
}

bool times_no_phases(const Settings& s) {
  return s.io.training_timing_breakdown == TimingBreakdown::off;
}

bool writes_no_trace(const Settings& s) {
  return s.runtime.profile != ProfileMode::on;
}

bool saves_without_name(const Settings& s) {
  return !saves_nothing(s) && s.data.run_id.empty() && s.runtime.output_dir.empty();
}

bool saves_nothing(const Settings& s) {
  return s.runtime.checkpoint_every.count == 0;
}

bool limits_no_gpu(const Settings& s) {
  return s.runtime.memory_limit_gb > 0 && s.runtime.device == DeviceChoice::cpu;
}

}  // namespace tg::mode
