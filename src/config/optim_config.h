#pragma once
// The optimizers, and averaging and quantisation of weights.
#include <cstdint>
#include <string>
#include <vector>

#include "config/limits.h"

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
  std::int64_t muon_backend_steps = 5;
  double muon_wd = 0.04;
  double adam_wd = 0.04;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double adam_eps = 1e-8;
  double grad_clip_norm = 0.3;
  double muon_beta2 = 0.95;
  std::string lr_trace;

  template <class V>
  void visit(V&& v) {
    list(*this, v);
  }
  template <class V>
  void visit(V&& v) const {
    list(*this, v);
  }

 private:
  template <class Self, class V>
  static void list(Self& s, V& v) {
    v("embed_lr", s.embed_lr, at_least(0), "learning rate of the tables, head untied");
    v("head_lr", s.head_lr, at_least(0), "learning rate of an untied head");
    v("tied_embed_lr", s.tied_embed_lr, at_least(0), "learning rate of the tables, head tied");
    v("tied_embed_init_std", s.tied_embed_init_std, at_least(0),
      "initial spread of a tied token table");
    v("matrix_lr", s.matrix_lr, at_least(0), "learning rate of the banks (Muon)");
    v("scalar_lr", s.scalar_lr, at_least(0), "learning rate of scalars and projections (AdamW)");
    v("muon_momentum", s.muon_momentum, fraction, "Muon's momentum after its warm-up");
    v("muon_momentum_warmup_start", s.muon_momentum_warmup_start, fraction,
      "Muon's momentum at step 0");
    v("muon_momentum_warmup_steps", s.muon_momentum_warmup_steps, at_least(0),
      "steps between the two; 0: MUON_MOMENTUM at once");
    v("muon_backend_steps", s.muon_backend_steps, within(1, 100), "Newton-Schulz iterations");
    v("muon_wd", s.muon_wd, at_least(0), "weight decay of the banks");
    v("adam_wd", s.adam_wd, at_least(0), "weight decay of tables, scalars and projections");
    v("beta1", s.beta1, fraction, "Adam's decay of the mean");
    v("beta2", s.beta2, fraction, "Adam's decay of the square");
    v("adam_eps", s.adam_eps, above(0), "Adam's epsilon, outside the root");
    v("grad_clip_norm", s.grad_clip_norm, at_least(0),
      "largest norm of the gradient; 0: no clipping");
    v("muon_beta2", s.muon_beta2, fraction, "accepted, without effect");
    v("lr_trace", s.lr_trace, anything,
      "metrics.jsonl of a run whose steps and learning-rate scales are repeated, without its "
      "clock");
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
  bool late_qat = false;
  std::vector<std::string> int8_keep_float_fp32_name_patterns = default_control_patterns();

  template <class V>
  void visit(V&& v) {
    list(*this, v);
  }
  template <class V>
  void visit(V&& v) const {
    list(*this, v);
  }

 private:
  template <class Self, class V>
  static void list(Self& s, V& v) {
    v("ema_enabled", s.ema_enabled, anything, "running mean of the weights");
    v("ema_decay", s.ema_decay, fraction, "share of the old mean at each step");
    v("swa_enabled", s.swa_enabled, anything, "mean of late weights, where EMA and LAWA are off");
    v("swa_every", s.swa_every, at_least(1), "steps between its samples");
    v("lawa_enabled", s.lawa_enabled, anything, "mean of the latest copies; goes before EMA");
    v("lawa_k", s.lawa_k, at_least(1), "copies kept");
    v("lawa_freq", s.lawa_freq, at_least(1), "steps between copies");
    v("qat_enabled", s.qat_enabled, anything, "round weights to six bits in training forwards");
    v("late_qat_threshold", s.late_qat_threshold, at_least(0),
      "learning-rate scale below which that starts by itself; 0: never");
    v("control_tensor_name_patterns", s.control_tensor_name_patterns, anything,
      "parts of names: AdamW steps these at SCALAR_LR, the artifact keeps them exact");
    v("late_qat", s.late_qat, anything, "accepted, without effect: see LATE_QAT_THRESHOLD");
    v("int8_keep_float_fp32_name_patterns", s.int8_keep_float_fp32_name_patterns, anything,
      "parts of the names that ARTIFACT=int8_zlib keeps in fp32");
  }
};

}  // namespace tg
