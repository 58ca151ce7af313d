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

// Indices of apply()'s tensors. kRms: inverse_rms, kEmbed: the value embedding, kWeight and kScale:
// first_weight and row_scale.
enum : std::size_t { kQkv, kRms, kCos, kSin, kGain, kEmbed, kFirstV, kWeight, kScale, kTensors };
using Tensors = std::array<at::Tensor, kTensors>;

struct FusedQkNormRope : torch::autograd::Function<FusedQkNormRope> {
  // Arguments that are not differentiable tensors.
  struct Call {
    GivenInputs<kTensors> inputs;
    cuda::QkvShape shape;
    bool value_residual, contiguous;
    Fp8Scaling gradient_scaling;
    PassedGradientsPtr passed;
  };

  static cuda::QkNormRopeInputs kernel_inputs(const Tensors& in) {
    return {.qkv = const_data(in[kQkv]),
            .inverse_rms = const_fp32_data(in[kRms]),
            .cos = const_data(in[kCos]),
            .sin = const_data(in[kSin]),
            .q_gain = const_fp32_data(in[kGain]),
            .embedding = head_vectors(in[kEmbed]),
            .first_v = head_vectors(in[kFirstV]),
            .first_weight = const_fp32_data(in[kWeight]),
            .row_scale = const_fp32_data(in[kScale])};
  }

  // With inverse_rms, qkv already holds the result (fused_qk_norm_rope), perhaps apart.
  static variable_list forward(AutogradContext* context, at::TensorList defined, const Call& call) {
    auto in = call.inputs.spread(defined);
    const auto& qkv = in[kQkv];
    const auto& shape = call.shape;
    const std::int64_t heads = shape.heads, kv_heads = shape.kv_heads;
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
    const bool precomputed = in[kRms].defined(),
               mixed = !precomputed && (in[kEmbed].defined() || in[kFirstV].defined());
    auto q = precomputed ? head_range(0, heads) : head_tensor(heads);
    auto k = precomputed ? head_range(heads, kv_heads) : head_tensor(kv_heads);
    const auto copy = [&](const at::Tensor& from, bool key_offset) {
      auto to = head_tensor(from.size(2));
      cuda::copy_heads(shape, head_vectors(from), static_cast<int>(from.size(2)), key_offset,
                       mutable_data(to), dtype_of(qkv), current_stream(qkv));
      return to;
    };
    const bool copies = call.contiguous && !shape.apart;
    if (precomputed && copies) q = copy(q, /*key_offset=*/false);
    // Backward reads the keys without offset.
    if (precomputed && (copies || shape.key_offset)) k = copy(k, shape.key_offset);
    auto v = mixed ? head_tensor(kv_heads) : head_range(heads + kv_heads, kv_heads);
    if (copies && !mixed) v = copy(v, /*key_offset=*/false);
    if (!precomputed)
      cuda::qk_norm_rope_forward(shape, kernel_inputs(in), mutable_data(q), mutable_data(k),
                                 mixed ? mutable_data(v) : nullptr, dtype_of(qkv),
                                 current_stream(qkv));
    variable_list out{q, k, v, v.variable_data()};
    if (call.value_residual)
      out.push_back((in[kFirstV].defined() ? in[kFirstV] : v).variable_data());
    in[kEmbed].reset();  // not read by backward
    context->save_for_backward({in.begin(), in.end()});
    context->saved_data["call"] = in_capsule(call);
    context->set_materialize_grads(false);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    const auto in = saved_tensors<kTensors>(*context);
    const auto &qkv = in[kQkv], &first_v = in[kFirstV];
    const auto& shape = call.shape;
    const std::int64_t heads = shape.heads, kv_heads = shape.kv_heads;
    Tensors d;

    // Accumulates in place into the later layers' sum if nothing else refers to it.
    if (first_v.defined())
      d[kFirstV] =
          may_overwrite(upstream[4]) ? upstream[4] : at::empty(first_v.sizes(), first_v.options());
    const auto later_first_dv = call.value_residual ? readable_heads(upstream[4]) : at::Tensor();
    const auto dq = readable_heads(upstream[0]), dk = readable_heads(upstream[1]),
               dv = readable_heads(upstream[2]), exclusive_dv = readable_heads(upstream[3]);
    d[kQkv] = at::empty(qkv.sizes(), qkv.options());
    at::Tensor sums;
    if (in[kGain].defined() || first_v.defined())
      sums = at::empty({heads + cuda::kWeightSums}, qkv.options().dtype(at::kFloat));
    const auto rounded = empty_fp8_like(d[kQkv], call.gradient_scaling);
    const bool embedded = call.inputs.given[kEmbed];
    // With an FP8 copy d_qkv only carries it: the embedding's gradient is a tensor of its own.
    const bool copied = rounded.defined();
    const auto v_heads = value_heads(d[kQkv].flatten(2), heads, kv_heads);
    const auto dv_out = !copied    ? v_heads
                        : embedded ? at::empty(v_heads.sizes(), qkv.options())
                                   : at::Tensor();
    const auto q_sum = call.passed ? std::exchange(call.passed->q_sum, {}) : at::Tensor();
    assert(!q_sum.defined() || !upstream[0].defined());
    cuda::qk_norm_rope_backward(
        shape, kernel_inputs(in),
        {.q = head_vectors(dq),
         .k = head_vectors(dk),
         .v = head_vectors(dv),
         .exclusive_v = head_vectors(exclusive_dv),
         .first_v = head_vectors(later_first_dv),
         .q_sum = const_fp32_data(q_sum),
         .q_sum_heads = q_sum.defined() ? static_cast<int>(q_sum.size(1)) : 0,
         .padded_len = q_sum.defined() ? static_cast<int>(q_sum.size(2)) : 0},
        {.qkv = copied ? nullptr : mutable_data(d[kQkv]),
         .v = mutable_data(dv_out),
         .v_stride = dv_out.defined() ? dv_out.stride(1) : 0,
         .first_v = mutable_data(d[kFirstV]),
         .sums = mutable_fp32_data(sums),
         .qkv_copy = fp8_copy(rounded, call.gradient_scaling)},
        dtype_of(qkv), workspace_like(qkv), current_stream(qkv));

    if (in[kGain].defined()) d[kGain] = sums.narrow(0, 0, heads);
    if (embedded) d[kEmbed] = dv_out;
    if (first_v.defined()) d[kWeight] = sums[heads];
    return call.inputs.gradients(*context, d, /*others=*/1);
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
  const auto embedding = readable_heads(in.value_embedding, in.kv_heads),
             first_v = readable_heads(in.first_v);
  const Tensors inputs{qkv,       inverse_rms, table.cos,       table.sin, in.q_gain,
                       embedding, first_v,     in.first_weight, row_scale};
  const auto out =
      FusedQkNormRope::apply(at::TensorList(defined_of(inputs)),
                             FusedQkNormRope::Call{GivenInputs(inputs), shape, in.value_residual,
                                                   in.contiguous, gradient_scaling, in.passed});
  return {out[0], out[1], out[2], out[3], out.size() > 4 ? out[4] : at::Tensor()};
}

Qkv qk_norm_rope(const at::Tensor& qkv, const QkvInputs& in, const RopeTable& table) {
  const auto head_dim = qkv.size(2) / (in.heads + 2 * in.kv_heads);
  if (qk_norm_rope_kernels_support(qkv, head_dim, in, table))
    return fused_qk_norm_rope(aligned_contiguous(qkv), {}, in, table);
  return reference(qkv, in, table);
}

}  // namespace tg
