#include "model/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <memory>
#include <vector>

#include "model/row_scales.h"
#include "ops/attention/attention.h"
#include "ops/attention/composed_attention.h"
#include "ops/attention/gates/head_gate.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/paired_heads.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/kernels.h"
#include "ops/pad.h"

namespace tg {

namespace {

at::Tensor first_weight(const ValueMix& mix, const ParameterTable& table) {
  const auto weights = table[mix.weights];
  return mix.blend ? weights : weights[0];
}

}  // namespace

Attention::Attention(const Plan& plan, const ComputeSizes& sizes, const ParameterTable& table)
    : plan_(plan), table_(table), padded_(sizes) {}

std::array<at::Tensor, 2> Attention::seen_by(const LayerCall& call, const Qkv& heads,
                                             const PassInputs& pass) const {
  const auto scored = pass.scored(call);
  auto k = heads.k, v = heads.v;
  std::int64_t cached = 0, first = 0;
  if (pass.cache != nullptr) {
    const auto& own = pass.cache->calls[static_cast<std::size_t>(call.index)];
    const auto length = k.size(1);
    cached = pass.cache->length;
    first = pass.cache->segment_begin;
    own.k.narrow(1, cached, length).copy_(k);
    own.v.narrow(1, cached, length).copy_(v);
    k = own.k, v = own.v;
  }
  if (pass.cache == nullptr && !scored) return {k, v};  // a slice's gradient is a copy
  const auto end = cached + (scored ? scored->to : heads.k.size(1));
  return {k.slice(1, first, end), v.slice(1, first, end)};
}

at::Tensor Attention::plain_attention(const LayerCall& call, const at::Tensor& q,
                                      const at::Tensor& k, const at::Tensor& v,
                                      const PassInputs& pass,
                                      const PassedGradientsPtr& passed) const {
  const auto layout = [&](const at::Tensor& x) { return call.paired ? paired_heads(x) : x; };
  const auto qh = layout(q), kh = layout(k), vh = layout(v);
  auto documents = pass.documents;
  if (call.paired && documents) documents = paired_documents(*documents);
  const bool whole = !pass.scored(call) && pass.cache == nullptr;
  assert(whole || !documents);
  const auto y = whole ? causal_attention(qh, kh, vh,
                                          {.channels = plan_.shape.qk_head_dim,
                                           .documents = documents,
                                           .window = call.window,
                                           .passed = passed})
                       : causal_attention_of_last(qh, kh, vh, plan_.shape.qk_head_dim, call.window);
  return call.paired ? unpaired_heads(y) : y;
}

// With scored positions, heads.q holds their queries only.
at::Tensor Attention::attend(const LayerCall& call, const Qkv& heads, const HeadGateInputs& gate,
                             const PassInputs& pass, const PassedGradientsPtr& passed,
                             const TokenHeadWeights& token_weights,
                             const Fp8Scaling& rounding) const {
  const auto tail_rounding = token_weights.defined() ? Fp8Scaling() : rounding;
  const auto exclusive_v =
      call.exclusive ? pass.scored_rows(heads.exclusive_v, call) : at::Tensor();
  const bool whole = !pass.scored(call) && pass.cache == nullptr;
  at::Tensor y;
  if (whole && !call.paired && !token_weights.composes()) {
    y = causal_attention(heads.q, heads.k, heads.v,
                         {.channels = plan_.shape.qk_head_dim,
                          .exclusive_v = exclusive_v,
                          .gate = gate,
                          .rounding = tail_rounding,
                          .documents = pass.documents,
                          .window = call.window,
                          .passed = passed,
                          .reader_passes_delta = !gate.defined()});
  } else {
    const auto [k, v] = seen_by(call, heads, pass);
    // Composed attention adds to the queries' gradient.
    y = plain_attention(call, heads.q, k, v, pass, token_weights.composes() ? nullptr : passed);
    if (token_weights.composes())
      // The kernel of the heads' norms adds the gradients of v and its alias exclusive_v.
      y = y +
          composed_attention(heads.q, k, whole ? heads.exclusive_v : v,
                             {.pre = token_weights.pre,
                              .post = token_weights.post,
                              .scale = 1 / std::sqrt(static_cast<double>(plan_.shape.qk_head_dim)),
                              .window = call.composed_window,
                              .documents = pass.documents});
    y = exclusive_attention(y, exclusive_v, gate, tail_rounding);
  }
  if (!token_weights.defined()) return y;
  return weighted_heads(y, pass.scored_rows(heads.exclusive_v, call), token_weights, passed,
                        rounding);
}

QkvInputs Attention::inputs(const LayerCall& call, const at::Tensor& values,
                            const at::Tensor& first_v, const PassInputs& pass,
                            const PassedGradientsPtr& passed) const {
  const auto& block = plan_.block(call);
  return {.heads = plan_.shape.heads,
          .kv_heads = plan_.shape.kv_heads,
          .q_gain = pass.q_gain.defined() ? pass.q_gain : table_[block.q_gain],
          .value_embedding = values,
          .value_residual = static_cast<bool>(block.value_mix.weights),
          .first_v = first_v,
          .first_weight = first_v.defined() ? first_weight(block.value_mix, table_) : at::Tensor(),
          .channels = plan_.shape.qk_head_dim,
          .key_offset = call.key_offset,
          .contiguous = call.paired,
          .passed = passed};
}

at::Tensor Attention::first_queries(const at::Tensor& n_btd, const Weight& qkv,
                                    const at::Tensor& adapted, std::int64_t count) const {
  const auto channels = [&](std::int64_t first, std::int64_t length) {
    if (adapted.defined()) return adapted.narrow(-1, first, length);
    const auto rows = [&](const at::Tensor& tensor) {
      return tensor.defined() ? tensor.narrow(0, first, length) : tensor;
    };
    return linear(n_btd, {rows(qkv.value), rows(qkv.gradient)});
  };
  // Queries computed by the projection are laid out by qk_runs.
  std::vector<at::Tensor> parts;
  for (std::int64_t channel = 0; channel < count;) {
    const auto in_head = channel % plan_.shape.qk_head_dim;
    const auto run = std::ranges::find_if(padded_.qk_runs, [&](const ChannelRun& candidate) {
      return candidate.from <= in_head && in_head < candidate.from + candidate.count;
    });
    const auto first =
        channel / plan_.shape.qk_head_dim * padded_.head_dim + run->to + in_head - run->from;
    const auto length = std::min(run->from + run->count - in_head, count - channel);
    parts.push_back(channels(first, length));
    channel += length;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, -1);
}

HeadGateInputs Attention::head_gate(const LayerCall& call, const NormedInput& n_btd,
                                    const Weight& qkv, const at::Tensor& adapted,
                                    const PassedGradientsPtr& passed,
                                    const PassInputs& pass) const {
  const auto& [gate, input, window, scale, range] = plan_.block(call).head_gate;
  if (!gate.weight) return {};
  const auto n = pass.scored(call) ? pass.scored_rows(n_btd.rows(), call) : n_btd;
  const auto weight = table_[gate.weight];
  HeadGateInputs gate_inputs{.bias = table_[gate.bias], .scale = scale, .range = range};
  if (input == HeadGate::Input::queries) {
    gate_inputs.x = first_queries(n.rows(), qkv, adapted, weight.size(1));
    gate_inputs.weight = weight;
  } else {
    gate_inputs.x = n;
    gate_inputs.weight = window == 0 ? pad_last(weight, padded_.dim) : weight;
    gate_inputs.passed = passed;
  }
  return gate_inputs;
}

Kernel Attention::choose_qkv(const LayerCall& call, const BlockWeights& weights,
                             const at::Tensor& x, const PassInputs& pass) const {
  return choose_qkv_proj_norm_rope(x, weights.qkv, inputs(call, {}, {}, pass), pass.rope_of(call));
}

NormedForm Attention::input(const LayerCall& call, const BlockWeights& weights, const at::Tensor& x,
                            const PassInputs& pass, Kernel qkv) const {
  const auto& gate = plan_.block(call).head_gate;
  const bool gated = static_cast<bool>(gate.gate.weight);
  const bool gate_reads_all = gate.input == HeadGate::Input::queries || gate.window == 0;
  if (pass.scored(call) || call.adds_values || (gated && gate_reads_all))
    return NormedForm::materialized;
  // The gate cannot read e4m3 rows, and the quantized form has no row scale.
  if (in_fp8(qkv)) return gated ? NormedForm::materialized : NormedForm::quantized;
  // A value embedding's gradient is dv, without the row scale.
  const bool defers = qkv_proj_defers_scale(qkv, x, weights.qkv, inputs(call, {}, {}, pass));
  return defers && !call.value_scale ? NormedForm::deferred_scale : NormedForm::materialized;
}

Attention::Output Attention::forward(const LayerCall& call, const NormedInput& n_btd,
                                     const BlockWeights& weights, at::Tensor values,
                                     const at::Tensor& first_v, const PassInputs& pass,
                                     Kernel qkv_kernel,
                                     const TokenHeadWeights& token_weights) const {
  const auto& block = plan_.block(call);
  if (values.defined() && first_v.defined())
    values = values * own_value_weight(block.value_mix, table_).to(values.scalar_type());
  const auto passed = std::make_shared<PassedGradients>();
  const auto qkv = inputs(call, values, first_v, pass, passed);
  const auto scored = pass.scored(call);
  const auto& rope = pass.rope_of(call);
  LoraPass::Inner inner;
  at::Tensor adapted;  // the projection's output, if it has adapters
  Qkv heads;
  if (pass.loras != nullptr) {
    inner = pass.loras->attention(call, n_btd);
    const auto projected = linear(with_gate_gradient(n_btd.rows(), passed), weights.qkv);
    adapted = pass.loras->add_qkv(call, projected, inner);
    heads = qk_norm_rope(adapted, qkv, rope);
  } else if (scored) {
    heads =
        qkv_proj_norm_rope_of_queries(n_btd, weights.qkv, qkv, rope, scored->from, scored->count());
  } else {
    heads = qkv_proj_norm_rope(n_btd, weights.qkv, qkv, rope, qkv_kernel);
  }
  const auto gate = head_gate(call, n_btd, weights.qkv, adapted, passed, pass);
  const auto of_scored = [&](const at::Tensor& x) {
    return x.defined() ? pass.scored_rows(x, call) : x;
  };
  const TokenHeadWeights scored_weights{.exclusive = of_scored(token_weights.exclusive),
                                        .gate = of_scored(token_weights.gate),
                                        .pre = of_scored(token_weights.pre),
                                        .post = of_scored(token_weights.post)};
  const auto y =
      attend(call, heads, gate, pass, passed, scored_weights, weights.out.fp8.input).flatten(2, 3);
  pass.observe(Operand::qkv, call.block, n_btd);
  pass.observe(Operand::out, call.block, y);
  return {y, heads.first_v, token_weights.defined() ? nullptr : passed, inner};
}

}  // namespace tg
