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

bool has_gated_smear(const Settings& s) {
  return s.model.gates.smear == SmearKind::gated;
}

bool has_gate_window(const Settings& s) {
  const auto head_gate = s.model.gates.head_gate;
  return has_gated_smear(s) || head_gate == HeadGateKind::sparse ||
         head_gate == HeadGateKind::output;
}

bool has_prefix_targets(const Settings& s) {
  return s.model.objective.prefix_weight != RampSchedule(Ramps{{0, 0}});
}

bool has_own_layers(const Settings& s) {
  return s.model.recipe == RecipeChoice::speedrun_43 || is_speedrun_of_2026(s);
}

bool is_speedrun_of_2026(const Settings& s) {
  const auto recipe = s.model.recipe;
  return recipe == RecipeChoice::speedrun_89 || recipe == RecipeChoice::speedrun_91;
}

bool bigram_stays_zero(const Settings& s) {
  const ModelConfig& m = s.model;
  return m.bigram_vocab_size > 0 && m.bigram_dim != m.model_dim &&
         !is_drawn_projection(m.model_dim, m.bigram_dim) && s.runtime.init_from.empty();
}

bool windows_do_not_overlap(const Settings& s) {
  return s.run.eval_stride >= eval_length(s);
}

}  // namespace tg::mode
