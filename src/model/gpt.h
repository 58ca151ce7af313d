#pragma once
// The GPT of all recipes: one class, whose settings say which parts exist.
// Letters in shapes: B sequences, T tokens, D MODEL_DIM, V vocabulary, hd head size, KV kv heads;
// inside the model the sizes that it computes with (padding.h).
#include <ATen/ATen.h>

#include <cassert>
#include <optional>
#include <string>

#include "config/settings.h"
#include "model/inference.h"
#include "model/lora.h"
#include "model/parameters.h"
#include "model/plan.h"
#include "model/trunk.h"
#include "model/weights.h"

namespace tg {

struct ForwardMode {
  bool auxiliary_losses = false;  // adds the multi-token heads' losses
  bool fp8 = false;               // computes in FP8 what numerics.fp8 names
  double scale = 1.0;             // multiplies the loss, and so every gradient
  std::int64_t lead = 0;          // so many first positions of each row are context: no loss counts
  std::int64_t context = 0;       // of RoPE, see token_losses()
  // Multiplies the gradients alone (loss scaling): [] fp32 on the device; undefined: 1.
  at::Tensor grad_scale{};
};

class Gpt {
 public:
  // The caller owns the parameters, which must outlive the model. Allocates the large matrices'
  // gradients, as zeros, at fixed addresses, where they require one.
  Gpt(Plan plan, const ParameterTable& table, const Numerics& numerics);
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  // Device and dtype of the matrices.
  at::TensorOptions parameter_options() const {
    return frozen_table_[plan_.matrices.out.bank].options();
  }
  std::int64_t vocab_size() const { return plan_.shape.vocab; }
  const Plan& plan() const { return plan_; }
  const ComputeSizes& sizes() const { return sizes_; }

  // Which of the plan's stages passes compute from now on; at first the last one.
  void set_stage(std::int64_t stage) {
    assert(stage >= 0 && stage < std::ssize(plan_.stages));
    stage_ = static_cast<std::size_t>(stage);
  }
  std::int64_t stage() const { return static_cast<std::int64_t>(stage_); }
  const Pass& pass() const { return plan_.pass(stage()); }

  // QAT: whether matrices are rounded to the quantiser's levels. Call cast_weights() afterwards.
  void set_fake_quant(bool on);
  // Casts the parameters into the copies that GEMMs read; call it after every change of them.
  void cast_weights() { weights_.cast(); }
  // Adds the gradients of Q, K and V to the banks'; call it when a step's gradients are complete.
  void collect_gradients() { weights_.collect_gradients(); }
  // Returns the scales of the FP8 GEMMs; undefined without any.
  Fp8Scales& fp8_scales() { return weights_.fp8_scales(); }
  // Called before the first step of stage `to` after steps of `from`: a new call takes the scales
  // of its block's call before.
  void inherit_fp8_scales(std::int64_t from, std::int64_t to) {
    weights_.inherit_fp8_scales(plan_.pass(from), plan_.pass(to));
  }
  // Returns the GEMMs that passes with ForwardMode::fp8 compute in FP8: those that numerics.fp8
  // names and this model and GPU have a kernel for.
  Fp8Parts fp8_parts() const { return weights_.fp8_parts(); }
  // What computes the operations of training on [batch, tokens] whose attention spans `context`,
  // "norm:cuda qkv:hopper …".
  std::string kernels(std::int64_t batch, std::int64_t tokens, std::int64_t context) const;

  // Mean cross-entropy in nats over all B·T targets; inputs and targets [B, T] int64 → [] fp32.
  // `documents`: of the inputs, which attention does not cross.
  at::Tensor loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                  const ForwardMode& mode, const std::optional<Documents>& documents = {}) const;
  // Cross-entropy of every target, without a gradient; inputs [B, T], targets [B, S] int64 → [B, S]
  // fp32. S is T, or with `only` the number of these positions: the head and, without `documents`,
  // the last block's queries, attention output and MLP then serve no others. RoPE is at least that
  // of rows of `context` tokens: of the longest one of an evaluation, so that a token's score does
  // not depend on its row. Like loss(), of the weights as of the last cast_weights().
  at::Tensor token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                          const std::optional<Positions>& only = {},
                          const std::optional<Documents>& documents = {},
                          std::int64_t context = 0) const;
  // Cross-entropy of every target, inputs [B, T], targets [B, S] int64 → [B, S] fp32, each row with
  // its own of the adapters, the last B of them, which were made for this stage; attention looks
  // back over the whole row. S is T, or with `only` the number of these positions: the head then
  // serves no others. `context`: as for token_losses(). Autograd reaches the adapters alone,
  // whatever the parameters require: backward() writes these rows of adapters.parameters().grad().
  // In fp16 it scales gradients on the way, for a mean over a row.
  at::Tensor adapted_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                            const LoraAdapters& adapters, const std::optional<Positions>& only = {},
                            std::int64_t context = 0) const;
  // Softcapped logits, without a gradient, of the positions `only`: inputs [B, T] int64 →
  // [B, S, V] fp32. `context`: as for token_losses().
  at::Tensor logits(const at::Tensor& inputs_bt, const Positions& only, std::int64_t context) const;

  // Computes the final states of inputs [B, T] int64, without a gradient, for `observer`, who sees
  // what every matrix multiplies on the way, and the states as the head's operand. Attention looks
  // back over the whole row.
  void observe(const at::Tensor& inputs_bt, const OperandObserver& observer) const;

  // For decoding up to `capacity` tokens of `batch` rows. `context`: that attention spans; 0: all.
  DecodeCache make_cache(std::int64_t batch, std::int64_t capacity, std::int64_t context = 0) const;
  // Appends ids [B, n] int64 to the cache and returns the logits of the token after them,
  // softcapped [B, V] fp32. RoPE is for rows of the cache's context or longer. At most
  // `capacity` tokens in all.
  at::Tensor next_logits(const at::Tensor& ids_bn, DecodeCache& cache) const;

 private:
  // Softcapped, without the padding's columns [..., V] fp32.
  at::Tensor softcapped(const at::Tensor& logits) const;
  at::Tensor multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                              const ForwardMode& mode) const;

  const Numerics numerics_;
  const Plan plan_;
  const ComputeSizes sizes_;
  const ParameterTable& table_;
  WeightCopies weights_;
  const Trunk trunk_;
  // The parameters as constants.
  const ParameterTable frozen_table_;
  WeightCopies frozen_weights_;
  const Trunk frozen_;
  std::size_t stage_ = plan_.stages.size() - 1;
};

}  // namespace tg
