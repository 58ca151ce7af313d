// The recipes of records 89 and 91 against their formula in fp64.
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <map>

#include "ops/norm/rms_norm.h"
#include "tests/model/fixtures.h"

namespace tg {
namespace {

constexpr std::int64_t kVocab = 40, kDim = 48, kHeads = 6, kChannels = 8, kTokens = 20;
// Channels of a query or key head of record 91, beside kChannels of a value head.
constexpr std::int64_t kNarrow = 4;

// Windows of 3 and 5 tokens, then of 5 and 9.
Settings tiny(RecipeChoice recipe) {
  Settings settings;
  set_recipe_defaults(recipe, settings);
  auto& model = settings.model;
  if (recipe == RecipeChoice::speedrun_91) model.qk_head_dim = kNarrow;
  model.vocab_size = kVocab;
  model.model_dim = model.bigram_dim = kDim;
  model.mlp_mult = 2;
  model.bigram_vocab_size = 30;
  model.bigram_sign_rows = 7;
  model.gates.mudd_dim = 5;
  model.gates.dc_window = 4;
  model.windows.window_block = 2;
  model.windows.short_window = CountSchedule({{1, 0}, {2, 4}});
  model.windows.long_window = CountSchedule({{2, 0}, {4, 4}});
  model.windows.final_long_window = 6;
  return settings;
}

// The forward pass as the script computes it, row [T, …] by row, with no kernel in common.
class Formula {
 public:
  Formula(const ParameterTable& table, const Settings& settings, const Stage& stage,
          at::Tensor segments)
      : table_(table), settings_(settings), pass_(stage.pass), segments_(std::move(segments)) {}

  at::Tensor states(const at::Tensor& ids) const {
    const auto e = at::embedding(w("tok_emb.weight"), ids);
    const auto gate = at::linear(e.slice(1, 0, 12), w("smear_gate.weight")).sigmoid();
    const auto x0 = rms_norm(e + w("smear_lambda") * gate * shifted(e));
    const auto beta = bigrams(ids);
    std::array<at::Tensor, 5> ve;
    for (std::int64_t k = 0; k < 5; ++k)
      ve[static_cast<std::size_t>(k)] = at::embedding(w("value_embeds"), ids + k * kVocab);
    const auto pre = w("mudd_gate_scale") * network("mudd_gate", 0, x0);
    auto x = x0 + column(pre, 19) * beta;
    const auto c0 = x;
    at::Tensor c3, c7, post;
    for (std::int64_t i = 0; i < 10; ++i) {
      if (i == 4) c3 = x, post = w("mudd_gate_scale") * network("mudd_gate", 1, x);
      if (i == 8) c7 = x;
      if (i == 6) {
        x = x + w("skip_lambda").sigmoid() * column(post, 28) * c3;
      } else {
        const auto a = rms_norm(i < 8 ? x : c7);
        Extra extra;
        static const std::map<std::int64_t, std::int64_t> tables = {{1, 0}, {2, 1}, {8, 2}, {9, 3}};
        if (const auto found = tables.find(i); found != tables.end()) {
          const auto& v = ve[static_cast<std::size_t>(found->second)];
          const auto both = at::cat({a.slice(1, 0, 6), v.slice(1, 0, 6)}, 1);
          const auto gates = 2 * at::linear(both, w("ve_gate_bank")[found->second]).sigmoid();
          extra.values = heads(v) * gates.unsqueeze(-1);
        }
        if (i == 1) extra.exclusive = pre.slice(1, 0, 6);
        if (i == 3) extra.exclusive = pre.slice(1, 6, 12), extra.gate = pre.slice(1, 12, 18);
        if (i == 4) extra.exclusive = post.slice(1, 0, 6);
        if (i == 7) extra.exclusive = post.slice(1, 6, 12);
        static const std::map<std::int64_t, std::int64_t> pairs = {
            {0, 18}, {1, 20}, {2, 22}, {3, 24}, {4, 18}, {5, 20}, {7, 22}, {8, 24}, {9, 26}};
        const auto& gates = i < 4 ? pre : post;
        const auto at = pairs.at(i);
        x = lambda("resid", i, 0) * x + lambda("post", i, 0) * attention(i, a, extra) +
            column(gates, at) * x0;
        if (i > 0) x = x + column(gates, at + 1) * beta;
      }
      x = lambda("resid", i, 1) * x + lambda("post", i, 1) * mlp(i, x);
    }
    const auto c9 = x;
    const auto m = 0.1 * network("mudd", 0, x);
    const auto half = at::cat({column(m, 6).expand({-1, 3}), column(m, 7).expand({-1, 3})}, 1);
    Extra extra;
    extra.gate = post.slice(1, 12, 18);
    extra.w1 = post.slice(1, 29, 35), extra.w2 = post.slice(1, 35, 41);
    extra.values = half.unsqueeze(-1) * heads(ve[4]) +
                   heads(column(m, 0) * c0 + column(m, 1) * c7 + column(m, 2) * x);
    x = (1 + column(m, 5)) * x + column(m, 3) * c0 + column(m, 4) * c7;
    x = column(m, 8) * x + column(m, 9) * attention(10, rms_norm(c7), extra) + column(m, 10) * c0 +
        column(m, 11) * beta;
    x = column(m, 12) * x + column(m, 13) * mlp(10, x);
    const auto end = 0.1 * network("mudd", 1, x);
    x = x + column(end, 0) * c0 + column(end, 1) * c7 + column(end, 2) * c9 +
        column(end, 3) * ve[0] + column(end, 4) * c3;
    return rms_norm(x);
  }

  // Mean of the next tokens' losses.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets) const {
    const auto z = at::linear(states(ids), w("lm_head.weight"));
    return at::cross_entropy_loss(23 * ((z + 5) / 7.5).sigmoid(), targets);
  }

 private:
  struct Extra {
    at::Tensor values, exclusive, gate, w1, w2;
  };

  const at::Tensor& w(const std::string& name) const { return table_[name]; }
  // Matrix of a block in a bank, whose matrices lie kind by kind.
  at::Tensor matrix(const std::string& bank, std::int64_t block, std::int64_t kind) const {
    const bool all = bank.starts_with("mlp");
    return w(bank)[kind * 10 + (all || block < 6 ? block : block - 1)];
  }
  // Whether values and output projections are in one bank, as in record 89.
  bool one_bank() const { return settings_.model.recipe == RecipeChoice::speedrun_89; }
  at::Tensor lambda(const std::string& name, std::int64_t block, std::int64_t part) const {
    return w(name + "_lambdas")[block][part];
  }
  static at::Tensor column(const at::Tensor& x, std::int64_t i) { return x.slice(1, i, i + 1); }
  static at::Tensor heads(const at::Tensor& x) { return x.unflatten(1, {kHeads, -1}); }
  static at::Tensor shifted(const at::Tensor& x) {
    return at::cat({at::zeros_like(x.slice(0, 0, 1)), x.slice(0, 0, -1)});
  }
  at::Tensor network(const std::string& name, std::int64_t i, const at::Tensor& x) const {
    const auto hidden = at::gelu(at::linear(x, w(name + "_w1")[i]));
    return at::linear(hidden, w(name + "_w2")[i], w(name + "_b2")[i]);
  }
  at::Tensor mlp(std::int64_t i, const at::Tensor& x) const {
    const auto hidden = at::linear(rms_norm(x), matrix("mlp_up_bank", i, 0)).relu();
    return at::linear(hidden * hidden, matrix("mlp_down_bank", i, 0));
  }
  at::Tensor bigrams(const at::Tensor& ids) const {
    const auto modulus = w("bigram_embed.weight").size(0) - 1;
    auto rows = at::empty_like(ids), signs = at::empty_like(ids);
    for (std::int64_t t = 0; t < ids.size(0); ++t) {
      const auto now = ids[t].item<std::int64_t>();
      const auto before = t == 0 ? 0 : ids[t - 1].item<std::int64_t>();
      rows[t] =
          t == 0 ? modulus : ((36313 * now) ^ (27191 * (t == 1 ? modulus : before))) % modulus;
      signs[t] = t == 0 ? 0 : (before ^ now) % settings_.model.bigram_sign_rows;
    }
    return at::embedding(w("bigram_embed.weight"), rows) *
           at::embedding(w("bigram_sign_table").detach(), signs);
  }
  // x [n, heads, channels] at positions [n, heads].
  at::Tensor rotated(const at::Tensor& x, const at::Tensor& positions) const {
    const auto angle = positions.unsqueeze(-1) * pass_.rope_frequencies.to(at::kDouble);
    const auto half = x.size(-1) / 2;
    const auto lower = x.slice(-1, 0, half);
    const auto a = lower.slice(-1, 0, {}, 2), b = lower.slice(-1, 1, {}, 2);
    const auto pairs =
        at::stack({a * angle.cos() + b * angle.sin(), b * angle.cos() - a * angle.sin()}, -1)
            .flatten(-2);
    return at::cat({pairs, x.slice(-1, half)}, -1);
  }
  // Shares of the keys for each query of elements in `segments` that see `window` of them.
  at::Tensor shares(const at::Tensor& q, const at::Tensor& k, const at::Tensor& segments,
                    std::int64_t window) const {
    const auto t = at::arange(q.size(0));
    const auto back = t.unsqueeze(1) - t.unsqueeze(0);
    const auto seen = back.ge(0)
                          .logical_and(back.lt(window))
                          .logical_and(segments.unsqueeze(1).eq(segments.unsqueeze(0)));
    const auto scores = pass_.attention_scale * at::einsum("thd,shd->hts", {q, k});
    return scores.masked_fill(seen.logical_not(), -1e30).softmax(-1);
  }
  at::Tensor attention(std::int64_t i, const at::Tensor& a, const Extra& extra) const {
    const auto block = "blocks." + std::to_string(i) + ".";
    const auto scale = w(block + "attn.qkv_scale");
    const auto project = [&](const at::Tensor& weight) {
      return heads(at::linear(a, scale * weight));
    };
    const bool paired = i == 0 || i == 2 || i == 5 || i == 9, is_long = i == 3 || i == 10;
    const auto token = at::arange(kTokens, at::kDouble).unsqueeze(1);
    const auto parity = at::arange(kHeads, at::kDouble).remainder(2);
    const auto positions = paired ? 2 * token + parity : token.expand({-1, kHeads});
    auto q = rotated(rms_norm(project(matrix("qk_bank", i, 0))), positions);
    auto k = rotated(rms_norm(project(matrix("qk_bank", i, 1))), positions);
    auto v = project(matrix(one_bank() ? "vo_bank" : "v_bank", i, 0));
    if (is_long) {
      const auto half = k.size(-1) / 2;
      const auto kept = k.slice(-1, half);
      k = at::cat({k.slice(-1, 0, half), at::cat({kept.slice(0, 0, 1), kept.slice(0, 0, -1)})}, -1);
    }
    if (extra.values.defined()) v = v + extra.values;
    const auto window = pass_.calls[is_long ? 3 : 0].window;
    at::Tensor y;
    if (paired) {
      // Element 2t + p has heads 3p, 3p + 1 and 3p + 2 of token t.
      const auto elements = [](const at::Tensor& x) {
        return at::stack({x.slice(1, 0, 3), x.slice(1, 3, 6)}, 1).flatten(0, 1);
      };
      const auto segments = segments_.repeat_interleave(2);
      const auto mixed = at::einsum(
          "hts,shd->thd", {shares(elements(q), elements(k), segments, window), elements(v)});
      y = at::cat({mixed.slice(0, 0, {}, 2), mixed.slice(0, 1, {}, 2)}, 1);
    } else {
      y = at::einsum("hts,shd->thd", {shares(q, k, segments_, window), v});
    }
    if (extra.w1.defined()) {
      const auto near = shares(q, k, segments_, settings_.model.gates.dc_window);
      const auto w1 = extra.w1 / (extra.w1.square().mean(1, true) + 1e-6).sqrt();
      const auto composed = at::einsum("th,hts->ts", {w1, near});
      y = y + extra.w2.unsqueeze(-1) * at::einsum("ts,shd->thd", {composed, v});
    }
    if (extra.exclusive.defined()) {
      const auto along = (y * v).sum(-1, true) / v.square().sum(-1, true).clamp_min(1e-8);
      y = y - extra.exclusive.tanh().unsqueeze(-1) * along * v;
    }
    if (extra.gate.defined()) y = y * extra.gate.unsqueeze(-1);
    const auto out = one_bank() ? matrix("vo_bank", i, 1) : matrix("o_bank", i, 0);
    return at::linear(y.flatten(1), w(block + "attn_scale") * out);
  }

  const ParameterTable& table_;
  const Settings& settings_;
  const Pass& pass_;
  const at::Tensor segments_;  // [T], each token's
};

class Speedrun89 : public testing::TestWithParam<RecipeChoice> {
 protected:
  Speedrun89() {
    std::uint64_t seed = 1;
    for (const auto& row : table_.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++) * 0.4);
  }

  const Settings settings_ = tiny(GetParam());
  const ModelSpec spec_ = model_spec(settings_);
  const ParameterTable table_ = make_parameters(spec_, settings_, at::kDouble, at::kCPU);
  const at::Tensor tokens_ = test::integers({1, kTokens + 1}, kVocab, 2),
                   inputs_ = tokens_.slice(1, 0, -1), targets_ = tokens_.slice(1, 1);
  const at::Tensor segments_ = at::arange(kTokens).ge(13).to(at::kLong);
  const Documents documents_ =
      documents_at(at::tensor({0, 13, 20}, at::kInt), 1, kTokens, /*longest=*/kTokens);
};

TEST_P(Speedrun89, LossAndEveryGradientAreTheFormulasInEveryStage) {
  ASSERT_EQ(spec_.plan.stages.size(), 3);
  for (std::size_t stage = 0; stage < 3; ++stage) {
    SCOPED_TRACE(stage);
    Gpt model(spec_.plan, table_, {.compute = at::kDouble});
    model.set_stage(static_cast<std::int64_t>(stage));
    for (const auto& row : table_.rows())
      if (row.value.grad().defined()) row.value.mutable_grad().zero_();
    const auto loss = model.loss(inputs_, targets_, {}, documents_);
    loss.backward();
    model.collect_gradients();
    const auto expected = Formula(table_, settings_, spec_.plan.stages[stage], segments_)
                              .loss(inputs_[0], targets_[0]);
    EXPECT_TRUE(test::is_close(loss, expected, 1e-12, 0)) << loss << expected;
    std::vector<at::Tensor> leaves;
    for (const auto& row : table_.rows())
      if (row.update.optimized()) leaves.push_back(row.value);
    const auto right = torch::autograd::grad({expected}, leaves);
    std::size_t i = 0;
    for (const auto& row : table_.rows()) {
      if (!row.update.optimized()) continue;
      EXPECT_TRUE(test::is_close(row.value.grad(), right[i], 1e-9, 1e-12)) << row.name;
      EXPECT_TRUE(right[i].abs().sum().item<double>() > 0) << row.name << " is not read";
      ++i;
    }
  }
}

TEST_P(Speedrun89, LogitsOfAFewPositionsAreThoseOfAWholePass) {
  const Gpt model(spec_.plan, table_, {.compute = at::kDouble});
  const auto whole = model.logits(inputs_, {0, kTokens}, kTokens);
  EXPECT_TRUE(
      test::is_close(model.logits(inputs_, {4, 7}, kTokens), whole.narrow(1, 4, 3), 1e-12, 1e-13));
}

INSTANTIATE_TEST_SUITE_P(Records, Speedrun89,
                         testing::Values(RecipeChoice::speedrun_89, RecipeChoice::speedrun_91),
                         [](const auto& given) { return std::string(choice_name(given.param)); });

}  // namespace
}  // namespace tg
