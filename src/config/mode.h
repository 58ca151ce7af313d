#pragma once
// Conditions on which settings have an effect. Declared apart from Settings, whose groups name them
// beside each setting.

namespace tg {

struct Settings;

namespace mode {

// The opposite of a condition.
template <bool (*condition)(const Settings&)>
bool negated(const Settings& settings) {
  return !condition(settings);
}

// The data.
bool reads_documents(const Settings& settings);     // BOS_ID matters
bool reads_no_bos_id(const Settings& settings);     // nor does phased test-time training
bool batches_are_rows(const Settings& settings);    // LOADER_ORDER=documents, aligned
bool segments_attention(const Settings& settings);  // DOCUMENT_ATTENTION
bool limits_segments(const Settings& settings);     // SEGMENT_LIMIT has an effect
bool caseops_without_tokenizer(const Settings& settings);

// The model and its optimizer.
bool has_bigram(const Settings& settings);
bool keeps_rope_base(const Settings& settings);  // ROPE_YARN=0
bool has_gated_smear(const Settings& settings);  // SMEAR=gated
bool has_sparse_gate(const Settings& settings);  // HEAD_GATE=sparse
bool has_full_gate(const Settings& settings);    // HEAD_GATE=full
bool has_output_gate(const Settings& settings);  // HEAD_GATE=output
bool has_gate_window(const Settings& settings);
bool has_own_layers(const Settings& settings);  // RECIPE=speedrun_43, speedrun_89, speedrun_91
bool has_recurrence(const Settings& settings);
bool has_lanes(const Settings& settings);
bool has_no_skips(const Settings& settings);
bool has_value_embedding(const Settings& settings);
bool has_mtp_heads(const Settings& settings);
bool has_prefix_targets(const Settings& settings);  // PREFIX_WEIGHT
bool ties_embeddings(const Settings& settings);
bool draws_tied_embeddings(const Settings& settings);  // also with UNTIE_EMBEDDINGS_AT
bool is_speedrun_of_2026(const Settings& settings);    // RECIPE=speedrun_89, speedrun_91
bool steps_heads(const Settings& settings);            // HEAD_LR has an effect
bool changes_momentum(const Settings& settings);       // in a warm-up or a cool-down
bool keeps_second_moments(const Settings& settings);   // NORMUON
bool has_schedule_length(const Settings& settings);    // SCHEDULE_ITERATIONS without LR_TRACE
bool follows_lr_trace(const Settings& settings);
bool warms_down_by_fraction(const Settings& settings);  // WARMDOWN_FRAC
bool has_no_cap(const Settings& settings);              // MAX_WALLCLOCK_SECONDS=0
// BIGRAM_DIM's table and projection both begin at zero, so that no gradient ever reaches them.
bool bigram_stays_zero(const Settings& settings);

// Averaging and quantisation. LAWA takes precedence over EMA, which it falls back to until it has
// two copies; both take precedence over SWA.
bool averages_by_lawa(const Settings& settings);
bool updates_ema(const Settings& settings);
bool may_apply_swa(const Settings& settings);
bool applies_swa(const Settings& settings);
bool starts_without_qat(const Settings& settings);
bool writes_no_int8_artifact(const Settings& settings);

// Evaluation, timing and checkpoints.
bool masks_no_validation(const Settings& settings);  // VALIDATION_MASK=0
bool windows_do_not_overlap(const Settings& settings);
bool times_no_phases(const Settings& settings);
bool writes_no_trace(const Settings& settings);
bool saves_nothing(const Settings& settings);
// No later start finds its checkpoints, since each draws a RUN_ID of its own.
bool saves_without_name(const Settings& settings);
bool limits_no_gpu(const Settings& settings);

}  // namespace mode
}  // namespace tg
