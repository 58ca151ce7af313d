#include "model/trunk.h"

#include <algorithm>
#include <utility>

#include "config/derived.h"
#include "ops/embedding/bigram_hash.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/token_embedding.h"
#include "ops/norm/lanes_norm.h"
#include "ops/pad.h"

namespace tg {

Trunk::Trunk(const ModelConfig& config, const Numerics& numerics, const ComputeSizes& sizes,
             const Plan& plan, const ParameterTable& table, const WeightCopies& weights)
    : config_(config),
      numerics_(numerics),
      sizes_(sizes),
      plan_(plan),
      table_(table),
      weights_(weights),
      blocks_(config, plan, sizes, table, weights, numerics.recompute) {}

const RopeTable& Trunk::rope_table(std::int64_t seq_len, std::int64_t context,
                                   at::Device device) const {
  const std::pair key(seq_len, context);
  const auto found = rope_tables_.find(key);
  if (found != rope_tables_.end()) return found->second;
  const RopeOptions options{.dims = config_.rope_dims > 0 ? config_.rope_dims : head_dim(config_),
                            .base = config_.rope_base,
                            .bf16_frequencies = numerics_.record_quirks,
                            .context = context,
                            .trained = numerics_.rope.trained};
  auto [cos, sin] = make_rope_table(seq_len, options, numerics_.compute, at::kCPU);
  // The other channels of a padded half are rotated by 0: cos 1, sin 0.
  if (const auto added = sizes_.half_rope_dims - cos.size(1); added > 0) {
    cos = at::constant_pad_nd(cos, {0, added}, 1);
    sin = at::constant_pad_nd(sin, {0, added});
  }
  // The host waits for the copies: from now on passes on any stream may read them.
  return rope_tables_.emplace(key, RopeTable{cos.to(device), sin.to(device)}).first->second;
}

RopeTable Trunk::rope_rows(const at::Tensor& inputs_bt, const PassInputs& pass,
                           std::int64_t context) const {
  const auto* cache = pass.cache;
  const auto length = inputs_bt.size(1), begin = cache == nullptr ? 0 : cache->length;
  const auto row = cache == nullptr ? std::max(context, length) : cache->capacity;
  auto own = cache == nullptr ? length : cache->context;
  if (pass.documents) own = pass.documents->longest;
  if (numerics_.rope.by_row) own = row;
  const auto spanned = std::max({numerics_.rope.longest, own, context});
  const auto& whole = rope_table(row, spanned, inputs_bt.device());
  if (row == length) return whole;
  const auto of_inputs = [&](const at::Tensor& table) { return table.narrow(0, begin, length); };
  return {of_inputs(whole.cos), of_inputs(whole.sin)};
}

at::Tensor Trunk::embed(const at::Tensor& inputs_bt, const PassInputs& pass) const {
  const auto* cache = pass.cache;
  if (cache == nullptr || !cache->last_ids.defined())
    return embed(inputs_bt, pass.documents ? pass.documents->ends : at::Tensor());
  // The smear reads the token before, whose bigram reads the one before that.
  const auto with_last = at::cat({cache->last_ids, inputs_bt}, 1);
  const auto begin = cache->last_ids.size(1), length = with_last.size(1);
  // Where in these ids the segment of the inputs begins.
  const auto segment = cache->segment_begin - (cache->length - begin);
  at::Tensor ends;
  if (segment > 0) {
    ends = at::full(with_last.sizes(), length, with_last.options().dtype(at::kInt));
    ends.narrow(1, 0, segment).fill_(segment);
  }
  return embed(with_last, ends).narrow(1, begin, inputs_bt.size(1)).contiguous();
}

at::Tensor Trunk::embed(const at::Tensor& inputs_bt, const at::Tensor& document_ends_bt) const {
  const auto& plan = plan_.embedding;
  at::Tensor bigram;
  if (plan.bigrams) {
    const auto rows = bigram_hash(inputs_bt, config_.bigram_vocab_size, document_ends_bt);
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
                          .table_gradient_vd = weights_.table_gradient(),
                          .document_ends_bt = document_ends_bt});
}

at::Tensor Trunk::value_embedding(const at::Tensor& inputs_bt) const {
  const auto table = table_[plan_.value_embedding.table];
  return table.defined() ? embedding_lookup(table, inputs_bt).to(numerics_.compute) : table;
}

at::Tensor Trunk::visit_values(const Visit& visit, const at::Tensor& embedded) const {
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

NormedInput Trunk::final_norm(Stream stream, const PassInputs& pass) const {
  const NormOptions norm{.channels = config_.model_dim,
                         .rounding = weights_.head(pass.fp8).fp8.input};
  if (!stream.lane_weights.defined()) return residual_norm(stream.terms, norm).y;
  // A lane that nothing is of is not read.
  if (plan_.head.lane != FinalLane::mean)
    stream.terms[plan_.head.lane == FinalLane::first ? 1 : 0].tensor.reset();
  return lanes_norm({.terms = stream.terms, .weights = weights_.stream().final_lane()}, {norm})
      .y[0];
}

NormedInput Trunk::final_states(const at::Tensor& inputs_bt, const Pass& visits, PassInputs pass,
                                std::int64_t context) const {
  pass.rope = rope_rows(inputs_bt, pass, context);
  const auto embedded = value_embedding(inputs_bt);
  auto x0 = embed(inputs_bt, pass);
  // Adapters have gradients where nothing before them has: as in training, all that is after x0
  // then has one.
  if (pass.loras != nullptr && at::GradMode::is_enabled()) x0 = x0.detach().requires_grad_();
  Stream stream{.x0 = x0, .terms = {{.tensor = x0}}};
  std::vector<at::Tensor> kept(static_cast<std::size_t>(visits.slots));
  const auto slot = [&](std::int64_t i) -> at::Tensor& {
    return kept[static_cast<std::size_t>(i)];
  };
  for (const auto& visit : visits.visits) {
    if (visit.skip.slot) stream.skip = std::exchange(slot(*visit.skip.slot), {});
    stream.values = visit_values(visit, embedded);
    stream = blocks_.visit(visit, stream, pass);
    if (visit.keep_input) slot(*visit.keep_input) = std::exchange(stream.input, {});
  }
  auto states = final_norm(std::move(stream), pass);
  pass.observe(Operand::head, /*block=*/-1, states);
  return states;
}

Weight Trunk::head(std::int64_t rows, bool fp8) const {
  if (const auto& head = weights_.head(fp8); head.value.defined()) return head;
  return {pad_to(table_[plan_.embedding.tokens], {rows, sizes_.dim}), /*gradient=*/{}};
}

VisitKernels Trunk::choose_kernels(const Visit& visit, const at::Tensor& x, std::int64_t context,
                                   bool fp8) const {
  return blocks_.choose_kernels(visit, x,
                                {.rope = rope_table(x.size(1), context, x.device()), .fp8 = fp8});
}

}  // namespace tg
