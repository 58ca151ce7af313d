#pragma once
// The GPT of both recipes: one class, whose parts exist or not by the settings.
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
  double scale = 1.0;     // on the loss, and so on every gradient
};

class Gpt {
 public:
  // The parameters stay the caller's; they must outlive the model. Gives the large matrices their
  // gradients, zero, at addresses that stay.
  Gpt(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics);

  // QAT: whether matrices are rounded as the quantiser will. To be followed by cast_weights().
  void set_fake_quant(bool on) { weights_.set_fake_quant(on); }
  // To be called after every change of the parameters: casts them into the copies that GEMMs read.
  void cast_weights() { weights_.cast(); }
  // To be called when gradients are complete: adds those of Q, K and V to the banks'.
  void collect_gradients() { weights_.collect_gradients(); }

  // Mean cross-entropy in nats over all B·T targets; inputs and targets [B, T] int64 → [] fp32.
  at::Tensor loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                  ForwardMode mode) const;
  // Cross-entropy of every target, without a gradient → [B, T] fp32. Like loss(), of the weights
  // as of the last cast_weights().
  at::Tensor token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bt) const;

 private:
  at::Tensor embed(const at::Tensor& inputs_bt) const;
  // The last block's output, normalised [B, T, D].
  at::Tensor final_states(const at::Tensor& inputs_bt) const;
  at::Tensor multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                              double scale) const;
  Weight head() const;
  // The rows of the shared value embedding [B, T, VE_DIM], or undefined.
  at::Tensor value_embedding(const at::Tensor& inputs_bt) const;
  // What a layer makes of them [B, T, KV·hd], or undefined.
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
