#include "recipes/own_layers.h"

#include <map>

#include "base/error.h"
#include "base/is_in.h"
#include "config/derived.h"
#include "config/types/text.h"

namespace tg {

namespace {

// Settings that all of these records' layers follow.
constexpr const char* kFollowed[] = {
    "VOCAB_SIZE", "MODEL_DIM", "MLP_MULT", "MLP_NEGATIVE_SLOPE", "LOGIT_SOFTCAP",
    "LOGIT_SOFTCAP_SHIFT", "LOGIT_SOFTCAP_TEMPERATURE", "MTP_WEIGHTS", "PREFIX_WEIGHT",
    "PREFIX_TABLE", "ROPE_BASE", "ROPE_LONGEST", "GATE_WINDOW", "WINDOW_BLOCK", "SHORT_WINDOW",
    "LONG_WINDOW", "FINAL_LONG_WINDOW", "WINDOW_YARN", "ATTENTION_SCALE",
    // Have no effect with NUM_LOOPS=0, which is required.
    "LOOP_START", "LOOP_END", "ENABLE_LOOPING_AT"};

std::map<std::string, std::string> texts_of(const ModelConfig& config) {
  std::map<std::string, std::string> texts;
  const auto add = [&](const char* name, const auto& value, auto&&...) {
    texts[env_name(name)] = value_text(value);
  };
  ModelConfig::visit(config, add, Settings());
  return texts;
}

}  // namespace

void set_speedrun_defaults(Settings& s) {
  s.data.tokenizer_path = "";

  auto& model = s.model;
  model.vocab_size = 50304;  // GPT-2's 50,257, padded
  model.model_dim = 768;
  model.num_heads = model.num_kv_heads = 6;
  model.mlp_mult = 4;
  model.mlp_negative_slope = 0;
  model.tie_embeddings = false;
  model.rope_dims = 0;
  model.qk_gain_init = 0;
  model.xsa_last_n = 0;
  model.ln_scale = model.ve_enabled = model.layer_scales = false;
  model.resid_mix = ResidMix::scalar;

  auto& run = s.run;
  run.warmup_steps = 0;
  run.max_wallclock_seconds = 0;
  run.val_tokens = 10485760;
  run.eval_stride = 0;
  run.train_log_every = 1;

  s.optim.muon_momentum = 0.95;
  s.optim.muon_momentum_warmup_start = 0.85;
  s.optim.grad_clip_norm = 0;

  s.averaging.ema_enabled = s.averaging.swa_enabled = false;
  s.averaging.late_qat_threshold = 0;
  s.runtime.artifact = Artifact::none;
}

void set_common_defaults(Settings& s, double second, double third, double extension) {
  set_speedrun_defaults(s);
  s.data.loader_order = LoaderOrder::aligned;
  s.data.bos_id = {.value = 50256};

  auto& model = s.model;
  model.rope_base = 1024;
  model.rope_yarn = RopeYarn::off;
  model.gates.smear = SmearKind::gated;
  model.windows = {
      .window_block = 128,
      .short_window = CountSchedule({{1, 0}, {3, second}, {5, third}, {6, extension}}),
      .long_window = CountSchedule({{3, 0}, {7, second}, {11, third}, {13, extension}}),
      .final_long_window = 20,
      .window_yarn = true,
      .attention_scale = 0.1};

  s.run.val_batch_size = 2097152;
  s.run.eval_seq_len = 262144;
  s.run.val_loss_every = 250;
  s.run.pass_tokens = 98304;

  auto& optim = s.optim;
  optim.embed_lr = 0.6;
  optim.head_lr = 0.008;
  optim.scalar_lr = 0.04;
  optim.muon_wd = 1.2;
  optim.muon_coefficients = MuonCoefficients::polar_express;
  optim.muon_momentum_warmup_steps = 300;
  optim.muon_momentum_cooldown_steps = 50;
  optim.normuon = optim.cautious_wd = true;
  optim.adam_every = 2;

  s.averaging.control_tensor_name_patterns = {};  // each parameter has an optimizer of its own
}

void require_own_layers(const Settings& settings, void (*set_defaults)(Settings&),
                        const std::vector<std::string>& free) {
  const auto& config = settings.model;
  const auto recipe = choice_name(config.recipe);
  Settings own;
  set_defaults(own);
  const auto expected = texts_of(own.model);
  for (const auto& [name, text] : texts_of(config)) {
    REQUIRE(is_in(kFollowed, name) || is_in(free, name) || text == expected.at(name),
            ExitCode::config, "{}={}: RECIPE={} has its own layers (expected {}); leave it out",
            name, text, recipe, expected.at(name));
  }
  REQUIRE(config.num_kv_heads == config.num_heads, ExitCode::config,
          "NUM_KV_HEADS={}: RECIPE={} has a key head for each query head (expected NUM_HEADS={})",
          config.num_kv_heads, recipe, config.num_heads);
  REQUIRE(qk_head_dim(config) % 4 == 0, ExitCode::config,
          "MODEL_DIM={} with NUM_HEADS={} and QK_HEAD_DIM={}: RECIPE={} rotates a quarter of a "
          "head's channels with another (expected heads of a multiple of 4, found {})",
          config.model_dim, config.num_heads, config.qk_head_dim, recipe, qk_head_dim(config));
  const auto& optim = settings.optim;
  REQUIRE(optim.untie_embeddings_at == 0 || (optim.untie_embeddings_at + 1) % optim.adam_every == 0,
          ExitCode::config,
          "UNTIE_EMBEDDINGS_AT={}: not a step that updates the embeddings (expected one before a "
          "multiple of ADAM_EVERY={})",
          optim.untie_embeddings_at, optim.adam_every);
}

}  // namespace tg
