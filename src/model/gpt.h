#pragma once
// The GPT of all recipes: one class, computed from a Plan.
// Letters in shapes: B sequences, T tokens, D MODEL_DIM, V vocabulary, hd head size, KV kv heads;
// inside the model these are the padded sizes (padding.h).
#include <ATen/ATen.h>

#include <cassert>
#include <optional>
#include <string>

#include "config/settings.h"
#include "model/backbone.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "model/pass_inputs.h"
#include "model/plan.h"
#include "model/weights.h"
#include "ops/loss/loss_targets.h"

namespace tg {

struct ForwardMode {
  bool auxiliary_losses = false;  // adds the losses of the multi-token heads
  bool fp8 = false;               // uses FP8 for the GEMMs that numerics.fp8 names
  double scale = 1.0;             // multiplies the loss and every gradient
  std::int64_t lead = 0;     // first positions of each row that are context only, without a loss
  std::int64_t context = 0;  // of RoPE; see token_losses()
  // Multiplies gradients only (loss scaling): [] fp32 on the device; undefined: 1.
  at::Tensor grad_scale{};
  // Targets of the head beside the next token; nullopt: none.
  std::optional<FurtherTargets> further{};
  at::Tensor mean_nll{};  // with `further`: see CrossEntropyOptions
};

class Gpt {
 public:
  // The caller owns the parameters, which must outlive the model. Allocates gradients of the large
  // matrices that require one, as zeros, at fixed addresses.
  Gpt(Plan plan, const ParameterTable& table, const Numerics& numerics);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  // Device and dtype of the matrices.
  at::TensorOptions parameter_options() const {
    return constant_table_[plan_.matrices.out.bank].options();
  }
  std::int64_t vocab_size() const { return plan_.shape.vocab; }
  const Plan& plan() const { return plan_; }
  const ComputeSizes& sizes() const { return sizes_; }

  // Selects the plan's stage that passes compute; initially the last one.
  void set_stage(std::int64_t stage) {
    assert(stage >= 0 && stage < std::ssize(plan_.stages));
    stage_ = static_cast<std::size_t>(stage);
  }
  std::int64_t stage() const { return static_cast<std::int64_t>(stage_); }
  const Pass& pass() const { return plan_.pass(stage()); }

  // QAT: sets whether matrices are rounded to the quantizer's levels. Call cast_weights()
  // afterwards.
  void set_fake_quant(bool on);
  // Casts the parameters into the copies that GEMMs read; call it after each parameter update.
  void cast_weights() { weights_.cast(); }
  // Adds buffered gradients (Q, K and V, padded copies) to the parameters'; call it when a step's
  // gradients are complete.
  void collect_gradients() { weights_.collect_gradients(); }
  // Scales of the FP8 GEMMs; undefined without any.
  Fp8Scales& fp8_scales() { return weights_.fp8_scales(); }
  // Call it before the first step of stage `to` after a step of stage `from`: layer calls that are
  // new in `to` copy the scales of their block's first layer call in `from`.
  void inherit_fp8_scales(std::int64_t from, std::int64_t to) {
    weights_.inherit_fp8_scales(plan_.pass(from), plan_.pass(to));
  }
  // GEMMs that passes with ForwardMode::fp8 compute in FP8: named by numerics.fp8 and supported by
  // this model and GPU.
  Fp8Parts fp8_parts() const { return weights_.fp8_parts(); }
  // Names the kernels of training on [batch, tokens] with attention over `context` tokens,
  // "norm:cuda qkv:hopper …".
  std::string kernels(std::int64_t batch, std::int64_t tokens, std::int64_t context) const;

  // Mean loss in nats over all B·T positions, of the next token alone the cross-entropy; inputs and
  // targets [B, T] int64 → [] fp32. `documents`: documents of the inputs; attention does not cross
  // them.
  at::Tensor loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                  const ForwardMode& mode, const std::optional<Documents>& documents = {}) const;
  // Cross-entropy of every target, without a gradient; inputs [B, T], targets [B, S] int64 → [B, S]
  // fp32. S is T, or with `only` the number of these positions: only they are then computed by the
  // head and, without `documents`, by the last block's queries, attention output and MLP.
  // `context`: lower bound of the length that RoPE is made for; pass the longest row of an
  // evaluation, so that a token's score does not depend on its row. Uses the weights of the last
  // cast_weights(), like loss().
  at::Tensor token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                          const std::optional<Positions>& only = {},
                          const std::optional<Documents>& documents = {},
                          std::int64_t context = 0) const;
  // Cross-entropy of every target as masked_softcap_nll(), with the token before a target as its
  // input, and without the mask: inputs, targets [B, T] int64, mask [V, ⌈V / 8⌉] uint8 → [B, T]
  // fp32 each. Without a gradient.
  struct MaskedLosses {
    at::Tensor masked, unmasked;
  };
  MaskedLosses masked_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                             const at::Tensor& mask,
                             const std::optional<Documents>& documents) const;
  // Cross-entropy of every target, inputs [B, T], targets [B, S] int64 → [B, S] fp32. Each row has
  // its own adapters, the last B of `adapters`, which must be made for this stage; attention spans
  // the whole row. S is T, or with `only` the number of these positions, which the head alone
  // computes. `context`: as for token_losses(). Autograd reaches only the adapters, whatever the
  // parameters require: backward() overwrites these rows of adapters.parameters().grad(). In fp16,
  // gradients are scaled internally, for a mean over a row.
  at::Tensor adapted_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                            const LoraAdapters& adapters, const std::optional<Positions>& only = {},
                            std::int64_t context = 0) const;
  // Softcapped logits of the positions `only`, without a gradient: inputs [B, T] int64 → [B, S, V]
  // fp32. `context`: as for token_losses().
  at::Tensor logits(const at::Tensor& inputs_bt, const Positions& only, std::int64_t context) const;

  // Computes the final states of inputs [B, T] int64 without a gradient, and calls `observer` with
  // the input of every GEMM, the head's included. Attention spans the whole row.
  void observe(const at::Tensor& inputs_bt, const OperandObserver& observer) const;

  // Cache for decoding up to `capacity` tokens of `batch` rows. `context`: tokens that attention
  // spans; 0: capacity.
  DecodeCache make_cache(std::int64_t batch, std::int64_t capacity, std::int64_t context = 0) const;
  // Appends ids [B, n] int64 to the cache and returns the softcapped logits of the next token [B,
  // V] fp32. RoPE is made for at least the cache's context. Requires at most `capacity` tokens in
  // all.
  at::Tensor next_logits(const at::Tensor& ids_bn, DecodeCache& cache) const;

 private:
  // The head's inputs at scored positions, [B·S, D] in the compute dtype; arguments as of
  // token_losses().
  at::Tensor scored_states(const at::Tensor& inputs_bt, const std::optional<Positions>& only,
                           const std::optional<Documents>& documents, std::int64_t context) const;
  // Softcapped logits without the padded columns, [..., V] fp32.
  at::Tensor softcapped(const at::Tensor& logits) const;
  at::Tensor multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                              const ForwardMode& mode) const;

  const Numerics numerics_;
  const Plan plan_;
  const ComputeSizes sizes_;
  const ParameterTable& table_;
  WeightCopies weights_;
  const Backbone backbone_;
  // Views of the parameters as constants, without gradients.
  const ParameterTable constant_table_;
  WeightCopies frozen_weights_;
  const Backbone frozen_;
  std::size_t stage_ = plan_.stages.size() - 1;
};

}  // namespace tg
