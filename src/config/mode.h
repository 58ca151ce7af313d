#pragma once
// Conditions on which settings have an effect. Declared apart from Settings, whose groups name them
// beside each setting.

namespace tg {

struct Settings;

namespace mode {

bool reads_documents(const Settings& settings);     // BOS_ID matters
bool reads_no_bos_id(const Settings& settings);     // nor does phased test-time training
bool batches_are_rows(const Settings& settings);    // LOADER_ORDER=documents, aligned
bool segments_attention(const Settings& settings);  // DOCUMENT_ATTENTION
bool limits_segments(const Settings& settings);     // SEGMENT_LIMIT has an effect

bool has_gated_smear(const Settings& settings);  // SMEAR=gated
bool has_gate_window(const Settings& settings);
bool has_prefix_targets(const Settings& settings);   // PREFIX_WEIGHT
bool has_own_layers(const Settings& settings);       // RECIPE=speedrun_43, speedrun_89, speedrun_91
bool is_speedrun_of_2026(const Settings& settings);  // RECIPE=speedrun_89, speedrun_91
// BIGRAM_DIM's table and projection both begin at zero, so that no gradient ever reaches them.
bool bigram_stays_zero(const Settings& settings);

bool windows_do_not_overlap(const Settings& settings);  // EVAL_STRIDE

}  // namespace mode
}  // namespace tg
