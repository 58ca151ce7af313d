#pragma once
// The GPT of both recipes: one class, whose settings say which parts exist.
// Letters in shapes: B sequences, T tokens, D MODEL_DIM, V vocabulary, hd head size, KV kv heads.
#include <ATen/ATen.h>

#include <unordered_map>
#include <vector>

#include "config/settings.h"
#include "model/block.h"
#include "model/parameters.h"

namespace tg {

struct ForwardMode {
  bool training = false;  // adds the multi-token heads' losses
  double scale = 1.0;     // multiplies the loss, and so every gradient
};

class Gpt {
 public:
  // The caller owns the parameters, which must outlive the model. Allocates the large matrices'
  // gradients, as zeros, at fixed addresses.
  Gpt(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics);

  // QAT: whether matrices are rounded to the quantiser's levels. Call cast_weights() afterwards.
  void set_fake_quant(bool on) { weights_.set_fake_quant(on); }
  // Casts the parameters into the copies that GEMMs read; call it after every change of them.
  void cast_weights() { weights_.cast(); }
  // Adds the gradients of Q, K and V to the banks'; call it when a step's gradients are complete.
  void collect_gradients() { weights_.collect_gradients(); }

  // Mean cross-entropy in nats over all B·T targets; inputs and targets [B, T] int64 → [] fp32.
  at::Tensor loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                  ForwardMode mode) const;
  // Cross-entropy of every target, without a gradient → [B, T] fp32. Like loss(), with the weights
  // of the last cast_weights().
  at::Tensor token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bt) const;

 private:
  at::Tensor embed(const at::Tensor& inputs_bt) const;
  // The last block's output, normalised [B, T, D].
  at::Tensor final_states(const at::Tensor& inputs_bt) const;
  at::Tensor multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                              double scale) const;
  Weight head() const;
  // The shared value embedding of the inputs [B, T, VE_DIM], or undefined.
  at::Tensor value_embedding(const at::Tensor& inputs_bt) const;
  // A layer's projection of that embedding [B, T, KV·hd], or undefined.
  at::Tensor layer_values(const at::Tensor& embedded, std::int64_t layer) const;
  const RopeTable& rope_table(std::int64_t seq_len, at::Device device) const;

  const ModelConfig config_;
  const Numerics numerics_;
  const ParameterTable& table_;
  WeightCopies weights_;
  std::vector<Block> blocks_;
  mutable std::unordered_map<std::int64_t, RopeTable> rope_tables_;  // by sequence length
};

}  // namespace tg
