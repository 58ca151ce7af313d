#include <cmath>

#include "op_rows.h"
#include "ops/attention/attention.h"
#include "ops/attention/composed_attention.h"
#include "tests/ops/attention/passed_gradients.h"

namespace tg {

void attention_rows(OpTimer& timer, const Recipe& r, const Inputs& make) {
  const auto b = r.batch, t = r.seq_len, hd = r.dim / r.heads;
  // The backward pass has five GEMMs, the forward pass two.
  const double flops = 2.0 * static_cast<double>(b * r.heads * hd * t * t);
  const auto left_by_projection =
      at::zeros({r.heads * hd / 64, b * t}, make.options.dtype(at::kFloat));
  timer.row("causal_attention", {Cost::Bound::attention, flops, 2.5 * flops, /*own_kernel=*/true},
            {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd})},
            [&](const auto& in) {
              const auto passed = std::make_shared<PassedGradients>();
              passed->delta = left_by_projection;
              return Tensors{causal_attention(in[0], in[1], in[2], {.passed = passed})};
            });
  timer.row("causal_attention, exclusive",
            {Cost::Bound::attention, flops, 2.5 * flops, /*own_kernel=*/true},
            {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd})},
            [](const auto& in) {
              return Tensors{causal_attention(in[0], in[1], in[2], {.exclusive_v = in[2]})};
            });

  const auto gate_input = make({b, t, r.dim}).detach();
  timer.row(
      "causal_attention, gated", {Cost::Bound::attention, flops, 2.5 * flops, /*own_kernel=*/true},
      {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd}),
       make.fp32({r.heads, 12})},
      [&](const auto& in) {
        return Tensors{causal_attention(
            in[0], in[1], in[2],
            {.exclusive_v = in[2],
             .gate = {
                 .x = gate_input, .weight = in[3], .scale = 0.5, .passed = test::taken_gate_x()}})};
      });

  // Documents of a quarter of `t` tokens on average; FLOPs count visible pairs only.
  const auto of_documents = [&](const std::string& name, std::int64_t rows, std::int64_t length) {
    const auto documents =
        documents_in(at::rand({rows, length}) < 4.0 / static_cast<double>(t), make.device());
    const auto positions = at::arange(length, documents.ends.options());
    const double pairs = (documents.ends - positions).sum(at::kDouble).item<double>();
    const double share = pairs * 2 / static_cast<double>(b * t * t);
    timer.row(name,
              {Cost::Bound::attention, share * flops, share * 2.5 * flops, /*own_kernel=*/true},
              {make({rows, length, r.heads, hd}), make({rows, length, r.kv_heads, hd}),
               make({rows, length, r.kv_heads, hd})},
              [&](const auto& in) {
                return Tensors{causal_attention(in[0], in[1], in[2], {.documents = documents})};
              });
  };
  of_documents("causal_attention of documents", b, t);
  of_documents("causal_attention of documents in four rows", 4, b * t / 4);
  of_documents("causal_attention of documents in one row", 1, b * t);
}

void composed_attention_rows(OpTimer& timer, const Inputs& make, std::int64_t tokens) {
  constexpr std::int64_t kHeads = 6, kHeadDim = 128, kWindow = 112;
  const auto documents = documents_in(at::rand({1, tokens}) < 1 / 500.0, make.device());
  const auto of_heads = [&] { return make({1, tokens, kHeads, kHeadDim}); };
  const Tensors inputs = {of_heads(), of_heads(), of_heads(), make({1, tokens, kHeads}),
                          make({1, tokens, kHeads})};
  // Forward reads q, k and v and writes y; backward reads them and dy and writes dq, dk and dv.
  const auto size = static_cast<double>(inputs[0].nbytes());
  timer.row("composed attention", bytes(4 * size, 7 * size), inputs, [&](const auto& in) {
    return Tensors{composed_attention(in[0], in[1], in[2],
                                      {.pre = in[3],
                                       .post = in[4],
                                       .scale = 1 / std::sqrt(static_cast<double>(kHeadDim)),
                                       .window = kWindow,
                                       .documents = documents})};
  });
}

}  // namespace tg
