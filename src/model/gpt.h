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

// How to compute, apart from what.
struct Numerics {
  at::ScalarType compute = at::kFloat;  // activations and products
  bool record_quirks = false;           // the scripts' rounding of RoPE frequencies and their QAT
};

struct ForwardMode {
  bool training = false;    // adds the multi-token heads' losses
  bool fake_quant = false;  // QAT: weights as the quantiser will round them
};

class Gpt {
 public:
  // The parameters stay the caller's; they must outlive the model.
  Gpt(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics);

  // Mean cross-entropy in nats over all B·T targets; inputs and targets [B, T] int64 → [] fp32.
  at::Tensor loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                  ForwardMode mode) const;
  // Cross-entropy of every target, without a gradient → [B, T] fp32.
  at::Tensor token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bt) const;

 private:
  at::Tensor embed(const at::Tensor& inputs_bt, bool fake_quant) const;
  at::Tensor final_states(const at::Tensor& inputs_bt, bool fake_quant) const;
  at::Tensor logits(const at::Tensor& states, const at::Tensor& head, bool fake_quant) const;
  at::Tensor multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                              bool fake_quant) const;
  std::vector<LayerWeights> layer_weights(bool fake_quant) const;
  // The shared value embedding [B, T, KV·hd], or undefined.
  at::Tensor value_embedding(const at::Tensor& inputs_bt, bool fake_quant) const;
  at::Tensor weight(const at::Tensor& parameter, bool fake_quant) const;
  const RopeTable& rope_table(std::int64_t seq_len, at::Device device) const;

  const ModelConfig config_;
  const Numerics numerics_;
  const ParameterTable& table_;
  std::vector<Block> blocks_;
  mutable std::unordered_map<std::int64_t, RopeTable> rope_tables_;  // by sequence length
};

}  // namespace tg
