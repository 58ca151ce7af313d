#include "ops/attention/qk_norm_rope.h"

#include <torch/csrc/autograd/custom_function.h>

#include <limits>

#include "ops/attention/head_vectors.h"
#include "ops/norm/rms_norm.h"
#include "ops/operands.h"

namespace tg {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Whether nobody else will see what is written to x.
bool is_own(const at::Tensor& x) {
  return x.defined() && x.use_count() == 1 && x.storage().use_count() == 1 && is_packed(x);
}

// A packed projection as [B, T, heads + 2·KV, hd], and its last part.
at::Tensor packed_heads(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads) {
  return qkv.unflatten(-1, {heads + 2 * kv_heads, -1});
}
at::Tensor own_values(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads) {
  return packed_heads(qkv, heads, kv_heads).narrow(2, heads + kv_heads, kv_heads);
}

struct FusedAttentionHeads : torch::autograd::Function<FusedAttentionHeads> {
  static cuda::HeadOperands operands(const at::Tensor& qkv, const at::Tensor& inverse_rms,
                                     const at::Tensor& cos, const at::Tensor& sin,
                                     const at::Tensor& q_gain, const at::Tensor& embedding,
                                     const at::Tensor& first_v, const at::Tensor& lambda) {
    return {.qkv = read(qkv),
            .inverse_rms = read_fp32(inverse_rms),
            .cos = read(cos),
            .sin = read(sin),
            .q_gain = read_fp32(q_gain),
            .embedding = head_vectors(embedding),
            .first_v = head_vectors(first_v),
            .lambda = read_fp32(lambda),
            .lambdas = lambda.defined() ? static_cast<int>(lambda.numel()) : 0};
  }

  // With `inverse_rms` q and k stand in qkv already as they shall be.
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv,
                               const Operand& inverse_rms, const at::Tensor& cos,
                               const at::Tensor& sin, const Operand& q_gain,
                               const Operand& embedding, const Operand& first_v,
                               const Operand& lambda, std::int64_t heads, std::int64_t kv_heads) {
    const auto shape = head_shape(qkv, cos, heads, kv_heads);
    context->set_materialize_grads(false);
    // own = v + embedding is needed again for dλ alone.
    context->save_for_backward({qkv, cos, sin, given(q_gain),
                                first_v ? given(embedding) : at::Tensor(), given(first_v),
                                given(lambda), given(inverse_rms)});
    context->saved_data["heads"] = heads;
    context->saved_data["kv_heads"] = kv_heads;
    context->saved_data["embedded"] = embedding.has_value();

    const auto head_tensor = [&](std::int64_t count) {
      return at::empty({qkv.size(0), qkv.size(1), count, shape.head_dim}, qkv.options());
    };
    // Without autograd's knowledge: no view of its, but an output of this function.
    const auto part = [&](std::int64_t first, std::int64_t count) {
      return packed_heads(qkv, heads, kv_heads).narrow(2, first, count).variable_data();
    };
    const bool turned = inverse_rms.has_value(), mixed = embedding || first_v;
    auto q = turned ? part(0, heads) : head_tensor(heads);
    auto k = turned ? part(heads, kv_heads) : head_tensor(kv_heads);
    auto v = mixed ? head_tensor(kv_heads) : part(heads + kv_heads, kv_heads);
    if (!turned || mixed)
      cuda::attention_heads_forward(shape,
                                    operands(qkv, given(inverse_rms), cos, sin, given(q_gain),
                                             given(embedding), given(first_v), given(lambda)),
                                    turned ? nullptr : write(q), turned ? nullptr : write(k),
                                    mixed ? write(v) : nullptr, float_of(qkv), current_stream(qkv));
    variable_list out{q, k, v, v.variable_data()};
    if (lambda) out.push_back(first_v.value_or(v).variable_data());
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &qkv = saved[0], &cos = saved[1], &sin = saved[2], &q_gain = saved[3],
               &embedding = saved[4], &first_v = saved[5], &lambda = saved[6],
               &inverse_rms = saved[7];
    const auto heads = context->saved_data["heads"].toInt();
    const auto kv_heads = context->saved_data["kv_heads"].toInt();
    const auto shape = head_shape(qkv, cos, heads, kv_heads);

    // The share of this layer is added where the later layers' sum stands.
    at::Tensor first_dv;
    if (first_v.defined())
      first_dv = is_own(upstream[4]) ? upstream[4] : at::empty(first_v.sizes(), first_v.options());
    const auto later_first_dv = lambda.defined() ? in_reach(upstream[4]) : at::Tensor();
    const auto dq = in_reach(upstream[0]), dk = in_reach(upstream[1]), dv = in_reach(upstream[2]),
               exclusive_dv = in_reach(upstream[3]);
    auto d_qkv = at::empty_like(qkv);
    at::Tensor partials, sums;
    if (q_gain.defined() || first_v.defined()) {
      const auto fp32 = qkv.options().dtype(at::kFloat);
      sums = at::empty({heads + cuda::kLambdaSums}, fp32);
      partials = at::empty({cuda::attention_heads_partials(shape), sums.size(0)}, fp32);
    }
    cuda::attention_heads_backward(
        shape, operands(qkv, inverse_rms, cos, sin, q_gain, embedding, first_v, lambda),
        {.q = head_vectors(dq),
         .k = head_vectors(dk),
         .v = head_vectors(dv),
         .exclusive_v = head_vectors(exclusive_dv),
         .first_v = head_vectors(later_first_dv)},
        {.qkv = write(d_qkv),
         .first_v = write(first_dv),
         .partials = write_fp32(partials),
         .sums = write_fp32(sums)},
        float_of(qkv), current_stream(qkv));

    at::Tensor d_gain, d_embedding, d_lambda;
    if (q_gain.defined()) d_gain = sums.narrow(0, 0, heads);
    if (context->saved_data["embedded"].toBool()) d_embedding = own_values(d_qkv, heads, kv_heads);
    if (first_v.defined())
      d_lambda = sums.narrow(0, heads, lambda.numel()).view(lambda.sizes());
    else if (lambda.defined() && lambda.numel() == 1)
      d_lambda = at::zeros_like(lambda);
    const at::Tensor none;
    return {d_qkv, none, none, none, d_gain, d_embedding, first_dv, d_lambda, none, none};
  }
};

Heads reference(const at::Tensor& qkv, const HeadInputs& in, const RopeTable& table) {
  const auto dtype = qkv.scalar_type();
  const auto x = packed_heads(qkv, in.heads, in.kv_heads);
  auto q = rope(rms_norm(x.narrow(2, 0, in.heads)), table);
  if (in.q_gain.defined()) q = q * in.q_gain.to(dtype).unsqueeze(-1);
  const auto k = rope(rms_norm(x.narrow(2, in.heads, in.kv_heads)), table);

  auto own = own_values(qkv, in.heads, in.kv_heads);
  if (in.value_embedding.defined()) own = own + in.value_embedding.view_as(own);
  if (!in.value_lambda.defined()) return {q, k, own, own, {}};
  const bool first_layer = !in.first_v.defined();
  const auto first_v = first_layer ? own : in.first_v;
  const auto lambda = in.value_lambda.to(dtype);
  at::Tensor v = own;
  if (lambda.numel() == 1)
    v = (1 - lambda) * own + lambda * first_v;
  else if (!first_layer)
    v = lambda[0] * first_v + lambda[1] * own;
  return {q, k, v, v, first_v};
}

}  // namespace

bool kernels_take_heads(const at::Tensor& x, std::int64_t head_dim, const HeadInputs& in,
                        const RopeTable& table) {
  const auto is_fp32 = [](const at::Tensor& other) {
    return !other.defined() || (other.scalar_type() == at::kFloat && other.is_contiguous());
  };
  const auto is_operand = [&](const at::Tensor& other) {
    return !other.defined() || other.scalar_type() == x.scalar_type();
  };
  return use_kernels(x) && is_head_dim(head_dim, x) && table.cos.size(1) % pack_size(x) == 0 &&
         table.cos.size(0) == x.size(1) &&
         x.size(0) * x.size(1) < std::numeric_limits<int>::max() / 2 && is_operand(table.cos) &&
         is_packed(table.cos) && is_operand(table.sin) && is_packed(table.sin) &&
         is_operand(in.value_embedding) && is_operand(in.first_v) && is_fp32(in.q_gain) &&
         is_fp32(in.value_lambda);
}

Heads fused_heads(const at::Tensor& qkv, const at::Tensor& inverse_rms, const HeadInputs& in,
                  const RopeTable& table) {
  at::Tensor embedding = in.value_embedding, first_v;
  if (embedding.defined()) embedding = embedding.unflatten(-1, {in.kv_heads, -1});
  if (in.value_lambda.defined()) first_v = in.first_v;
  const auto out = FusedAttentionHeads::apply(qkv, operand(inverse_rms), table.cos, table.sin,
                                              operand(in.q_gain), operand(in_reach(embedding)),
                                              operand(in_reach(first_v)), operand(in.value_lambda),
                                              in.heads, in.kv_heads);
  return {out[0], out[1], out[2], out[3], out.size() > 4 ? out[4] : at::Tensor()};
}

Heads attention_heads(const at::Tensor& qkv, const HeadInputs& in, const RopeTable& table) {
  const auto head_dim = qkv.size(2) / (in.heads + 2 * in.kv_heads);
  if (kernels_take_heads(qkv, head_dim, in, table)) return fused_heads(packed(qkv), {}, in, table);
  return reference(qkv, in, table);
}

}  // namespace tg
