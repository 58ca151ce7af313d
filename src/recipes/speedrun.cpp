// The GPT-124M speedrun of 2024-11-08: 3,242 steps of 524,288 tokens to a validation loss of 3.28.
// Neither averages nor quantizes weights.
#include "recipes/gpt_spec.h"
#include "weights/foreign_names.h"

namespace tg {

namespace {

void set_defaults(Settings& s) {
  s.data.loader_order = LoaderOrder::strided;
  s.data.tokenizer_path = "";

  auto& model = s.model;
  model.vocab_size = 50304;  // GPT-2's 50,257, padded
  model.num_layers = 12;
  model.model_dim = 768;
  model.num_heads = model.num_kv_heads = 6;
  model.mlp_mult = 4;
  model.mlp_negative_slope = 0;
  model.tie_embeddings = false;
  model.rope_dims = 0;
  model.qk_gain_init = 0;
  model.bigram_vocab_size = 0;
  model.xsa_last_n = 0;
  model.ln_scale = model.ve_enabled = model.unet_skips = false;
  model.layer_scales = false;
  model.gates.smear = SmearKind::off;
  model.value_residual = ValueResidual::blend;
  model.resid_mix = ResidMix::scalar;

  auto& run = s.run;
  run.iterations = 3242;
  run.warmdown_iters = 926;
  run.warmup_steps = 0;
  run.max_wallclock_seconds = 0;
  run.train_batch_tokens = 524288;
  run.train_seq_len = 1024;
  run.val_tokens = 10485760;
  run.val_loss_every = 125;
  run.train_log_every = 1;
  run.eval_seq_len = run.eval_stride = 0;

  auto& optim = s.optim;
  optim.embed_lr = 0.3;
  optim.head_lr = 0.002;
  optim.matrix_lr = optim.scalar_lr = 0.02;
  optim.muon_momentum = 0.95;
  optim.muon_momentum_warmup_start = 0.85;
  optim.muon_momentum_warmup_steps = 500;
  optim.muon_wd = optim.adam_wd = 0;
  optim.grad_clip_norm = 0;

  s.averaging.ema_enabled = s.averaging.swa_enabled = false;
  s.averaging.late_qat_threshold = 0;
  s.runtime.artifact = Artifact::none;
}

std::vector<Draw> draws(const Plan& plan, const ModelConfig& config) {
  const auto& m = plan.matrices;
  DrawList draw;
  draw.embedding(plan.embedding.tokens);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values, m.out, m.up, m.down})
      draw.linear(matrices, i);
  }
  draw.initial(plan.embedding.tokens);
  draw.initial(plan.value_embedding.table);
  draw.initial(plan.embedding.bigram_projection);
  draw.initial(plan.value_embedding.projection);
  return draw.take();
}

ModelSpec model(const Settings& settings) {
  return gpt_spec(settings, {.draws = draws, .matrices = InitDist::torch_default});
}

}  // namespace

const Recipe kSpeedrun{.set_defaults = set_defaults,
                       .model = model,
                       .script_weights = {"the GPT-124M script", rename_script_weights}};

}  // namespace tg
