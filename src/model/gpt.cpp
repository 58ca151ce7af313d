#include "model/gpt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "config/derived.h"
#include "model/recipe.h"
#include "ops/embedding/bigram_hash.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/token_embedding.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/norm/lanes_norm.h"
#include "ops/pad.h"

namespace tg {

Gpt::Gpt(const ModelConfig& config, const ParameterTable& table, const Numerics& numerics)
    : Gpt(config, make_recipe(config).plan, table, numerics) {}

Gpt::Gpt(const ModelConfig& config, Plan plan, const ParameterTable& table,
         const Numerics& numerics)
    : config_(config),
      numerics_(numerics),
      sizes_(compute_sizes(config, numerics.padding)),
      plan_(std::move(plan)),
      table_(table),
      weights_(config_, plan_, table_, numerics_),
      blocks_(config_, plan_, sizes_, table_, weights_, numerics_.recompute) {}

std::string Gpt::kernels(std::int64_t batch, std::int64_t tokens, std::int64_t context) const {
  const at::AutoGradMode as_in_training(true);
  // Rows without memory: only their shape, dtype and device count.
  const auto x = at::empty({1, 1, 1}, table_[plan_.embedding.tokens].options())
                     .to(numerics_.compute)
                     .expand({batch, tokens, sizes_.dim});
  const bool fp8 = fp8_parts().any();
  const PassInputs pass{.rope = rope_table(tokens, context, x.device()), .fp8 = fp8};
  const auto visit = blocks_.choose_kernels(this->pass().visits.front(), x, pass);
  const auto head = choose_linear_cross_entropy(x.flatten(0, 1), this->head(sizes_.vocab, fp8),
                                                config_.logit_softcap);
  return fmt::format("norm:{} qkv:{} out:{} mlp:{} head:{}", kernel_name(choose_residual_norm(x)),
                     kernel_name(visit.qkv), kernel_name(visit.out), kernel_name(visit.mlp),
                     kernel_name(head));
}

const RopeTable& Gpt::rope_table(std::int64_t seq_len, std::int64_t context,
                                 at::Device device) const {
  const std::pair key(seq_len, context);
  const auto found = rope_tables_.find(key);
  if (found != rope_tables_.end()) return found->second;
  const RopeOptions options{.dims = config_.rope_dims > 0 ? config_.rope_dims : head_dim(config_),
                            .base = config_.rope_base,
                            .bf16_frequencies = numerics_.record_quirks,
                            .context = context,
                            .trained = numerics_.rope.trained};
  auto table = make_rope_table(seq_len, options, numerics_.compute, device);
  // The other channels of a padded half are rotated by 0: cos 1, sin 0.
  if (const auto added = sizes_.half_rope_dims - table.cos.size(1); added > 0) {
    table = {at::constant_pad_nd(table.cos, {0, added}, 1),
             at::constant_pad_nd(table.sin, {0, added})};
  }
  return rope_tables_.emplace(key, table).first->second;
}

RopeTable Gpt::rope_rows(const at::Tensor& inputs_bt, const PassInputs& pass,
                         std::int64_t context) const {
  const auto* cache = pass.cache;
  const auto length = inputs_bt.size(1), begin = cache == nullptr ? 0 : cache->length;
  const auto row = cache == nullptr ? std::max(context, length) : cache->capacity;
  auto spanned = cache == nullptr ? row : cache->context;
  if (pass.documents) spanned = pass.documents->longest;
  if (numerics_.rope.longest > 0) spanned = std::max(numerics_.rope.longest, row);
  const auto& whole = rope_table(row, spanned, inputs_bt.device());
  if (row == length) return whole;
  const auto of_inputs = [&](const at::Tensor& table) { return table.narrow(0, begin, length); };
  return {of_inputs(whole.cos), of_inputs(whole.sin)};
}

at::Tensor Gpt::embed(const at::Tensor& inputs_bt, const DecodeCache* cache) const {
  if (cache != nullptr && cache->last_ids.defined()) {
    // The smear reads the token before, whose bigram reads the one before that.
    const auto with_last = at::cat({cache->last_ids, inputs_bt}, 1);
    const auto begin = cache->last_ids.size(1);
    return embed(with_last, nullptr).narrow(1, begin, inputs_bt.size(1)).contiguous();
  }
  const auto& plan = plan_.embedding;
  at::Tensor bigram;
  if (plan.bigrams) {
    const auto rows = bigram_hash(inputs_bt, config_.bigram_vocab_size);
    bigram = embedding_lookup(table_[plan.bigrams], rows).to(numerics_.compute);
    if (plan.bigram_projection) {
      const auto weight = weights_.small(table_[plan.bigram_projection]);
      bigram = linear(bigram, {pad_to(weight, {sizes_.dim, weight.size(1)}), {}});
    }
  }
  return token_embedding({.table_vd = pad_last(table_[plan.tokens], sizes_.dim),
                          .ids_bt = inputs_bt,
                          .bigram_btd = pad_last(bigram, sizes_.dim),
                          .bigram_scale = table_[plan.bigram_scale],
                          .smear_gate_d = pad_last(table_[plan.smear_gate], sizes_.dim),
                          .channels = config_.model_dim,
                          .dtype = numerics_.compute,
                          .gated_smear = {.weight_1w = table_[plan.gated_smear_weight],
                                          .lambda_1 = table_[plan.gated_smear_lambda],
                                          .bos_id = numerics_.bos_id},
                          .table_gradient_vd = weights_.table_gradient()});
}

at::Tensor Gpt::value_embedding(const at::Tensor& inputs_bt) const {
  const auto table = table_[plan_.value_embedding.table];
  return table.defined() ? embedding_lookup(table, inputs_bt).to(numerics_.compute) : table;
}

at::Tensor Gpt::visit_values(const Visit& visit, const at::Tensor& embedded) const {
  if (!visit.value_scale) return {};
  const auto& plan = plan_.value_embedding;
  const auto scale = table_[plan.scale] * table_[visit.value_scale];
  const auto kv_heads = config_.num_kv_heads, head = sizes_.head_dim;
  if (!plan.projection) {
    // In fp32, as the scale's gradient, a sum over all tokens.
    const auto scaled = (embedded.to(scale.scalar_type()) * scale).to(numerics_.compute);
    return pad_heads(scaled, -1, kv_heads, head);
  }
  // Scales the small matrix rather than its output for every token.
  const auto weight = pad_heads(weights_.small(table_[plan.projection]) * scale, 0, kv_heads, head);
  return linear(embedded, {weight, {}});
}

NormedInput Gpt::final_norm(Stream stream, const PassInputs& pass) const {
  const NormOptions norm{.channels = config_.model_dim,
                         .rounding = weights_.head(pass.fp8).fp8.input};
  if (!stream.lane_weights.defined()) return residual_norm(stream.terms, norm).y;
  // A lane that nothing is of is not read.
  if (plan_.head.lane != FinalLane::mean)
    stream.terms[plan_.head.lane == FinalLane::first ? 1 : 0].tensor.reset();
  return lanes_norm({.terms = stream.terms, .weights = weights_.stream().final_lane()}, {norm})
      .y[0];
}

NormedInput Gpt::final_states(const at::Tensor& inputs_bt, PassInputs pass,
                              std::int64_t context) const {
  pass.rope = rope_rows(inputs_bt, pass, context);
  const auto embedded = value_embedding(inputs_bt);
  const auto x0 = embed(inputs_bt, pass.cache);
  Stream stream{.x0 = x0, .terms = {{.tensor = x0}}};
  std::vector<at::Tensor> kept(static_cast<std::size_t>(this->pass().slots));
  const auto slot = [&](std::int64_t i) -> at::Tensor& {
    return kept[static_cast<std::size_t>(i)];
  };
  for (const auto& visit : this->pass().visits) {
    if (visit.skip.slot) stream.skip = std::exchange(slot(*visit.skip.slot), {});
    stream.values = visit_values(visit, embedded);
    stream = blocks_.visit(visit, stream, pass);
    if (visit.keep_input) slot(*visit.keep_input) = std::exchange(stream.input, {});
  }
  auto states = final_norm(std::move(stream), pass);
  pass.observe(Operand::head, /*block=*/-1, states);
  return states;
}

Weight Gpt::head(std::int64_t rows, bool fp8) const {
  if (const auto& head = weights_.head(fp8); head.value.defined()) return head;
  return {pad_to(table_[plan_.embedding.tokens], {rows, sizes_.dim}), /*gradient=*/{}};
}

at::Tensor Gpt::multi_token_loss(const at::Tensor& states_btd, const at::Tensor& targets_bt,
                                 const ForwardMode& mode) const {
  const double share = config_.mtp_loss_weight / static_cast<double>(config_.mtp_num_heads);
  at::Tensor sum;
  for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) {
    // Head k predicts the token k + 2 places after its input.
    const auto length = states_btd.size(1) - (k + 1);
    const auto loss = linear_cross_entropy(states_btd.narrow(1, 0, length).flatten(0, 1),
                                           weights_.mtp_heads()[static_cast<std::size_t>(k)],
                                           targets_bt.narrow(1, k + 1, length).flatten(),
                                           {.cap = config_.logit_softcap,
                                            .scale = mode.scale * share,
                                            .vocab = config_.vocab_size,
                                            .grad_scale = mode.grad_scale});
    sum = sum.defined() ? sum + loss : loss;
  }
  return sum;
}

at::Tensor Gpt::loss(const at::Tensor& inputs_bt, const at::Tensor& targets_bt,
                     const ForwardMode& mode, const std::optional<Documents>& documents) const {
  const auto states = final_states(inputs_bt, {.fp8 = mode.fp8, .documents = documents});
  auto loss =
      linear_cross_entropy(states.flat(), head(sizes_.vocab, mode.fp8), targets_bt.flatten(),
                           {.cap = config_.logit_softcap,
                            .scale = mode.scale,
                            .vocab = config_.vocab_size,
                            .grad_scale = mode.grad_scale});
  if (mode.auxiliary_losses && config_.mtp_num_heads > 0 && config_.mtp_loss_weight > 0) {
    loss = loss + multi_token_loss(states.rows(), targets_bt, mode);
  }
  return loss;
}

at::Tensor Gpt::token_losses(const at::Tensor& inputs_bt, const at::Tensor& targets_bs,
                             const std::optional<Positions>& only,
                             const std::optional<Documents>& documents) const {
  const at::NoGradGuard no_grad;
  auto states =
      final_states(inputs_bt, {.only = documents ? std::nullopt : only, .documents = documents});
  if (documents && only) states = states.rows().narrow(1, only->from, only->count()).contiguous();
  const auto z = linear(states, head(sizes_.vocab)).flatten(0, 1);
  return softcap_nll(z, targets_bs.flatten(), config_.logit_softcap, config_.vocab_size)
      .view(targets_bs.sizes());
}

at::Tensor Gpt::softcapped(const at::Tensor& logits) const {
  const auto z = logits.narrow(-1, 0, config_.vocab_size).to(at::kFloat);
  return config_.logit_softcap * (z / config_.logit_softcap).tanh();
}

at::Tensor Gpt::logits(const at::Tensor& inputs_bt, const Positions& only,
                       std::int64_t context) const {
  const at::NoGradGuard no_grad;
  const auto states = final_states(inputs_bt, {.only = only}, context);
  return softcapped(linear(states, head(sizes_.vocab)));
}

void Gpt::observe(const at::Tensor& inputs_bt, const OperandObserver& observer) const {
  const at::NoGradGuard no_grad;
  final_states(inputs_bt, {.observer = &observer});
}

DecodeCache Gpt::make_cache(std::int64_t batch, std::int64_t capacity, std::int64_t context) const {
  DecodeCache cache{.capacity = capacity, .context = context == 0 ? capacity : context};
  const auto options = table_[plan_.matrices.keys.bank].options().dtype(numerics_.compute);
  const auto empty = [&] {
    return at::empty({batch, capacity, config_.num_kv_heads, sizes_.head_dim},
                     options.requires_grad(false));
  };
  cache.visits.resize(plan_.stages.back().visits.size());
  for (const auto& visit : this->pass().visits)
    cache.visits[static_cast<std::size_t>(visit.index)] = {empty(), empty()};
  return cache;
}

at::Tensor Gpt::next_logits(const at::Tensor& ids_bn, DecodeCache& cache) const {
  const at::NoGradGuard no_grad;
  const auto count = ids_bn.size(1);
  assert(count > 0 && cache.length + count <= cache.capacity);
  const auto states = final_states(ids_bn, {.only = Positions{count - 1, count}, .cache = &cache});
  cache.add(ids_bn);
  // Memory-bound: a padded copy of the table would cost more than it gains.
  return softcapped(linear(states, head(config_.vocab_size)).squeeze(1));
}

}  // namespace tg
