// Record 43 of the GPT-124M speedrun, of 2025-11-10: 2,245 steps of 262,144 tokens to a validation
// loss of 3.28. Its 12 layers differ from each other, so their number is fixed.
#include "recipes/speedrun_43.h"

#include "recipes/own_layers.h"
#include "recipes/recipe.h"

namespace tg {

namespace {

using namespace record_43;

CountSchedule windows(std::int64_t first, std::int64_t second, std::int64_t third,
                      std::int64_t extension) {
  return CountSchedule({{first, 0}, {second, 735}, {third, 1470}, {extension, 2205}});
}

void set_defaults(Settings& s) {
  s.data.loader_order = LoaderOrder::aligned;
  s.data.bos_id = {.count = 50256};
  s.data.segment_limit = {.schedule = 2048};
  s.data.tokenizer_path = "";

  auto& model = s.model;
  model.recipe = RecipeChoice::speedrun_43;
  model.vocab_size = 50304;  // GPT-2's 50,257, padded
  model.num_layers = kBlocks;
  model.model_dim = 768;
  model.num_heads = model.num_kv_heads = 6;
  model.mlp_mult = 4;
  model.mlp_negative_slope = 0;
  model.tie_embeddings = false;
  model.rope_base = 1024;
  model.rope_dims = 0;
  model.rope_yarn = RopeYarn::off;
  model.qk_gain_init = 0;
  model.bigram_vocab_size = 0;
  model.xsa_last_n = 0;
  model.ln_scale = model.ve_enabled = false;
  model.layer_scales = false;
  model.resid_mix = ResidMix::scalar;
  model.objective.logit_softcap = 15;  // 30·σ(z/7.5) is 15 + 15·tanh(z/15)
  model.gates.smear = SmearKind::gated;
  model.gates.head_gate = HeadGateKind::sparse;
  model.windows = {.window_block = 128,
                   .short_window = windows(1, 3, 5, 6),
                   .long_window = windows(3, 7, 11, 13),
                   .final_long_window = 20,
                   .window_yarn = true,
                   .attention_scale = 0.1};

  auto& run = s.run;
  run.iterations = 2245;
  run.schedule_iterations = 2205;
  run.warmdown_frac = {.number = 0.5};
  run.lr_floor = 0.1;
  run.warmup_steps = 0;
  run.max_wallclock_seconds = 0;
  run.train_batch_tokens = 262144;
  run.val_tokens = 10485760;
  run.val_batch_size = 2097152;
  run.eval_seq_len = 262144;
  run.eval_stride = 0;
  run.val_loss_every = 250;
  run.train_log_every = 1;

  auto& optim = s.optim;
  optim.embed_lr = 0.6;
  optim.head_lr = 0.008;
  optim.scalar_lr = 0.04;
  optim.matrix_lr = 0.03;
  optim.muon_wd = 1.2;
  optim.muon_coefficients = MuonCoefficients::polar_express;
  optim.muon_momentum = 0.95;
  optim.muon_momentum_warmup_start = 0.85;
  optim.muon_momentum_warmup_steps = 300;
  optim.muon_momentum_cooldown_steps = 50;
  optim.normuon = optim.cautious_wd = true;
  optim.beta1 = 0.65;
  optim.adam_wd = 0;
  optim.adam_every = 2;
  optim.grad_clip_norm = 0;

  s.averaging.ema_enabled = s.averaging.swa_enabled = false;
  s.averaging.late_qat_threshold = 0;
  s.averaging.control_tensor_name_patterns = {};  // NorMuon updates its gates
  s.runtime.artifact = Artifact::none;
}

ModelSpec model(const Settings& settings) {
  require_own_layers(
      settings, set_defaults,
      {"VOCAB_SIZE", "NUM_HEADS", "NUM_KV_HEADS", "MODEL_DIM", "MLP_MULT", "MLP_NEGATIVE_SLOPE",
       "LOGIT_SOFTCAP", "LOGIT_SOFTCAP_SHIFT", "LOGIT_SOFTCAP_TEMPERATURE", "MTP_WEIGHTS",
       "PREFIX_WEIGHT", "PREFIX_TABLE", "ROPE_BASE", "ROPE_LONGEST", "GATE_WINDOW",
       "SPARSE_ATTN_GATE_SCALE", "WINDOW_BLOCK", "SHORT_WINDOW", "LONG_WINDOW", "FINAL_LONG_WINDOW",
       "WINDOW_YARN", "ATTENTION_SCALE",
       // Have no effect with NUM_LOOPS=0, which is required.
       "LOOP_START", "LOOP_END", "ENABLE_LOOPING_AT"});
  return spec(settings);
}

}  // namespace

const Recipe kSpeedrun43{.set_defaults = set_defaults,
                         .model = model,
                         .stage_precedes_validation = true,
                         .script_weights = {"record 43's script", rename_script_weights}};

}  // namespace tg
