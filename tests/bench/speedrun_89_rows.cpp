#include <array>
#include <memory>

#include "op_rows.h"
#include "ops/attention/attention.h"
#include "ops/attention/gates/scaled_heads.h"
#include "ops/attention/gates/weighted_heads.h"
#include "ops/attention/projection/qk_norm_rope.h"
#include "ops/kernels.h"
#include "ops/norm/residual_norm.h"

namespace tg {

namespace {

constexpr std::int64_t kHeads = 6, kHeadDim = 128, kWindow = 384;

// The backward pass behind the QKV projection's epilogue, which has normed and rotated the heads,
// with a gradient in FP8. What of it differs between layers:
struct QkvCase {
  const char* name;
  bool q_sum, exclusive, embedded, paired;
};
constexpr QkvCase kQkvCases[] = {
    {"qk_norm_rope, fp32 dq, exclusive", true, true, false, false},
    {"qk_norm_rope, fp32 dq, embedded", true, false, true, false},
    {"qk_norm_rope, fp32 dq, paired", true, false, false, true},
    {"qk_norm_rope, bf16 dq, paired", false, false, false, true},
    {"qk_norm_rope, bf16 dq, embedded", false, false, true, false},
};

void qkv_row(OpTimer& timer, const Inputs& make, std::int64_t tokens, const QkvCase& c) {
  const RopeOptions options{.dims = kHeadDim / 2, .interleaved = true};
  const auto table = (c.paired ? make_paired_rope_table : make_rope_table)(
      tokens, options, make.dtype(), make.device());
  const auto fp32 = make.options.dtype(at::kFloat);
  const auto inverse_rms = at::rand({1, tokens, 2 * kHeads}, fp32),
             q_sum = c.paired ? at::randn({1, kHeads / 2, 2 * tokens, kHeadDim}, fp32)
                              : at::randn({1, kHeads, tokens, kHeadDim}, fp32);
  const Fp8Scaling scaling{at::ones({}, fp32), at::zeros({}, fp32)};
  const Tensors inputs = {make({1, tokens, 3 * kHeads * kHeadDim}),
                          c.embedded ? make({1, tokens, kHeads * kHeadDim}) : at::Tensor()};
  // Reads normed q and k and the gradients of q, k, v and of v in exclusive attention, writes the
  // gradient of q, k and v in FP8 and an embedding's gradient in bf16; forward copies paired heads.
  const double q = static_cast<double>(inputs[0].nbytes()) / 3;
  const double backward = 2 + (c.q_sum ? 2 : 1) + 2 + c.exclusive + 1.5 + c.embedded;
  const Cost cost{Cost::Bound::memory, c.paired ? 6 * q : 0, backward * q};
  timer.row(c.name, cost, inputs, [&](const auto& in) {
    const auto passed = std::make_shared<PassedGradients>();
    const auto out = fused_qk_norm_rope(in[0], inverse_rms,
                                        {.heads = kHeads,
                                         .kv_heads = kHeads,
                                         .value_embedding = in[1],
                                         .key_offset = !c.paired,
                                         .contiguous = c.paired,
                                         .passed = passed},
                                        table, scaling);
    Tensors used{out.k, out.v};
    if (c.exclusive) used.push_back(out.exclusive_v);
    if (c.q_sum)
      passed->q_sum = q_sum;
    else
      used.push_back(out.q);
    return used;
  });
}

// The sum before an MLP: a state, the attention's branch, and two terms that other layers read,
// too.
void mix_row(OpTimer& timer, const Inputs& make, std::int64_t tokens) {
  const auto term = [&] { return make({1, tokens, kHeads * kHeadDim}); };
  const auto weights = [&] { return make({1, tokens, 1}); };
  const auto fp32 = make.options.dtype(at::kFloat);
  const Fp8Scaling scaling{at::ones({}, fp32), at::zeros({}, fp32)};
  const Tensors inputs = {term(),        term(),        term(),    term(),
                          make.fp32({}), make.fp32({}), weights(), weights()};
  // Backward reads the terms, the sum and both upstream gradients, and reads and writes the shared
  // ones.
  const auto x = static_cast<double>(inputs[0].nbytes());
  timer.row("residual_norm, shared gradients", bytes(6 * x, 13.5 * x), inputs, [&](const auto& in) {
    const std::array read_later = {shared(in[2]), shared(in[3])};
    MixTerms terms = {{.tensor = in[0], .weight = in[4]},
                      {.tensor = in[1], .weight = in[5], .gradient_scaling = scaling}};
    for (std::size_t i = 0; i < 2; ++i) {
      read_later[i].gradient->zeroed();
      terms.push_back(
          {.tensor = read_later[i].tensor, .weight = in[6 + i], .shared = read_later[i].gradient});
    }
    const auto out = residual_norm(terms);
    return Tensors{out.x, out.y.rows()};
  });
}

}  // namespace

void speedrun_89_rows(OpTimer& timer, const Inputs& make, std::int64_t tokens) {
  if (use_hopper_kernels(at::empty({1}, make.options))) {
    for (const auto& c : kQkvCases) qkv_row(timer, make, tokens, c);
  }
  mix_row(timer, make, tokens);
  const auto of_heads = [&] { return make({1, tokens, kHeads, kHeadDim}); };
  const auto numbers = [&] { return make({1, tokens, kHeads}); };
  const Tensors heads = {of_heads(), of_heads(), of_heads()};
  const auto size = static_cast<double>(heads[0].nbytes());
  timer.row("weighted_heads, exclusive", bytes(3 * size, 5 * size), {heads[0], heads[1], numbers()},
            [](const auto& in) {
              const auto passed =
                  std::make_shared<PassedGradients>(PassedGradients{.takes_delta = true});
              return Tensors{weighted_heads(in[0], in[1], {.exclusive = in[2]}, passed)};
            });
  timer.row("weighted_heads, gate", bytes(2 * size, 3 * size), {heads[0], numbers()},
            [](const auto& in) { return Tensors{weighted_heads(in[0], {}, {.gate = in[1]})}; });
  const auto gate_input = make({1, tokens, kHeads * kHeadDim}).detach();
  timer.row("gated_values", bytes(2 * size, 3 * size),
            {make({1, tokens, kHeads * kHeadDim}), make.fp32({kHeads, 12})}, [&](const auto& in) {
              return Tensors{gated_values(gate_input, in[0], in[1], kHeadDim).values};
            });
  // Attention over documents of about 500 tokens.
  const auto documents = documents_in(at::rand({1, tokens}) < 1 / 500.0, make.device());
  const auto left_by_weights = at::zeros({kHeads, tokens}, make.options.dtype(at::kFloat));
  for (const bool delta_given : {false, true}) {
    timer.row(
        delta_given ? "causal_attention, delta given" : "causal_attention of documents",
        {Cost::Bound::attention, 0, 0}, heads, [&](const auto& in) {
          const auto passed = std::make_shared<PassedGradients>();
          if (delta_given) passed->delta = left_by_weights;
          return Tensors{causal_attention(
              in[0], in[1], in[2], {.documents = documents, .window = kWindow, .passed = passed})};
        });
  }
}

}  // namespace tg
