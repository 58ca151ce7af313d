#include "model/gpt.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/check.h"
#include "ops/bigram_hash.h"
#include "ops/rms_norm.h"
#include "ops/smear.h"
#include "ops/softcap_cross_entropy.h"

namespace tg {

Gpt::Gpt(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics)
    : config_(config), numerics_(numerics), table_(table), weights_(config, table, numerics) {
  for (std::int64_t i = 0; i < config_.num_layers; ++i) blocks_.emplace_back(config_, table_, i);
}

const RopeTable& Gpt::rope_table(std::int64_t seq_len, at::Device device) const {
  const auto found = rope_tables_.find(seq_len);
  if (found != rope_tables_.end()) return found->second;
  const RopeOptions options{.dims = config_.rope_dims > 0 ? config_.rope_dims : head_dim(config_),
                            .base = config_.rope_base,
                            .bf16_frequencies = numerics_.record_quirks};
  return rope_tables_.emplace(seq_len, make_rope_table(seq_len, options, numerics_.compute, device))
      .first->second;
}

at::Tensor Gpt::embed(const at::Tensor& inputs_bt) const {
  const auto dtype = numerics_.compute;
  auto x = at::embedding(table_["tok_emb.weight"], inputs_bt).to(dtype);
  if (config_.bigram_vocab_size > 0) {
    const auto rows = bigram_hash(inputs_bt, config_.bigram_vocab_size);
    auto bigram = at::embedding(table_["bigram.embed.weight"], rows).to(dtype);
    const auto projection = table_.find("bigram.proj.weight");
    if (projection.defined()) bigram = at::linear(bigram, weights_.small(projection));
    x = x + bigram * table_["bigram.scale"].to(dtype);
  }
  x = rms_norm(x);
  const auto gate = table_.find("smear.gate");
  return gate.defined() ? smear(x, gate) : x;
}

at::Tensor Gpt::value_embedding(const at::Tensor& inputs_bt) const {
  const auto embed = table_.find("ve_shared.embed.weight");
  if (!embed.defined()) return {};
  auto values = at::embedding(embed, inputs_bt).to(numerics_.compute);
  const auto projection = table_.find("ve_shared.proj.weight");
  if (projection.defined()) values = at::linear(values, weights_.small(projection));
  return values * table_["ve_shared.scale"].to(numerics_.compute);
}

at::Tensor Gpt::final_states(const at::Tensor& inputs_bt) const {
  const auto& rope = rope_table(inputs_bt.size(1), inputs_bt.device());
  const auto values = value_embedding(inputs_bt);
  const auto skip_weights = table_.find("skip_weights");
  const std::int64_t pushing = config_.num_layers / 2;  // the first half pushes, the rest adds

  const auto x0 = embed(inputs_bt);
  auto x = x0;
  at::Tensor first_v;
  std::vector<at::Tensor> skips;
  for (std::int64_t i = 0; i < config_.num_layers; ++i) {
    if (skip_weights.defined() && i >= pushing && !skips.empty()) {
      x = x + skip_weights[i - pushing].to(x.scalar_type()) * skips.back();
      skips.pop_back();
    }
    at::Tensor layer_values;
    const auto ve = std::find(config_.ve_layers.begin(), config_.ve_layers.end(), i);
    if (values.defined() && ve != config_.ve_layers.end()) {
      const auto index = ve - config_.ve_layers.begin();
      layer_values = values * table_[fmt::format("ve_layer_scales.{}", index)].to(x.scalar_type());
    }
    auto out = blocks_[i].forward(x, x0, weights_.layer(i), rope, layer_values, first_v);
    x = out.x;
    if (i == 0) first_v = out.v;
    if (i < pushing) skips.push_back(x);
  }
  return rms_norm(x);
}

Weight Gpt::head() const {
  if (!config_.tie_embeddings) return weights_.head();
  return {table_["tok_emb.weight"].to(numerics_.compute), /*gradient=*/{}};
}

at::Tensor Gpt::multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                                 double scale) const {
  at::Tensor sum;
  for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) {
    // Head k predicts the token k + 2 places after its input.
    const auto length = states_btd.size(1) - (k + 1);
    const auto z =
        linear(states_btd.narrow(1, 0, length), weights_.mtp_heads()[static_cast<std::size_t>(k)]);
    const auto targets = targets_bt.narrow(1, k + 1, length).flatten();
    const auto loss =
        softcap_cross_entropy(z.flatten(0, 1), targets, config_.logit_softcap) * scale;
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

at::Tensor Gpt::head_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                          ForwardMode mode) const {
  const auto z = linear(states_btd, head()).flatten(0, 1);
  auto loss = softcap_cross_entropy(z, targets_bt.flatten(), config_.logit_softcap) * mode.scale;
  if (mode.training && config_.mtp_num_heads > 0 && config_.mtp_loss_weight > 0) {
    const double share = config_.mtp_loss_weight / static_cast<double>(config_.mtp_num_heads);
    loss = loss + multi_token_loss(states_btd, targets_bt, mode.scale * share);
  }
  return loss;
}

at::Tensor Gpt::token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bt) const {
  const at::NoGradGuard no_grad;
  const auto z = linear(final_states(inputs_bt), head()).flatten(0, 1);
  return softcap_nll(z, targets_bt.flatten(), config_.logit_softcap).view_as(targets_bt);
}

}  // namespace tg
