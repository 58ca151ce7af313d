// The 16 MB challenge's last record, of 2026-04-27: recurrence, two lanes, sparse gates, an
// artifact by GPTQ and test-time training by document.
#include "recipes/gpt_spec.h"

namespace tg {

namespace {

// The script's defaults; its run command changes some (configs/record_1061.env).
void set_defaults(Settings& s) {
  s.data.loader_order = LoaderOrder::documents;

  auto& model = s.model;
  model.vocab_size = 8192;
  model.mlp_mult = 4;
  model.xsa_last_n = 11;
  model.rope_yarn = RopeYarn::off;
  model.qk_gain_init = 5;
  model.bigram_vocab_size = 0;
  model.ve_enabled = false;
  model.gates.smear = SmearKind::off;
  model.gates.skip_gates_enabled = true;
  model.recurrence = {.num_loops = 2, .loop_start = 3, .loop_end = 5, .enable_looping_at = 0.35};
  model.lanes.parallel_start_layer = 8;

  s.run.warmdown_frac = {.value = 0.75};
  s.run.gptq_reserve_seconds = 4;
  s.run.eval_stride = 0;

  auto& optim = s.optim;
  optim.matrix_lr = 0.026;
  optim.scalar_lr = 0.02;
  optim.tied_embed_lr = 0.03;
  optim.muon_momentum = 0.97;
  optim.muon_coefficients = MuonCoefficients::polar_express;
  optim.muon_row_normalize = true;
  optim.muon_wd = 0.095;
  optim.adam_wd = 0.02;
  optim.embed_wd = {.value = 0.085};

  s.averaging.ema_decay = 0.9965;
  s.averaging.swa_enabled = false;
  s.averaging.late_qat_threshold = 0;
  s.runtime.artifact = Artifact::gptq;
  s.phased_ttt.ttt_eval_seq_len = 2048;
}

std::vector<Draw> draws(const Plan& plan, const ModelConfig& config) {
  const auto& m = plan.matrices;
  DrawList draw;
  draw.embedding(plan.embedding.tokens);
  for (const auto& block : plan.blocks) draw_head_gate(draw, block.head_gate.gate, config);
  draw.linear(plan.head.weight);
  draw.linear(plan.embedding.gated_smear_weight);
  draw.initial(plan.embedding.tokens);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values}) draw.initial(matrices, i);
  }
  for (std::int64_t i = 0; i < config.num_layers; ++i) draw.initial(m.up, i);
  draw.initial(plan.value_embedding.table);
  draw.initial(plan.embedding.bigram_projection);
  draw.initial(plan.value_embedding.projection);
  return draw.take();
}

}  // namespace

const Recipe kLastRecord{
    .set_defaults = set_defaults,
    .model =
        [](const Settings& s) {
          return gpt_spec(s, {.draws = draws, .forgets_untied_head = true});
        },
    .average_score = {"diagnostic pre-quantization post-ema", "pre_quantization_post_ema", 8},
    .warms_up_as_it_trains = true,
    .keeps_warm_up_momentum = true};

}  // namespace tg
