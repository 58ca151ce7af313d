#include <fmt/format.h>

#include "op_rows.h"
#include "ops/attention/projection/qkv_proj_norm_rope.h"
#include "ops/attention/projection/rope.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/linear_residual_norm.h"
#include "tests/ops/gemm/fp8.h"

namespace tg {

void gemm_rows(OpTimer& timer, const Recipe& r, const Inputs& make) {
  const auto b = r.batch, t = r.seq_len, hd = r.dim / r.heads;
  const auto gemm = [&](const char* name, std::int64_t in_dim, std::int64_t out_dim) {
    const double flops = 2.0 * static_cast<double>(b * t * in_dim * out_dim);
    timer.row(name, gemms(flops, 2 * flops), {make({b, t, in_dim}), make({out_dim, in_dim})},
              [](const auto& in) { return Tensors{at::linear(in[0], in[1])}; });
  };
  gemm("gemm up", r.dim, r.hidden);
  gemm("gemm down", r.hidden, r.dim);
  gemm("gemm qkv", r.dim, (r.heads + 2 * r.kv_heads) * hd);
  gemm("gemm out", r.dim, r.dim);
  gemm("gemm head", r.dim, r.vocab);

  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return Weight{at::randn({rows, columns}, make.options),
                  at::zeros({rows, columns}, make.options.dtype(at::kFloat))};
  };
  const auto up = matrix(r.hidden, r.dim), down = matrix(r.dim, r.hidden);
  const double mlp_flops = 4.0 * static_cast<double>(b * t * r.dim * r.hidden);
  timer.row("mlp", own_gemms(mlp_flops, 2 * mlp_flops), {make({b, t, r.dim})},
            [&](const auto& in) { return Tensors{mlp(in[0], up, down, r.slope)}; });
  const auto up_fp8 = test::fp8_weight(up.value), down_fp8 = test::fp8_weight(down.value);
  timer.row("mlp, FP8", own_gemms(mlp_flops, 2 * mlp_flops), {make({b, t, r.dim})},
            [&](const auto& in) { return Tensors{mlp(in[0], up_fp8, down_fp8, r.slope)}; });
  const auto out_fp8 = test::fp8_weight(matrix(r.dim, r.dim).value);
  const double out_flops = 2.0 * static_cast<double>(b * t * r.dim * r.dim);
  timer.row("linear out, FP8", gemms(out_flops, 2 * out_flops), {make({b, t, r.dim})},
            [&](const auto& in) { return Tensors{linear(in[0], out_fp8)}; });

  const auto projection = matrix(r.dim, r.dim);
  timer.row("linear_residual_norm of out", own_gemms(out_flops, 2 * out_flops),
            {make({b, t, r.dim}), make({b, t, r.dim})}, [&](const auto& in) {
              const auto passed = std::make_shared<PassedGradients>();
              passed->takes_delta = true;
              const auto out = linear_residual_norm(
                  in[0], projection, in[1], {.form = NormedForm::deferred_scale}, passed,
                  choose_linear_residual_norm(in[1], projection, NormedForm::deferred_scale));
              return Tensors{out.x, out.y.tensor()};
            });

  const double head_flops = 2.0 * static_cast<double>(b * t * r.dim * r.vocab);
  const auto head = matrix(r.vocab, r.dim);
  // The fused head computes its gradients in the forward pass.
  const bool fused = supports_fused_head(head.value, 30);
  timer.row("linear_cross_entropy",
            fused ? own_gemms(3 * head_flops, 0) : own_gemms(head_flops, 2 * head_flops),
            {make({b * t, r.dim}), make.ids({b * t}, r.vocab)}, [&](const auto& in) {
              return Tensors{linear_cross_entropy(in[0], head, in[1], {.softcap = 30})};
            });

  const auto qkv_dim = (r.heads + 2 * r.kv_heads) * hd;
  const auto qkv = matrix(qkv_dim, r.dim);
  const auto rope_table = make_rope_table(t, {.dims = r.rope_dims}, make.dtype(), make.device());
  const double qkv_flops = 2.0 * static_cast<double>(b * t * r.dim * qkv_dim);
  const at::Tensor none;
  const auto qkv_fp8 = test::fp8_weight(qkv.value);
  for (const auto& [name, weight] :
       {std::pair{"qkv_proj_norm_rope", &qkv}, {"qkv_proj_norm_rope, FP8", &qkv_fp8}}) {
    timer.row(
        name, own_gemms(qkv_flops, 2 * qkv_flops),
        {make({b, t, r.dim}), r.value_blend ? none : make.fp32({r.heads}),
         r.value_blend ? make.fp32({}) : none, r.value_blend ? make({b, t, r.kv_heads, hd}) : none},
        [&, weight = weight](const auto& in) {
          const auto out = qkv_proj_norm_rope(in[0], *weight,
                                              {.heads = r.heads,
                                               .kv_heads = r.kv_heads,
                                               .q_gain = in[1],
                                               .value_residual = r.value_blend,
                                               .first_v = in[3],
                                               .first_weight = in[2]},
                                              rope_table);
          return Tensors{out.q, out.k, out.v};
        });
  }
}

void head_rows(OpTimer& timer, const Inputs& make, std::int64_t tokens, std::int64_t columns) {
  for (const std::int64_t dim : {512, 768}) {
    const double flops = 2.0 * static_cast<double>(tokens * dim * columns);
    const auto value = at::randn({columns, dim}, make.options) * 0.05;
    const auto head = test::fp8_weight(value);
    const Weight in_bf16{head.value, head.gradient};
    const auto x = make({tokens, dim});
    // As the norm before the head writes it.
    const auto rounded = to_fp8(x.detach(), head.fp8.input);
    const Tensors inputs{x, make.ids({tokens}, columns)};
    const auto row = [&](const char* form, const Cost& cost, const Operation& run) {
      timer.row(fmt::format("{} x {}, {}", columns, dim, form), cost, inputs, run);
    };
    row("fused", gemms(3 * flops, 0), [&](const auto& in) {
      return Tensors{linear_cross_entropy(in[0], in_bf16, in[1], {.softcap = 30})};
    });
    row("fused, FP8", gemms(3 * flops, 0), [&](const auto& in) {
      return Tensors{linear_cross_entropy({in[0], rounded}, head, in[1], {.softcap = 30})};
    });
    row("unfused", gemms(flops, 2 * flops), [&](const auto& in) {
      return Tensors{softcap_cross_entropy(linear(in[0], in_bf16), in[1], {30})};
    });
  }
}

}  // namespace tg
