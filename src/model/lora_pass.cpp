#include "model/lora_pass.h"

#include <cassert>

#include "model/row_scales.h"

namespace tg {

namespace {

// Scale of the output that the adapter adds to, [out] or [1]; undefined: 1.
at::Tensor scale_of(LoraKind kind, const LayerCall& call, const Plan& plan,
                    const ParameterTable& table) {
  const auto& block = plan.block(call);
  const bool first = call.index == plan.all_calls().front().index;
  if (kind == LoraKind::values && block.value_mix.weights && !first)
    return own_value_weight(block.value_mix, table).view({1});
  if (kind == LoraKind::out) return table[block.attn_scale];
  if (kind == LoraKind::mlp) return table[block.mlp_scale];
  return {};
}

}  // namespace

LoraPass::LoraPass(const LoraAdapters& adapters, std::int64_t rows, const Pass& stage,
                   const Plan& plan, const ParameterTable& table, const ComputeSizes& sizes,
                   at::ScalarType compute, double grad_scale)
    : shape_(plan.shape), sizes_(sizes), scale_(adapters.scale()), rank_(adapters.rank()) {
  const at::NoGradGuard no_grad;
  assert(adapters.calls().size() == stage.calls.size() && rows <= adapters.rows());
  const auto& leaf = adapters.parameters();
  const auto values = leaf.detach().to(compute);
  const auto rows_of = [&](const FlatPart& part, const at::Tensor& flat) {
    return part.view(flat).slice(0, adapters.rows() - rows);
  };
  const auto weight = [&](const FlatPart& part, const at::Tensor& row_scale) {
    BatchedWeight batched{rows_of(part, values), rows_of(part, leaf.grad()), leaf, row_scale,
                          grad_scale};
    if (row_scale.defined())
      batched.value = (rows_of(part, leaf.detach()) * row_scale.unsqueeze(-1)).to(compute);
    return batched;
  };
  const auto group = [&](const LoraGroup& from, const auto& scale) {
    Group cast;
    if (!from.adapters.empty()) cast.a = weight(from.a, {});
    for (const auto& [kind, b] : from.adapters) {
      cast.kinds.push_back(kind);
      cast.b.push_back(weight(b, scale(kind)));
    }
    return cast;
  };
  head_ = group(adapters.head(), [](LoraKind) { return at::Tensor(); });
  calls_.resize(plan.all_calls().size());
  for (std::size_t i = 0; i < stage.calls.size(); ++i) {
    const auto& call = stage.calls[i];
    const auto& [attention, mlp] = adapters.calls()[i];
    const auto scale = [&](LoraKind kind) { return scale_of(kind, call, plan, table); };
    calls_[static_cast<std::size_t>(call.index)] = {group(attention, scale), group(mlp, scale)};
  }
}

at::Tensor LoraPass::multiply_a(const Group& group, const NormedInput& x_btd) const {
  const auto& x = x_btd.tensor();
  const auto width = shape_.dim;
  // Narrowing to the full width would still copy in the backward pass.
  const auto inner =
      batched_linear(x.size(-1) == width ? x : x.narrow(-1, 0, width), group.a, scale_);
  const auto& row_scale = x_btd.row_scale();
  return row_scale.defined() ? NormedInput::deferred_scale(inner, row_scale).rows() : inner;
}

LoraPass::Inner LoraPass::attention(const LayerCall& call, const NormedInput& n_btd) const {
  return multiply_a(groups(call).attention, n_btd).split(rank_, -1);
}

LoraPass::HeadsLayout LoraPass::heads_of(LoraKind kind) const {
  const auto heads = shape_.heads, kv_heads = shape_.kv_heads;
  switch (kind) {
    case LoraKind::queries:
      return {0, heads, sizes_.qk_runs};
    case LoraKind::keys:
      return {heads, kv_heads, sizes_.qk_runs};
    default:
      return {heads + kv_heads, kv_heads, sizes_.v_runs};
  }
}

at::Tensor LoraPass::add_heads(const at::Tensor& y, const HeadsLayout& layout,
                               const at::Tensor& inner, const BatchedWeight& b) const {
  const auto first = layout.first * sizes_.head_dim, width = layout.count * sizes_.head_dim;
  if (b.value.size(1) == width && layout.runs.size() == 1)
    return add_batched_linear(y, first, inner, b);
  const auto heads = batched_linear(inner, b).unflatten(-1, {layout.count, -1});
  at::Tensor padded;
  for (const auto& [from, to, count] : layout.runs) {
    const auto run =
        at::constant_pad_nd(heads.narrow(-1, from, count), {to, sizes_.head_dim - to - count});
    padded = padded.defined() ? padded + run : run;
  }
  return y + at::constant_pad_nd(padded.flatten(-2), {first, y.size(-1) - first - width});
}

at::Tensor LoraPass::add_qkv(const LayerCall& call, const at::Tensor& y, const Inner& inner) const {
  const auto& group = groups(call).attention;
  auto sum = y;
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const auto kind = group.kinds[i];
    if (kind != LoraKind::out) sum = add_heads(sum, heads_of(kind), inner[i], group.b[i]);
  }
  return sum;
}

bool LoraPass::adapts_out(const LayerCall& call) const {
  return groups(call).attention.kinds.back() == LoraKind::out;
}

at::Tensor LoraPass::add_out(const LayerCall& call, const at::Tensor& y, const Inner& inner) const {
  return adapts_out(call) ? add_batched_linear(y, 0, inner.back(), groups(call).attention.b.back())
                          : y;
}

at::Tensor LoraPass::add_mlp(const LayerCall& call, const at::Tensor& y,
                             const NormedInput& x_btd) const {
  const auto& group = groups(call).mlp;
  return group.a.defined() ? add_batched_linear(y, 0, multiply_a(group, x_btd), group.b[0]) : y;
}

at::Tensor LoraPass::add_head(const at::Tensor& y, const NormedInput& x_btd) const {
  return add_batched_linear(y, 0, multiply_a(head_, x_btd), head_.b[0]);
}

}  // namespace tg
