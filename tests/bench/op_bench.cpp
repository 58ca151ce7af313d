// usage: op_bench [record] [speedrun_124m] [heads]
//
// Times each operation of ops/ at the shapes of configs/record.env and configs/speedrun_124m.env,
// and heads of 8,192 columns, in bf16: milliseconds forward and backward, GB/s or TFLOP/s, their
// share of what a copy, a GEMM and attention reach on this machine, and the time of the reference
// (FUSED=0). On a CPU the shapes are tiny and each runs once: a test that every row works.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/program.h"
#include "op_timer.h"
#include "ops/attention/attention.h"
#include "ops/attention/qk_norm_rope.h"
#include "ops/attention/qkv_proj_norm_rope.h"
#include "ops/attention/rope.h"
#include "ops/attention/xsa.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/smear.h"
#include "ops/embedding/token_embedding.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/softcap_cross_entropy.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/lanes_norm.h"
#include "ops/norm/linear_residual_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/optim/muon_update.h"
#include "ops/optim/orthogonalize.h"
#include "tests/ops/fp8.h"
#include "tests/ops/residual_chain.h"

namespace tg {
namespace {

// Shapes of a micro-step.
struct Recipe {
  const char* name;
  std::int64_t batch, seq_len, dim, heads, kv_heads, rope_dims, layers, hidden, vocab;
  double slope;
  bool value_blend;  // if so, no bigram, smear, gains or scales
};
constexpr Recipe kRecipes[] = {
    {"record", 48, 2048, 512, 8, 4, 16, 11, 1536, 1024, 0.5, false},
    {"speedrun_124m", 64, 1024, 768, 6, 6, 128, 12, 3072, 50304, 0, true},
};

Recipe tiny(Recipe r) {
  r.batch = r.layers = 1;
  r.seq_len = 64;
  r.dim = 16 * r.heads;
  r.rope_dims = 16;
  r.hidden = 2 * r.dim;
  r.vocab = 128;
  return r;
}

// Makes random inputs; all but ids require a gradient.
struct Inputs {
  at::TensorOptions options;
  at::ScalarType dtype() const { return options.dtype().toScalarType(); }
  at::Device device() const { return options.device(); }
  at::Tensor operator()(at::IntArrayRef shape) const {
    return at::randn(shape, options).requires_grad_();
  }
  at::Tensor fp32(at::IntArrayRef shape) const {
    return at::randn(shape, options.dtype(at::kFloat)).requires_grad_();
  }
  // With the frequencies of synthetic:zipf: about 1 / (id + 3).
  at::Tensor ids(at::IntArrayRef shape, std::int64_t count) const {
    const auto uniform = at::rand(shape, options.dtype(at::kFloat));
    const double last = static_cast<double>(count + 3) / 3;
    return (3 * at::pow(last, uniform) - 3).to(at::kLong).clamp_(0, count - 1);
  }
};

// Of the stream with gated skips and two lanes, of visits that defer their norms; `x`: bytes of the
// stream. Parameters are made once a step, so that their gradients only accumulate.
void lanes(OpTimer& timer, const Recipe& r, const Inputs& make, double x) {
  const auto features = [&] { return make({r.batch, r.seq_len, r.dim}); };
  const auto accumulated = [&](at::IntArrayRef shape) {
    const auto value = make.fp32(shape).detach();
    return MixWeight(value, at::zeros_like(value));
  };
  const auto shares = accumulated({2, r.dim}), weights = accumulated({2, 4}),
             final_lane = accumulated({1, 4});
  const NormOptions deferred{.scale = 0.5, .form = NormedForm::scaled_by_row};
  timer.row("residual_norm with a gated skip", bytes(5 * x, 10 * x),
            {features(), features(), features(), features(), make.fp32({2, r.dim})},
            [&](const auto& in) {
              const auto out = residual_norm({{in[0]},
                                              {in[1]},
                                              {.tensor = in[2], .shares = shares},
                                              {.tensor = in[3], .shares = in[4]}},
                                             deferred);
              return Tensors{out.x, out.y.tensor(), out.x0};
            });
  const auto two = [&](const LaneTerms& of) {
    const auto out = lanes_norm(of, {deferred, deferred});
    return Tensors{out.lanes[0], out.lanes[1], out.y[0].tensor(), out.y[1].tensor(), out.x0};
  };
  timer.row("lanes_norm, lanes begin", bytes(7 * x, 12 * x),
            {features(), features(), features(), features(), make.fp32({2, r.dim})},
            [&](const auto& in) {
              return two({.terms = {{in[0]}, {in[1]}},
                          .skip = in[2],
                          .shares = shares,
                          .x0 = in[3],
                          .mix = in[4]});
            });
  timer.row("lanes_norm", bytes(8 * x, 15 * x),
            {features(), features(), features(), features(), features(), make.fp32({2, r.dim})},
            [&](const auto& in) {
              return two({.terms = {{in[0]}, {in[1]}, {in[2]}, {in[3]}},
                          .weights = weights,
                          .x0 = in[4],
                          .mix = in[5]});
            });
  timer.row("lanes_norm with a skip", bytes(9 * x, 17 * x),
            {features(), features(), features(), features(), features(), features(),
             make.fp32({2, r.dim})},
            [&](const auto& in) {
              return two({.terms = {{in[0]}, {in[1]}, {in[2]}, {in[3]}},
                          .weights = weights,
                          .skip = in[4],
                          .shares = shares,
                          .x0 = in[5],
                          .mix = in[6]});
            });
  timer.row("lanes_norm of the mean", bytes(5 * x, 9 * x),
            {features(), features(), features(), features()}, [&](const auto& in) {
              return Tensors{
                  lanes_norm({.terms = {{in[0]}, {in[1]}, {in[2]}, {in[3]}}, .weights = final_lane},
                             {NormOptions{}})
                      .y[0]
                      .rows()};
            });
}

// Inputs that a recipe does not have are undefined.
void memory_bound(OpTimer& timer, const Recipe& r, const Inputs& make) {
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
          TokenEmbedding of{in[0], in[1], {}, {}, {}};
          of.gated_smear = {in[2], in[3], /*bos_id=*/1};
          return Tensors{token_embedding(of)};
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
  if (record) lanes(timer, r, make, x);
  timer.row("residual_norm inside a block", bytes(4 * x, 4 * x),
            {features(r.dim), features(r.dim), none, none, none, none}, residual);
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
  // By 12 channels of what the QKV projection reads, whose gradient that adds.
  const auto gate_input = features(r.dim).detach();
  timer.row(
      "exclusive_attention, gated", bytes(2 * q + v, 3 * q + 2 * v),
      {heads(r.heads), heads(r.kv_heads), make.fp32({r.heads, 12})}, [&](const auto& in) {
        return Tensors{exclusive_attention(in[0], in[1],
                                           {.x = gate_input,
                                            .weight = in[2],
                                            .scale = 0.5,
                                            .x_gradient = std::make_shared<HeadGateGradient>()})};
      });
  timer.row("leaky_relu_squared", bytes(2 * u, 3 * u), {features(r.hidden)},
            [&](const auto& in) { return Tensors{leaky_relu_squared(in[0], r.slope)}; });
  // Forward computes the gradient with the loss: backward has nothing left to do.
  timer.row("softcap_cross_entropy", bytes(2 * z, 0),
            {make({b * t, r.vocab}), make.ids({b * t}, r.vocab)},
            [](const auto& in) { return Tensors{softcap_cross_entropy(in[0], in[1], 30)}; });
  // Operations that the references above consist of.
  timer.row("rms_norm", bytes(2 * x, 3 * x), {features(r.dim)},
            [](const auto& in) { return Tensors{rms_norm(in[0])}; });
  timer.row("rope of q", bytes(2 * q, 2 * q), {heads(r.heads)},
            [&](const auto& in) { return Tensors{rope(in[0], rope_table)}; });
  timer.row("smear", bytes(2 * x, 3 * x), {features(r.dim), make.fp32({r.dim})},
            [](const auto& in) { return Tensors{smear(in[0], in[1])}; });
}

void gemms_and_attention(OpTimer& timer, const Recipe& r, const Inputs& make) {
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
              const auto dots = std::make_shared<InputDots>();
              dots->wanted = true;
              const auto out = linear_residual_norm(
                  in[0], projection, in[1], {.form = NormedForm::scaled_by_row}, dots,
                  choose_linear_residual_norm(in[1], projection, NormedForm::scaled_by_row));
              return Tensors{out.x, out.y.tensor()};
            });

  const double head_flops = 2.0 * static_cast<double>(b * t * r.dim * r.vocab);
  const auto head = matrix(r.vocab, r.dim);
  // The fused head computes its gradients forward.
  const bool fused = supports_fused_head(head.value, 30);
  timer.row("linear_cross_entropy",
            fused ? own_gemms(3 * head_flops, 0) : own_gemms(head_flops, 2 * head_flops),
            {make({b * t, r.dim}), make.ids({b * t}, r.vocab)}, [&](const auto& in) {
              return Tensors{linear_cross_entropy(in[0], head, in[1], {.cap = 30})};
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

  // Backward has five GEMMs, forward two.
  const double flops = 2.0 * static_cast<double>(b * r.heads * hd * t * t);
  const auto left_by_projection =
      at::zeros({r.heads * hd / 64, b * t}, make.options.dtype(at::kFloat));
  timer.row("causal_attention", {Cost::Bound::attention, flops, 2.5 * flops, /*own_kernel=*/true},
            {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd})},
            [&](const auto& in) {
              const auto dots = std::make_shared<InputDots>();
              dots->sums = left_by_projection;
              return Tensors{causal_attention(in[0], in[1], in[2], {.out_dots = dots})};
            });
  timer.row("causal_attention, exclusive",
            {Cost::Bound::attention, flops, 2.5 * flops, /*own_kernel=*/true},
            {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd})},
            [](const auto& in) {
              return Tensors{causal_attention(in[0], in[1], in[2], {.exclusive_v = in[2]})};
            });

  const auto gate_input = make({b, t, r.dim}).detach();
  timer.row("causal_attention, gated",
            {Cost::Bound::attention, flops, 2.5 * flops, /*own_kernel=*/true},
            {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd}),
             make.fp32({r.heads, 12})},
            [&](const auto& in) {
              return Tensors{
                  causal_attention(in[0], in[1], in[2],
                                   {.exclusive_v = in[2],
                                    .gate = {.x = gate_input,
                                             .weight = in[3],
                                             .scale = 0.5,
                                             .x_gradient = std::make_shared<HeadGateGradient>()}})};
            });

  // Some four in a row; the FLOPs are those of the pairs that see each other.
  const auto documents =
      documents_in(at::rand({b, t}) < 4.0 / static_cast<double>(t), make.device());
  const double share = hidden_keys(documents.ends).logical_not().sum().item<double>() * 2 /
                       static_cast<double>(b * t * t);
  timer.row("causal_attention of documents",
            {Cost::Bound::attention, share * flops, share * 2.5 * flops, /*own_kernel=*/true},
            {make({b, t, r.heads, hd}), make({b, t, r.kv_heads, hd}), make({b, t, r.kv_heads, hd})},
            [&](const auto& in) {
              return Tensors{causal_attention(in[0], in[1], in[2], {.documents = documents})};
            });

  // FLOPs of a step: 2·m·m·n for X·Xᵀ, 2·m³ for A·A and 2·m·m·n for B·X, m the shorter side.
  const double m = static_cast<double>(std::min(r.dim, r.hidden));
  const double n = static_cast<double>(std::max(r.dim, r.hidden));
  const double iteration_flops = 5.0 * static_cast<double>(r.layers) * 2 * m * m * (2 * n + m);
  timer.row("newton_schulz of the up bank", gemms(iteration_flops, no_backward),
            {make({r.layers, r.hidden, r.dim})}, [](const auto& in) {
              return Tensors{orthogonalize(in[0], {.steps = muon_quintic(5)})};
            });
  // The same between its two elementwise parts, as a step runs them.
  const auto bank = make.fp32({r.layers, r.hidden, r.dim}).detach();
  const auto momentum = make({r.layers, r.hidden, r.dim}).detach();
  const auto scalar = at::full({}, 0.025, make.options.dtype(at::kFloat));
  const auto never = at::zeros({}, make.options.dtype(at::kBool));
  timer.row("muon of the up bank", own_gemms(iteration_flops, no_backward),
            {make({r.layers, r.hidden, r.dim}).detach()}, [&](const auto& in) {
              const auto ahead = nesterov_momentum(momentum, in[0], scalar, scalar, never);
              decayed_step(bank, orthogonalize(ahead, {.steps = muon_quintic(5)}), scalar, 0.04,
                           1.7);
              return Tensors{bank};
            });
}

// Heads of kMinFusedColumns: without a pass over the logits, and with the one that
// softcap_cross_entropy is.
void heads(OpTimer& timer, const Inputs& make, std::int64_t tokens, std::int64_t columns) {
  for (const std::int64_t dim : {512, 768}) {
    const double flops = 2.0 * static_cast<double>(tokens * dim * columns);
    const auto value = at::randn({columns, dim}, make.options) * 0.05;
    const auto head = test::fp8_weight(value);
    const Weight in_bf16{head.value, head.gradient};
    const auto x = make({tokens, dim});
    // As the norm before the head leaves it.
    const auto rounded = to_fp8(x.detach(), head.fp8.input);
    const Tensors inputs{x, make.ids({tokens}, columns)};
    const auto row = [&](const char* form, const Cost& cost, const Operation& run) {
      timer.row(fmt::format("{} x {}, {}", columns, dim, form), cost, inputs, run);
    };
    row("fused", gemms(3 * flops, 0), [&](const auto& in) {
      return Tensors{linear_cross_entropy(in[0], in_bf16, in[1], {.cap = 30})};
    });
    row("fused, FP8", gemms(3 * flops, 0), [&](const auto& in) {
      return Tensors{linear_cross_entropy({in[0], rounded}, head, in[1], {.cap = 30})};
    });
    row("unfused", gemms(flops, 2 * flops), [&](const auto& in) {
      return Tensors{softcap_cross_entropy(linear(in[0], in_bf16), in[1], 30)};
    });
  }
}

constexpr std::string_view kHeads = "heads";

void run(int argc, char** argv) {
  const std::vector<std::string_view> names(argv + 1, argv + argc);
  const at::Device device = at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  for (const auto name : names) {
    REQUIRE(name == kHeads || std::any_of(std::begin(kRecipes), std::end(kRecipes),
                                          [&](const Recipe& r) { return name == r.name; }),
            ExitCode::usage, "usage: op_bench [record] [speedrun_124m] [heads], got '{}'", name);
  }
  const Inputs make{at::TensorOptions(device).dtype(device.is_cuda() ? at::kBFloat16 : at::kFloat)};
  OpTimer timer(device);
  for (Recipe recipe : kRecipes) {
    if (!names.empty() && std::find(names.begin(), names.end(), recipe.name) == names.end())
      continue;
    if (!device.is_cuda()) recipe = tiny(recipe);
    const auto tokens = recipe.batch * recipe.seq_len, head_dim = recipe.dim / recipe.heads;
    use_attention(choose_attention("auto", device, make.dtype(), head_dim));
    fmt::print("\n{}, operations of a micro-step of {} tokens\n", recipe.name, tokens);
    {
      const at::NoGradGuard no_grad;
      const auto plain = [&](at::IntArrayRef shape) { return at::randn(shape, make.options); };
      timer.measure_ceilings({plain({8 * tokens, recipe.dim})},
                             {{plain({tokens, recipe.dim}), plain({recipe.hidden, recipe.dim})},
                              {plain({tokens, recipe.hidden}), plain({recipe.dim, recipe.hidden})}},
                             {recipe.batch, recipe.seq_len, recipe.heads, head_dim});
    }
    fmt::print("{:38}{:>9}{:>16}{:>8}{:>11}{:>9}\n", "", "ms", "", "share", "FUSED=0 ms", "ratio");
    memory_bound(timer, recipe, make);
    gemms_and_attention(timer, recipe, make);
  }
  if (!names.empty() && std::find(names.begin(), names.end(), kHeads) == names.end()) return;
  const std::int64_t tokens = device.is_cuda() ? 65536 : 16, columns = device.is_cuda() ? 8192 : 64;
  fmt::print("\n{}, of {} tokens\n", kHeads, tokens);
  {
    const at::NoGradGuard no_grad;
    const auto plain = [&](at::IntArrayRef shape) { return at::randn(shape, make.options); };
    timer.measure_ceilings({plain({tokens, 512})},
                           {{plain({tokens, 512}), plain({columns, 512})},
                            {plain({tokens, 768}), plain({columns, 768})}},
                           {1, 64, 8, 64});
  }
  heads(timer, make, tokens, columns);
}

}  // namespace
}  // namespace tg

int main(int argc, char** argv) {
  return tg::run_program([&] { tg::run(argc, argv); });
}
