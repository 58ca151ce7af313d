#include "op_rows.h"
#include "ops/attention/gates/scaled_heads.h"
#include "ops/attention/gates/weighted_heads.h"
#include "ops/attention/gates/xsa.h"
#include "ops/attention/projection/qk_norm_rope.h"
#include "ops/attention/projection/rope.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/smear.h"
#include "ops/embedding/token_embedding.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/norm/rms_norm.h"
#include "tests/ops/attention/passed_gradients.h"
#include "tests/ops/norm/residual_chain.h"

namespace tg {

namespace {

// The residual stream with gated skips and two lanes, with deferred norms; `x`: bytes of the
// stream. Parameters are created once per step, so that their gradients only accumulate.
void lane_rows(OpTimer& timer, const Recipe& r, const Inputs& make, double x) {
  const auto features = [&] { return make({r.batch, r.seq_len, r.dim}); };
  const auto accumulated = [&](at::IntArrayRef shape) {
    const auto value = make.fp32(shape).detach();
    return MixWeight(value, at::zeros_like(value));
  };
  const auto blend = accumulated({2, r.dim}), weights = accumulated({2, 4}),
             final_lane = accumulated({1, 4});
  const NormOptions deferred{.scale = 0.5, .form = NormedForm::deferred_scale};
  timer.row("residual_norm with a gated skip", bytes(5 * x, 10 * x),
            {features(), features(), features(), features(), make.fp32({2, r.dim})},
            [&](const auto& in) {
              const auto out = residual_norm({{in[0]},
                                              {in[1]},
                                              {.tensor = in[2], .blend = blend},
                                              {.tensor = in[3], .blend = in[4]}},
                                             deferred);
              return Tensors{out.x, out.y.tensor(), out.x0};
            });
  const auto two = [&](const LaneTerms& terms) {
    const auto out = residual_norm(terms, {deferred, deferred});
    return Tensors{out.lanes[0], out.lanes[1], out.y[0].tensor(), out.y[1].tensor(), out.x0};
  };
  timer.row("residual_norm, two lanes begin", bytes(7 * x, 12 * x),
            {features(), features(), features(), features(), make.fp32({2, r.dim})},
            [&](const auto& in) {
              return two({.terms = {{in[0]}, {in[1]}},
                          .skip = in[2],
                          .blend = blend,
                          .x0 = in[3],
                          .mix = in[4]});
            });
  timer.row("residual_norm of two lanes", bytes(8 * x, 15 * x),
            {features(), features(), features(), features(), features(), make.fp32({2, r.dim})},
            [&](const auto& in) {
              return two({.terms = {{in[0]}, {in[1]}, {in[2]}, {in[3]}},
                          .weights = weights,
                          .x0 = in[4],
                          .mix = in[5]});
            });
  timer.row("residual_norm of two lanes and a skip", bytes(9 * x, 17 * x),
            {features(), features(), features(), features(), features(), features(),
             make.fp32({2, r.dim})},
            [&](const auto& in) {
              return two({.terms = {{in[0]}, {in[1]}, {in[2]}, {in[3]}},
                          .weights = weights,
                          .skip = in[4],
                          .blend = blend,
                          .x0 = in[5],
                          .mix = in[6]});
            });
  timer.row("residual_norm of the last lane", bytes(5 * x, 9 * x),
            {features(), features(), features(), features()}, [&](const auto& in) {
              const LaneTerms terms{
                  .lanes = 1, .terms = {{in[0]}, {in[1]}, {in[2]}, {in[3]}}, .weights = final_lane};
              return Tensors{residual_norm(terms, {NormOptions{}}).y[0].rows()};
            });
}

}  // namespace

void memory_bound_rows(OpTimer& timer, const Recipe& r, const Inputs& make) {
  const auto b = r.batch, t = r.seq_len, hd = r.dim / r.heads;
  const bool blend = r.value_blend, record = !blend;
  // Bytes of a bf16 tensor [B, T, features].
  const auto wide = [&](std::int64_t features) {
    return 2.0 * static_cast<double>(b * t * features);
  };
  const double x = wide(r.dim), u = wide(r.hidden), z = wide(r.vocab);
  const double q = wide(r.heads * hd), v = wide(r.kv_heads * hd), qk = q + v;
  const double table = 2.0 * static_cast<double>(r.vocab * r.dim);
  const auto features = [&](std::int64_t count) { return make({b, t, count}); };
  const auto heads = [&](std::int64_t count) { return make({b, t, count, hd}); };
  const auto fp32_if = [&](bool there, at::IntArrayRef shape) {
    return there ? make.fp32(shape) : at::Tensor();
  };
  const auto rope_table = make_rope_table(t, {.dims = r.rope_dims}, make.dtype(), make.device());

  timer.row(
      "token_embedding", record ? bytes(2 * x + table, 3 * x + table) : bytes(x + table, x + table),
      {make({r.vocab, r.dim}), make.ids({b, t}, r.vocab), record ? features(r.dim) : at::Tensor(),
       fp32_if(record, {}), fp32_if(record, {r.dim})},
      [](const auto& in) {
        return Tensors{token_embedding({in[0], in[1], in[2], in[3], in[4]})};
      });
  if (record) {
    timer.row(
        "token_embedding with a smear gate", bytes(x + table, x + table),
        {make({r.vocab, r.dim}), make.ids({b, t}, r.vocab), make.fp32({1, 12}), make.fp32({1})},
        [](const auto& in) {
          TokenEmbedding embedding{in[0], in[1], {}, {}, {}};
          embedding.gated_smear = {in[2], in[3], /*bos_id=*/1};
          return Tensors{token_embedding(embedding)};
        });
  }
  timer.row("embedding_lookup of 128", bytes(wide(128), wide(128)),
            {make({r.vocab, 128}), make.ids({b, t}, r.vocab)},
            [](const auto& in) { return Tensors{embedding_lookup(in[0], in[1])}; });
  const auto residual = [&](const auto& in) {
    const auto out = residual_norm(
        test::ResidualChain{in[0], in[1], in[2], in[3], in[4], in[5]}.terms(), {.scale = 0.5});
    return Tensors{out.x, out.y.rows(), out.x0};
  };
  const at::Tensor none;
  const auto mix = [&] { return record ? make.fp32({2, r.dim}) : make.fp32({2}); };
  timer.row("residual_norm between blocks", bytes(5 * x, 8 * x),
            {features(r.dim), features(r.dim), none, none, features(r.dim), mix()}, residual);
  if (record) {
    timer.row("residual_norm with a skip", bytes(6 * x, 10 * x),
              {features(r.dim), features(r.dim), features(r.dim), make.fp32({r.dim}),
               features(r.dim), mix()},
              residual);
  }
  if (record) lane_rows(timer, r, make, x);
  timer.row("residual_norm inside a block", bytes(4 * x, 4 * x),
            {features(r.dim), features(r.dim), none, none, none, none}, residual);
  timer.row("residual_norm of four weighted terms", bytes(6 * x, 11 * x),
            {features(r.dim), features(r.dim), features(r.dim), features(r.dim), make.fp32({}),
             make.fp32({}), features(1), features(1)},
            [](const auto& in) {
              MixTerms terms;
              for (std::size_t i = 0; i < 4; ++i)
                terms.push_back({.tensor = in[i], .weight = in[i + 4]});
              const auto out = residual_norm(terms);
              return Tensors{out.x, out.y.rows()};
            });
  timer.row("qk_norm_rope",
            blend ? bytes(2 * qk + 3 * v, 3 * qk + 5 * v) : bytes(2 * qk, 3 * qk + 2 * v),
            {features(r.dim + 2 * r.kv_heads * hd), fp32_if(record, {r.heads}), fp32_if(blend, {}),
             blend ? heads(r.kv_heads) : none},
            [&](const auto& in) {
              const auto out = qk_norm_rope(in[0],
                                            {.heads = r.heads,
                                             .kv_heads = r.kv_heads,
                                             .q_gain = in[1],
                                             .value_embedding = {},
                                             .value_residual = blend,
                                             .first_v = in[3],
                                             .first_weight = in[2]},
                                            rope_table);
              return Tensors{out.q, out.k, out.v, out.first_v};
            });
  timer.row("exclusive_attention", bytes(2 * q + v, 3 * q + 2 * v),
            {heads(r.heads), heads(r.kv_heads)},
            [](const auto& in) { return Tensors{exclusive_attention(in[0], in[1])}; });
  // The gate reads 12 channels of the QKV projection's input, to whose gradient it adds.
  const auto gate_input = features(r.dim).detach();
  timer.row(
      "exclusive_attention, gated", bytes(2 * q + v, 3 * q + 2 * v),
      {heads(r.heads), heads(r.kv_heads), make.fp32({r.heads, 12})}, [&](const auto& in) {
        return Tensors{exclusive_attention(
            in[0], in[1],
            {.x = gate_input, .weight = in[2], .scale = 0.5, .passed = test::taken_gate_x()})};
      });
  timer.row("weighted_heads", bytes(2 * q + v, 3 * q + 2 * v),
            {heads(r.heads), heads(r.kv_heads), features(r.heads), features(r.heads)},
            [](const auto& in) {
              return Tensors{weighted_heads(in[0], in[1], {.exclusive = in[2], .gate = in[3]})};
            });
  timer.row(
      "gated_values", bytes(2 * v, 3 * v), {features(r.kv_heads * hd), make.fp32({r.kv_heads, 12})},
      [&](const auto& in) { return Tensors{gated_values(gate_input, in[0], in[1], hd).values}; });
  timer.row("scaled_heads", bytes(2 * v, 3 * v), {features(r.kv_heads * hd), features(r.kv_heads)},
            [&](const auto& in) { return Tensors{scaled_heads(in[0], in[1], hd)}; });
  timer.row("leaky_relu_squared", bytes(2 * u, 3 * u), {features(r.hidden)},
            [&](const auto& in) { return Tensors{leaky_relu_squared(in[0], r.slope)}; });
  // The forward pass also computes the gradient: nothing is left for backward.
  timer.row("softcap_cross_entropy", bytes(2 * z, 0),
            {make({b * t, r.vocab}), make.ids({b * t}, r.vocab)},
            [](const auto& in) { return Tensors{softcap_cross_entropy(in[0], in[1], {30})}; });
  // Operations that the references above consist of.
  timer.row("rms_norm", bytes(2 * x, 3 * x), {features(r.dim)},
            [](const auto& in) { return Tensors{rms_norm(in[0])}; });
  timer.row("rope of q", bytes(2 * q, 2 * q), {heads(r.heads)},
            [&](const auto& in) { return Tensors{rope(in[0], rope_table)}; });
  timer.row("smear", bytes(2 * x, 3 * x), {features(r.dim), make.fp32({r.dim})},
            [](const auto& in) { return Tensors{smear(in[0], in[1])}; });
}

}  // namespace tg
