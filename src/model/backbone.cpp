#include "model/backbone.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/embedding/bigram_hash.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/token_embedding.h"
#include "ops/pad.h"

namespace tg {

const Backbone::RopeTables& Backbone::rope_tables(const Pass& calls, std::int64_t seq_len,
                                                  std::int64_t context, at::Device device) const {
  const auto& frequencies = calls.rope_frequencies;
  const void* const own = frequencies.defined() ? frequencies.const_data_ptr() : nullptr;
  const bool paired = std::ranges::any_of(calls.calls, &LayerCall::paired);
  const std::tuple key(own, paired, seq_len, context);
  const auto found = rope_tables_.find(key);
  if (found != rope_tables_.end()) return found->second;
  const RopeOptions options{.dims = plan_.shape.rope_dims,
                            .base = plan_.rope_base,
                            .bf16_frequencies = numerics_.record_quirks,
                            .context = context,
                            .trained = numerics_.rope.trained,
                            .frequencies = frequencies,
                            .interleaved = plan_.rope_interleaved};
  const auto on_device = [&](RopeTable table) {
    // The padding of a half is not rotated: cos 1, sin 0.
    if (const auto added = sizes_.half_rope_dims - table.cos.size(-1); added > 0) {
      table.cos = at::constant_pad_nd(table.cos, {0, added}, 1);
      table.sin = at::constant_pad_nd(table.sin, {0, added});
    }
    // The copies synchronize with the host, so that passes on any stream may read them.
    return RopeTable{table.cos.to(device), table.sin.to(device), table.interleaved};
  };
  RopeTables tables{
      .plain = on_device(make_rope_table(seq_len, options, numerics_.compute, at::kCPU)),
      .paired = {}};
  if (paired)
    tables.paired =
        on_device(make_paired_rope_table(seq_len, options, numerics_.compute, at::kCPU));
  return rope_tables_.emplace(key, tables).first->second;
}

Backbone::RopeTables Backbone::rope_rows(const Pass& calls, const at::Tensor& inputs_bt,
                                         const PassInputs& pass, std::int64_t context) const {
  const auto* cache = pass.cache;
  const auto length = inputs_bt.size(1), begin = cache == nullptr ? 0 : cache->length;
  const auto row = cache == nullptr ? std::max(context, length) : cache->capacity;
  auto own = cache == nullptr ? length : cache->context;
  if (pass.documents) own = pass.documents->longest;
  if (numerics_.rope.by_row) own = row;
  const auto spanned = std::max({numerics_.rope.longest, own, context});
  const auto& whole = rope_tables(calls, row, spanned, inputs_bt.device());
  if (row == length) return whole;
  return {.plain = whole.plain.narrow(begin, length),
          .paired = whole.paired.cos.defined() ? whole.paired.narrow(begin, length) : RopeTable{}};
}

at::Tensor Backbone::q_gain(const Pass& calls, at::Device device) const {
  if (calls.attention_scale == 0) return {};
  auto& gain = q_gains_[calls.attention_scale];
  if (!gain.defined()) {
    const double by_default = 1 / std::sqrt(static_cast<double>(plan_.shape.qk_head_dim));
    const auto dtype = numerics_.compute == at::kDouble ? at::kDouble : at::kFloat;
    gain = at::full({plan_.shape.heads}, calls.attention_scale / by_default,
                    at::TensorOptions(device).dtype(dtype));
  }
  return gain;
}

at::Tensor Backbone::embed(const at::Tensor& inputs_bt, const PassInputs& pass) const {
  const auto* cache = pass.cache;
  if (cache == nullptr || !cache->last_ids.defined())
    return embed(inputs_bt, pass.documents ? pass.documents->ends : at::Tensor(), pass.id_order);
  // The smear reads the previous token, whose bigram reads the one before.
  const auto with_last = at::cat({cache->last_ids, inputs_bt}, 1);
  const auto begin = cache->last_ids.size(1), length = with_last.size(1);
  // Index in `with_last` of the first token of the inputs' segment.
  const auto segment = cache->segment_begin - (cache->length - begin);
  at::Tensor ends;
  if (segment > 0) {
    ends = at::full(with_last.sizes(), length, with_last.options().dtype(at::kInt));
    ends.narrow(1, 0, segment).fill_(segment);
  }
  return embed(with_last, ends, /*id_order=*/{}).narrow(1, begin, inputs_bt.size(1)).contiguous();
}

at::Tensor Backbone::embed(const at::Tensor& inputs_bt, const at::Tensor& document_ends_bt,
                           std::shared_ptr<IdOrder> id_order) const {
  const auto& plan = plan_.embedding;
  at::Tensor bigram;
  if (plan.bigrams) {
    const auto rows = bigram_hash(inputs_bt, table_[plan.bigrams].size(0), document_ends_bt);
    bigram = embedding_lookup(table_[plan.bigrams], rows).to(numerics_.compute);
    if (plan.bigram_projection) {
      const auto weight = weights_.small(table_[plan.bigram_projection]);
      bigram = linear(bigram, {pad_to(weight, {sizes_.dim, weight.size(1)}), {}});
    }
  }
  return token_embedding(
      {.table_vd = pad_last(table_[plan.tokens], sizes_.dim),
       .ids_bt = inputs_bt,
       .bigram_btd = pad_last(bigram, sizes_.dim),
       .bigram_scale = table_[plan.bigram_scale],
       .smear_gate_d = pad_last(table_[plan.smear_gate], sizes_.dim),
       .channels = plan_.shape.dim,
       .dtype = numerics_.compute,
       .gated_smear = {.weight_1w = table_[plan.gated_smear_weight],
                       .lambda_1 = table_[plan.gated_smear_lambda],
                       .bos_id =
                           plan.smears_across_documents ? SmearGate::kNoBos : numerics_.bos_id},
       .table_gradient_vd = weights_.table_gradient(plan.tokens),
       .document_ends_bt = document_ends_bt,
       .id_order = std::move(id_order)});
}

NormedInput Backbone::final_states(const at::Tensor& inputs_bt, const Pass& calls, PassInputs pass,
                                   std::int64_t context) const {
  const auto [rope, paired_rope] = rope_rows(calls, inputs_bt, pass, context);
  pass.rope = rope;
  pass.paired_rope = paired_rope;
  pass.q_gain = q_gain(calls, inputs_bt.device());
  pass.id_order = std::make_shared<IdOrder>();
  auto x0 = embed(inputs_bt, pass);
  // Adapters require gradients where nothing before them does: makes everything after x0 require
  // one, as in training.
  if (pass.loras != nullptr && at::GradMode::is_enabled()) x0 = x0.detach().requires_grad_();
  auto states = plan_.flow(*this, calls, pass, inputs_bt, x0);
  pass.observe(Operand::head, /*block=*/-1, states);
  return states;
}

Weight Backbone::head(std::int64_t rows, bool fp8) const {
  if (const auto& head = weights_.head(fp8); head.value.defined()) return head;
  return {pad_to(table_[plan_.embedding.tokens], {rows, sizes_.dim}), /*gradient=*/{}};
}

LayerKernels Backbone::choose_kernels(const Pass& calls, const at::Tensor& x, std::int64_t context,
                                      bool fp8) const {
  const auto& rope = rope_tables(calls, x.size(1), context, x.device());
  return Layers::choose_kernels(calls.calls.front(), x,
                                {.rope = rope.plain,
                                 .paired_rope = rope.paired,
                                 .q_gain = q_gain(calls, x.device()),
                                 .fp8 = fp8});
}

}  // namespace tg
