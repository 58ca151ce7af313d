#include "ops/attention/projection/qk_norm_rope.h"

#include <torch/csrc/autograd/custom_function.h>

#include <cassert>
#include <limits>
#include <utility>

#include "ops/attention/kernels/head_vectors.h"
#include "ops/attention/projection/qkv_shape.h"
#include "ops/norm/rms_norm.h"
#include "ops/operands.h"

namespace tg {

namespace {

bool may_overwrite(const at::Tensor& x) {
  return is_sole_owner(x) && is_aligned_contiguous(x);
}

// View qkv [B, T, (heads + 2·KV)·hd] as [B, T, heads + 2·KV, hd], and select its v [B, T, KV, hd].
at::Tensor unflatten_heads(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads) {
  return qkv.unflatten(-1, {heads + 2 * kv_heads, -1});
}
at::Tensor value_heads(const at::Tensor& qkv, std::int64_t heads, std::int64_t kv_heads) {
  return unflatten_heads(qkv, heads, kv_heads).narrow(2, heads + kv_heads, kv_heads);
}

struct FusedQkNormRope : torch::autograd::Function<FusedQkNormRope> {
  static cuda::QkNormRopeInputs kernel_inputs(const at::Tensor& qkv, const at::Tensor& inverse_rms,
                                              const at::Tensor& cos, const at::Tensor& sin,
                                              const at::Tensor& q_gain, const at::Tensor& embedding,
                                              const at::Tensor& first_v,
                                              const at::Tensor& first_weight,
                                              const at::Tensor& row_scale) {
    return {.qkv = const_data(qkv),
            .inverse_rms = const_fp32_data(inverse_rms),
            .cos = const_data(cos),
            .sin = const_data(sin),
            .q_gain = const_fp32_data(q_gain),
            .embedding = head_vectors(embedding),
            .first_v = head_vectors(first_v),
            .first_weight = const_fp32_data(first_weight),
            .row_scale = const_fp32_data(row_scale)};
  }

  // With `inverse_rms`, qkv already holds the result (fused_qk_norm_rope), perhaps apart.
  static variable_list forward(AutogradContext* context, const at::Tensor& qkv,
                               const OptionalTensor& inverse_rms, const at::Tensor& cos,
                               const at::Tensor& sin, const OptionalTensor& q_gain,
                               const OptionalTensor& embedding, const OptionalTensor& first_v,
                               const OptionalTensor& first_weight, const OptionalTensor& row_scale,
                               bool value_residual, bool contiguous, const cuda::QkvShape& shape,
                               const Fp8Scaling& gradient_scaling,
                               const PassedGradientsPtr& passed) {
    const std::int64_t heads = shape.heads, kv_heads = shape.kv_heads;
    context->set_materialize_grads(false);
    context->save_for_backward({qkv, cos, sin, or_undefined(q_gain), or_undefined(first_v),
                                or_undefined(first_weight), or_undefined(inverse_rms),
                                or_undefined(row_scale)});
    context->saved_data["shape"] = in_capsule(shape);
    context->saved_data["gradient_scaling"] = in_capsule(gradient_scaling);
    context->saved_data["passed"] = in_capsule(passed);
    context->saved_data["embedded"] = embedding.has_value();
    context->saved_data["value_residual"] = value_residual;

    const auto head_tensor = [&](std::int64_t count) {
      return at::empty({qkv.size(0), qkv.size(1), count, shape.head_dim}, qkv.options());
    };
    // A view of qkv that autograd does not track as one, since it is an output of this Function.
    const auto head_range = [&](std::int64_t first, std::int64_t count) {
      const auto range = shape.apart
                             ? qkv.select(2, first / heads).unflatten(-1, {heads, -1})
                             : unflatten_heads(qkv, heads, kv_heads).narrow(2, first, count);
      return range.variable_data();
    };
    const bool precomputed = inverse_rms.has_value(),
               mixed = !precomputed && (embedding || first_v);
    auto q = precomputed ? head_range(0, heads) : head_tensor(heads);
    auto k = precomputed ? head_range(heads, kv_heads) : head_tensor(kv_heads);
    const auto copy = [&](const at::Tensor& from, bool key_offset) {
      auto to = head_tensor(from.size(2));
      cuda::copy_heads(shape, head_vectors(from), static_cast<int>(from.size(2)), key_offset,
                       mutable_data(to), dtype_of(qkv), current_stream(qkv));
      return to;
    };
    const bool copies = contiguous && !shape.apart;
    if (precomputed && copies) q = copy(q, /*key_offset=*/false);
    // Backward reads the keys without offset.
    if (precomputed && (copies || shape.key_offset)) k = copy(k, shape.key_offset);
    auto v = mixed ? head_tensor(kv_heads) : head_range(heads + kv_heads, kv_heads);
    if (copies && !mixed) v = copy(v, /*key_offset=*/false);
    if (!precomputed)
      cuda::qk_norm_rope_forward(
          shape,
          kernel_inputs(qkv, {}, cos, sin, or_undefined(q_gain), or_undefined(embedding),
                        or_undefined(first_v), or_undefined(first_weight), {}),
          mutable_data(q), mutable_data(k), mixed ? mutable_data(v) : nullptr, dtype_of(qkv),
          current_stream(qkv));
    variable_list out{q, k, v, v.variable_data()};
    if (value_residual) out.push_back(first_v.value_or(v).variable_data());
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &qkv = saved[0], &cos = saved[1], &sin = saved[2], &q_gain = saved[3],
               &first_v = saved[4], &first_weight = saved[5], &inverse_rms = saved[6],
               &row_scale = saved[7];
    const auto shape = from_capsule<cuda::QkvShape>(context->saved_data["shape"]);
    const std::int64_t heads = shape.heads, kv_heads = shape.kv_heads;

    // Accumulates in place into the later layers' sum if nothing else refers to it.
    const bool value_residual = context->saved_data["value_residual"].toBool();
    at::Tensor first_dv;
    if (first_v.defined())
      first_dv =
          may_overwrite(upstream[4]) ? upstream[4] : at::empty(first_v.sizes(), first_v.options());
    const auto later_first_dv = value_residual ? readable_heads(upstream[4]) : at::Tensor();
    const auto dq = readable_heads(upstream[0]), dk = readable_heads(upstream[1]),
               dv = readable_heads(upstream[2]), exclusive_dv = readable_heads(upstream[3]);
    auto d_qkv = at::empty(qkv.sizes(), qkv.options());
    at::Tensor partials, sums;
    if (q_gain.defined() || first_v.defined()) {
      const auto fp32 = qkv.options().dtype(at::kFloat);
      sums = at::empty({heads + cuda::kWeightSums}, fp32);
      partials = at::empty({cuda::qk_norm_rope_backward_blocks(shape), sums.size(0)}, fp32);
    }
    const auto scaling = from_capsule<Fp8Scaling>(context->saved_data["gradient_scaling"]);
    const auto rounded = empty_fp8_like(d_qkv, scaling);
    const bool embedded = context->saved_data["embedded"].toBool();
    // With an FP8 copy d_qkv only carries it: the embedding's gradient is a tensor of its own.
    const bool copied = rounded.defined();
    const auto v_heads = value_heads(d_qkv.flatten(2), heads, kv_heads);
    const auto dv_out = !copied    ? v_heads
                        : embedded ? at::empty(v_heads.sizes(), qkv.options())
                                   : at::Tensor();
    const auto passed = from_capsule<PassedGradientsPtr>(context->saved_data["passed"]);
    const auto q_sum = passed ? std::exchange(passed->q_sum, {}) : at::Tensor();
    assert(!q_sum.defined() || !upstream[0].defined());
    cuda::qk_norm_rope_backward(
        shape,
        kernel_inputs(qkv, inverse_rms, cos, sin, q_gain, {}, first_v, first_weight, row_scale),
        {.q = head_vectors(dq),
         .k = head_vectors(dk),
         .v = head_vectors(dv),
         .exclusive_v = head_vectors(exclusive_dv),
         .first_v = head_vectors(later_first_dv),
         .q_sum = const_fp32_data(q_sum),
         .q_sum_heads = q_sum.defined() ? static_cast<int>(q_sum.size(1)) : 0,
         .padded_len = q_sum.defined() ? static_cast<int>(q_sum.size(2)) : 0},
        {.qkv = copied ? nullptr : mutable_data(d_qkv),
         .v = mutable_data(dv_out),
         .v_stride = dv_out.defined() ? dv_out.stride(1) : 0,
         .first_v = mutable_data(first_dv),
         .partials = mutable_fp32_data(partials),
         .sums = mutable_fp32_data(sums),
         .qkv_copy = fp8_copy(rounded, scaling)},
        dtype_of(qkv), current_stream(qkv));

    at::Tensor d_gain, d_embedding, d_weight;
    if (q_gain.defined()) d_gain = sums.narrow(0, 0, heads);
    if (embedded) d_embedding = dv_out;
    if (first_v.defined()) d_weight = sums[heads];
    const at::Tensor none;
    return {d_qkv,    none, none, none, d_gain, d_embedding, first_dv,
            d_weight, none, none, none, none,   none,        none};
  }
};

// QkvInputs::key_offset of k [B, T, KV, hd]; the head's padding is zero.
at::Tensor with_key_offset(const at::Tensor& k, std::int64_t channels) {
  const auto half = (channels == 0 ? k.size(-1) : channels) / 2;
  const auto second = k.narrow(-1, half, k.size(-1) - half);
  const auto before = at::cat({second.narrow(1, 0, 1), second.narrow(1, 0, k.size(1) - 1)}, 1);
  return at::cat({k.narrow(-1, 0, half), before}, -1);
}

Qkv reference(const at::Tensor& qkv, const QkvInputs& in, const RopeTable& table) {
  const auto dtype = qkv.scalar_type();
  const auto x = unflatten_heads(qkv, in.heads, in.kv_heads);
  auto q = rope(rms_norm(x.narrow(2, 0, in.heads), in.channels), table);
  if (in.q_gain.defined()) q = q * in.q_gain.to(dtype).unsqueeze(-1);
  auto k = rope(rms_norm(x.narrow(2, in.heads, in.kv_heads), in.channels), table);
  if (in.key_offset) k = with_key_offset(k, in.channels);

  auto v = value_heads(qkv, in.heads, in.kv_heads);
  if (in.value_embedding.defined()) v = v + in.value_embedding.view_as(v);
  if (in.first_v.defined()) v = v + in.first_weight.to(dtype) * in.first_v;
  if (!in.value_residual) return {q, k, v, v, {}};
  return {q, k, v, v, in.first_v.defined() ? in.first_v : v};
}

// Whether the kernels, whose threads hold `pack` elements of a head, support the pairs that the
// table rotates, its number of tables and the key offset.
bool supports_pairs(std::int64_t pack, std::int64_t head_dim, const QkvInputs& in,
                    const RopeTable& table) {
  if (!table.interleaved)
    return table.half_dims() % pack == 0 && table.tables() == 1 && !in.key_offset;
  const auto tables = table.tables(), channels = in.channels == 0 ? head_dim : in.channels;
  return 2 * table.half_dims() % pack == 0 && tables <= 2 && in.heads % tables == 0 &&
         in.kv_heads % tables == 0 && (!in.key_offset || channels / 2 % pack == 0);
}

}  // namespace

bool qk_norm_rope_kernels_support(const at::Tensor& x, std::int64_t head_dim, const QkvInputs& in,
                                  const RopeTable& table) {
  const auto is_fp32 = [](const at::Tensor& other) {
    return !other.defined() || (other.scalar_type() == at::kFloat && other.is_contiguous());
  };
  const auto same_dtype = [&](const at::Tensor& other) {
    return !other.defined() || other.scalar_type() == x.scalar_type();
  };
  return use_kernels(x) && supports_head_dim(head_dim, x) &&
         supports_pairs(pack_size(x), head_dim, in, table) && table.cos.size(0) == x.size(1) &&
         x.size(0) * x.size(1) < std::numeric_limits<int>::max() / 2 && same_dtype(table.cos) &&
         is_aligned_contiguous(table.cos) && same_dtype(table.sin) &&
         is_aligned_contiguous(table.sin) && same_dtype(in.value_embedding) &&
         same_dtype(in.first_v) && is_fp32(in.q_gain) && is_fp32(in.first_weight);
}

Qkv fused_qk_norm_rope(const at::Tensor& qkv, const at::Tensor& inverse_rms, const QkvInputs& in,
                       const RopeTable& table, const Fp8Scaling& gradient_scaling,
                       const at::Tensor& row_scale) {
  const auto shape = qkv_shape(qkv, in, table);
  if (in.passed)
    in.passed->takes_q = inverse_rms.defined() && (shape.head_dim == 64 || shape.head_dim == 128);
  const auto out = FusedQkNormRope::apply(
      qkv, optional_tensor(inverse_rms), table.cos, table.sin, optional_tensor(in.q_gain),
      optional_tensor(readable_heads(in.value_embedding, in.kv_heads)),
      optional_tensor(readable_heads(in.first_v)), optional_tensor(in.first_weight),
      optional_tensor(row_scale), in.value_residual, in.contiguous, shape, gradient_scaling,
      in.passed);
  return {out[0], out[1], out[2], out[3], out.size() > 4 ? out[4] : at::Tensor()};
}

Qkv qk_norm_rope(const at::Tensor& qkv, const QkvInputs& in, const RopeTable& table) {
  const auto head_dim = qkv.size(2) / (in.heads + 2 * in.kv_heads);
  if (qk_norm_rope_kernels_support(qkv, head_dim, in, table))
    return fused_qk_norm_rope(aligned_contiguous(qkv), {}, in, table);
  return reference(qkv, in, table);
}

}  // namespace tg
