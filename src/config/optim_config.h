#pragma once
// The optimizers, and averaging and quantisation of weights.
#include <cstdint>
#include <string>
#include <vector>

#include "config/mode.h"
#include "config/setting.h"
#include "config/types/values.h"

namespace tg {

struct OptimConfig {
  double embed_lr = 0.6;
  double head_lr = 0.008;
  double tied_embed_lr = 0.035;
  double tied_embed_init_std = 0.005;
  double matrix_lr = 0.025;
  double scalar_lr = 0.025;
  double muon_momentum = 0.99;
  double muon_momentum_warmup_start = 0.92;
  std::int64_t muon_momentum_warmup_steps = 1500;
  std::int64_t muon_momentum_cooldown_steps = 0;
  std::int64_t muon_backend_steps = 5;
  MuonCoefficients muon_coefficients = MuonCoefficients::quintic;
  bool muon_row_normalize = false;
  bool normuon = false;
  double muon_beta2 = 0.95;
  double muon_wd = 0.04;
  bool cautious_wd = false;
  double adam_wd = 0.04;
  NumberOrAuto embed_wd{.automatic = true};
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_eps = 1e-8;
  std::int64_t adam_every = 1;
  std::int64_t untie_embeddings_at = 0;
  double grad_clip_norm = 0.3;
  std::string lr_trace;

  static void visit(auto& s, const auto& line, const auto& all) {
    const bool tied = all.model.tie_embeddings;
    line("embed_lr", s.embed_lr, at_least(0), role::fixed_if(!tied),
         "learning rate of the embeddings, head untied");
    line("head_lr", s.head_lr, at_least(0),
         role::fixed_if(!tied || (all.model.mtp_num_heads > 0 && !all.runtime.record_quirks)),
         "learning rate of an untied head and of the heads of multi-token prediction");
    line("tied_embed_lr", s.tied_embed_lr, at_least(0), role::fixed_if(tied),
         "learning rate of the embeddings, head tied");
    line("tied_embed_init_std", s.tied_embed_init_std, at_least(0),
         role::fixed_if(tied || s.untie_embeddings_at > 0),
         "standard deviation of a tied token embedding's initial values");
    line("matrix_lr", s.matrix_lr, at_least(0), role::fixed.common(),
         "learning rate of the blocks' matrices (Muon)");
    line("scalar_lr", s.scalar_lr, at_least(0), role::fixed,
         "learning rate of scalars and projections (AdamW)");
    line("muon_momentum", s.muon_momentum, fraction, role::fixed,
         "Muon's momentum after its warm-up");
    line("muon_momentum_warmup_start", s.muon_momentum_warmup_start, fraction,
         role::fixed_if(s.muon_momentum_warmup_steps > 0 || s.muon_momentum_cooldown_steps > 0),
         "Muon's momentum at step 0, and at the end of its cool-down");
    line("muon_momentum_warmup_steps", s.muon_momentum_warmup_steps, at_least(0), role::fixed,
         "steps in which Muon's momentum rises to MUON_MOMENTUM; 0: none");
    line("muon_momentum_cooldown_steps", s.muon_momentum_cooldown_steps, at_least(0),
         role::free.of_recipe(RecipeChoice::speedrun_43),
         "last steps of ITERATIONS, in which Muon's momentum falls back to "
         "MUON_MOMENTUM_WARMUP_START");
    line("muon_backend_steps", s.muon_backend_steps, within(1, 100), role::fixed,
         "Newton-Schulz iterations; polar_express has five at most");
    line("muon_coefficients", s.muon_coefficients, anything, role::fixed,
         "coefficients of the Newton-Schulz iterations: quintic, equal in all; polar_express, "
         "different in each");
    line("muon_row_normalize", s.muon_row_normalize, anything,
         role::fixed.of_recipe(RecipeChoice::last_record),
         "Muon divides each row of its update by its norm before the Newton-Schulz iterations");
    line("normuon", s.normuon, anything, role::fixed.of_recipe(RecipeChoice::speedrun_43),
         "Muon divides its updates by the root of their second moments, kept by row or by column");
    line("muon_beta2", s.muon_beta2, fraction,
         role::fixed_if(s.normuon)
             .of_recipe(RecipeChoice::speedrun_43)
             .ineffective_if(!s.normuon, "has no effect without NORMUON=1"),
         "decay of NORMUON's second moments");
    line("muon_wd", s.muon_wd, at_least(0), role::fixed,
         "weight decay of the blocks' matrices (Muon)");
    line("cautious_wd", s.cautious_wd, anything, role::fixed.of_recipe(RecipeChoice::speedrun_43),
         "weight decay of Muon and Adam is scaled by the squared learning rate, and left out where "
         "the update grows the weight");
    line("adam_wd", s.adam_wd, at_least(0), role::fixed,
         "weight decay of embeddings, scalars and projections (AdamW)");
    line("embed_wd", s.embed_wd, at_least(0), role::fixed.of_recipe(RecipeChoice::last_record),
         "weight decay of the embeddings alone; auto: ADAM_WD");
    line("beta1", s.beta1, fraction, role::fixed, "decay of AdamW's first moment");
    line("beta2", s.beta2, fraction, role::fixed, "decay of AdamW's second moment");
    line("adam_eps", s.adam_eps, above(0), role::fixed, "AdamW's epsilon, outside the square root");
    line("adam_every", s.adam_every, at_least(1), role::fixed.of_recipe(RecipeChoice::speedrun_43),
         "steps between updates by AdamW and Adam, which take the sum of their gradients");
    line(
        "untie_embeddings_at", s.untie_embeddings_at, at_least(0),
        role::fixed.of_recipe(RecipeChoice::speedrun_43)
            .ineffective_if(!mode::has_own_layers(all),
                            "has no effect without RECIPE=speedrun_43, speedrun_89 or speedrun_91"),
        "last step, from 0 on, that updates embedding and head as one table, at HEAD_LR; 0: two "
        "tables from the start");
    line("grad_clip_norm", s.grad_clip_norm, at_least(0), role::fixed,
         "maximum norm of the gradient; 0: no clipping");
    line("lr_trace", s.lr_trace, anything, role::free.path(),
         "metrics.jsonl of a run whose steps and learning-rate scales are repeated, whatever the "
         "clock says");
  }
};

// Substrings of parameter names: AdamW updates matching parameters at SCALAR_LR, and the artifact
// keeps them in floating point.
inline const std::vector<std::string>& default_control_patterns() {
  static const std::vector<std::string> patterns = {
      "attn_scale", "mlp_scale",       "resid_mix",       "q_gain",    "skip_weight", "smear",
      "dtg_gate",   "ve_layer_scales", "ve_shared.scale", "attn_gate", "vr_lambda"};
  return patterns;
}

struct AveragingConfig {
  bool ema_enabled = true;
  double ema_decay = 0.997;
  bool swa_enabled = true;
  std::int64_t swa_every = 50;
  bool lawa_enabled = false;
  std::int64_t lawa_k = 10;
  std::int64_t lawa_freq = 100;
  bool qat_enabled = false;
  double late_qat_threshold = 0.15;
  std::vector<std::string> control_tensor_name_patterns = default_control_patterns();
  std::vector<std::string> int8_keep_float_fp32_name_patterns = default_control_patterns();

  static void visit(auto& s, const auto& line, const auto& all) {
    // LAWA takes precedence over EMA, which it falls back to until it has two copies; both take
    // precedence over SWA.
    const bool updates_ema = s.ema_enabled || s.lawa_enabled;
    const bool may_apply_swa = !updates_ema && !all.runtime.record_quirks;
    line("ema_enabled", s.ema_enabled, anything, role::fixed_if(!s.lawa_enabled),
         "exponential moving average of the weights (EMA)");
    line("ema_decay", s.ema_decay, fraction, role::fixed_if(updates_ema),
         "decay of EMA: weight of the old average at each step");
    line("swa_enabled", s.swa_enabled, anything, role::fixed_if(may_apply_swa),
         "stochastic weight averaging (SWA): mean of late weights, where EMA and LAWA are off");
    line("swa_every", s.swa_every, at_least(1), role::fixed_if(may_apply_swa && s.swa_enabled),
         "steps between SWA's samples");
    line("lawa_enabled", s.lawa_enabled, anything, role::fixed,
         "latest weight averaging (LAWA): mean of the latest copies; takes precedence over EMA");
    line("lawa_k", s.lawa_k, at_least(1), role::fixed_if(s.lawa_enabled), "copies that LAWA keeps");
    line("lawa_freq", s.lawa_freq, at_least(1), role::fixed_if(s.lawa_enabled),
         "steps between LAWA's copies");
    line("qat_enabled", s.qat_enabled, anything, role::fixed,
         "quantisation-aware training (QAT): round weights to six bits in training's forward "
         "passes");
    line("late_qat_threshold", s.late_qat_threshold, at_least(0), role::fixed_if(!s.qat_enabled),
         "learning-rate scale below which QAT starts by itself; 0: never");
    line("control_tensor_name_patterns", s.control_tensor_name_patterns, anything, role::fixed,
         "substrings of parameter names: AdamW updates those parameters at SCALAR_LR, the artifact "
         "keeps them in floating point");
    line("int8_keep_float_fp32_name_patterns", s.int8_keep_float_fp32_name_patterns, anything,
         role::free.ineffective_if(all.runtime.artifact != Artifact::int8_zlib,
                                   "has no effect without ARTIFACT=int8_zlib"),
         "substrings of the names that ARTIFACT=int8_zlib keeps in fp32");
  }
};

}  // namespace tg
