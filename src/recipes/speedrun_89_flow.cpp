#include <array>

#include "model/layers.h"
#include "ops/embedding/bigram_hash.h"
#include "ops/mlp/token_gates.h"
#include "recipes/speedrun_89.h"

namespace tg::record_89 {

namespace {

// Number i of each token, [B, T, 1].
at::Tensor column(const at::Tensor& numbers, std::int64_t i) {
  return numbers.narrow(-1, i, 1);
}
// Numbers of the heads, [B, T, heads].
at::Tensor heads_at(const at::Tensor& numbers, std::int64_t first) {
  return numbers.narrow(-1, first, kHeads);
}

class ForwardPass {
 public:
  // All arguments must outlive it.
  ForwardPass(const FlowParameters& parameters, const Layers& layers, const PassInputs& inputs,
              const at::Tensor& ids_bt, const at::Tensor& x0_btd)
      : parameters_(parameters),
        layers_(layers),
        inputs_(inputs),
        x0_(x0_btd),
        bigrams_(bigram_embedding(ids_bt)),
        values_(value_embeddings(ids_bt)),
        pre_(gates(0, x0_btd, pre::kCount)) {}

  NormedInput run(const std::vector<LayerCall>& calls) {
    MixTerms x = {{.tensor = x0_}, {.tensor = bigrams_, .weight = column(pre_, pre::kPairs + 1)}};
    for (const auto& call : calls) {
      const Layer layer(layers_, call, inputs_, x0_);
      if (call.block == kWithoutAttention)
        x = without_attention(layer, x);
      else
        x = call.block == kLast ? last(layer, x) : block(layer, x);
    }
    return final_norm(residual_sum(x));
  }

 private:
  MixTerms block(const Layer& layer, const MixTerms& x) {
    const auto i = layer.call().block;
    const auto entry = layer.norm_for_attention(x);
    if (i == 0) c0_ = entry.x;
    if (i == 4) {
      c3_ = entry.x;
      post_ = gates(1, c3_, post::kCount);
    }
    if (i == 8) {
      c7_ = entry.x;
      c7_norm_ = entry.y;
    }
    const auto& n = i < 8 ? entry.y : c7_norm_;
    const auto attended = layer.attention(n, gated_values(i, n), /*first_v=*/{}, head_weights(i));
    auto branch = layer.project(attended);
    branch.weight = lambda(parameters_.branch, i, 0);
    const auto [x0_gate, bigram_gate] = pair(i);
    MixTerms terms = {{.tensor = entry.x, .weight = lambda(parameters_.resid, i, 0)},
                      branch,
                      {.tensor = x0_, .weight = x0_gate}};
    if (i > 0) terms.push_back({.tensor = bigrams_, .weight = bigram_gate});
    return mlp(layer, terms);
  }

  MixTerms without_attention(const Layer& layer, MixTerms x) {
    const auto weight = layers_[parameters_.skip].sigmoid().to(post_.scalar_type());
    x.push_back({.tensor = c3_, .weight = weight * column(post_, post::kSkip)});
    return mlp(layer, x);
  }

  // λ·x + λ'·mlp(n(x)) of the sum x of the terms.
  MixTerms mlp(const Layer& layer, const MixTerms& terms) {
    const auto i = layer.call().block;
    const auto middle = layer.norm_for_mlp(terms);
    auto branch = layer.mlp(middle.y);
    branch.weight = lambda(parameters_.branch, i, 1);
    return {{.tensor = middle.x, .weight = lambda(parameters_.resid, i, 1)}, branch};
  }

  MixTerms last(const Layer& layer, const MixTerms& terms) {
    c9_ = residual_sum(terms);
    const auto mixes = this->mixes(0, c9_, kLastMixes);
    const auto m = [&](std::int64_t i) { return column(mixes, i); };
    const auto half = [&](std::int64_t i) { return m(i).expand({-1, -1, kHeads / 2}); };
    const auto values =
        residual_sum({{.tensor = by_head(values_[4], at::cat({half(6), half(7)}, -1))},
                      {.tensor = c0_, .weight = m(0)},
                      {.tensor = c7_, .weight = m(1)},
                      {.tensor = c9_, .weight = m(2)}});
    const auto x = residual_sum({{.tensor = c9_, .weight = 1 + m(5)},
                                 {.tensor = c0_, .weight = m(3)},
                                 {.tensor = c7_, .weight = m(4)}});
    const auto attended =
        layer.attention(c7_norm_, layers_.as_values(values), /*first_v=*/{}, head_weights(kLast));
    auto branch = layer.project(attended);
    branch.weight = m(9);
    const auto middle = layer.norm_for_mlp({{.tensor = x, .weight = m(8)},
                                            branch,
                                            {.tensor = c0_, .weight = m(10)},
                                            {.tensor = bigrams_, .weight = m(11)}});
    auto up = layer.mlp(middle.y);
    up.weight = m(13);
    return {{.tensor = middle.x, .weight = m(12)}, up};
  }

  NormedInput final_norm(const at::Tensor& x) const {
    const auto mixes = this->mixes(1, x, kFinalMixes);
    MixTerms terms = {{.tensor = x}};
    for (const auto& state : {c0_, c7_, c9_, values_[0], c3_})
      terms.push_back({.tensor = state, .weight = column(mixes, std::ssize(terms) - 1)});
    auto sum = residual_sum(terms);
    if (inputs_.only) sum = sum.narrow(1, inputs_.only->from, inputs_.only->count()).contiguous();
    return residual_norm({{.tensor = sum}}, layers_.head_norm(inputs_)).y;
  }

  // β: rows of the bigram table, times their signs.
  at::Tensor bigram_embedding(const at::Tensor& ids_bt) const {
    const auto rows = bigram_hash_in_place(ids_bt, layers_[parameters_.bigrams].size(0));
    const auto signs = layers_[parameters_.signs];
    const auto sign_rows = signs.index({bigram_sign_rows(ids_bt, signs.size(0))});
    return layers_.widened(layers_.embedding(parameters_.bigrams, rows) *
                           sign_rows.to(x0_.scalar_type()));
  }

  // Rows of each value table, [B, T, D].
  std::array<at::Tensor, kValueTables> value_embeddings(const at::Tensor& ids_bt) const {
    const auto vocab = layers_.plan().shape.vocab;
    const auto offsets = vocab * at::arange(kValueTables, ids_bt.options()).view({-1, 1, 1});
    const auto rows = layers_.embedding(parameters_.value_tables, ids_bt + offsets);
    std::array<at::Tensor, kValueTables> values;
    for (std::size_t k = 0; k < values.size(); ++k)
      values[k] = layers_.widened(rows[static_cast<std::int64_t>(k)]);
    return values;
  }

  at::Tensor gates(std::int64_t network, const at::Tensor& x, std::int64_t count) const {
    const auto& p = parameters_;
    return token_gates(x, network_of(p.gate_w1, p.gate_w2, p.gate_b2, network, count),
                       layers_[p.gate_scale]);
  }
  at::Tensor mixes(std::int64_t network, const at::Tensor& x, std::int64_t count) const {
    const auto& p = parameters_;
    return token_gates(x, network_of(p.mudd_w1, p.mudd_w2, p.mudd_b2, network, count), 0.1);
  }
  // The first `count` outputs of a network.
  TokenGateWeights network_of(ParameterId w1, ParameterId w2, ParameterId b2, std::int64_t network,
                              std::int64_t count) const {
    return {layers_.widened(layers_[w1][network]), layers_[w2][network].narrow(0, 0, count),
            layers_[b2][network].narrow(0, 0, count)};
  }

  // λ of a block: of its attention, or with `part` 1 of its MLP.
  at::Tensor lambda(ParameterId parameter, std::int64_t block, std::int64_t part) const {
    return layers_[parameter][block][part];
  }

  // Gates of the embedding and of the bigram embedding.
  std::array<at::Tensor, 2> pair(std::int64_t block) const {
    const auto of_later = block - (block > kWithoutAttention ? 5 : 4);
    const auto& numbers = block < 4 ? pre_ : post_;
    const auto at = block < 4 ? pre::kPairs + 2 * block : post::kPairs + 2 * of_later;
    return {column(numbers, at), column(numbers, at + 1)};
  }

  TokenHeadWeights head_weights(std::int64_t block) const {
    switch (block) {
      case 1:
        return {.exclusive = heads_at(pre_, pre::kExclusive1)};
      case 3:
        return {.exclusive = heads_at(pre_, pre::kExclusive3),
                .gate = heads_at(pre_, pre::kHeadGate3)};
      case 4:
        return {.exclusive = heads_at(post_, post::kExclusive4)};
      case 7:
        return {.exclusive = heads_at(post_, post::kExclusive7)};
      case kLast:
        return {.gate = heads_at(post_, post::kHeadGate10),
                .pre = heads_at(post_, post::kCompose),
                .post = heads_at(post_, post::kCompose + kHeads)};
      default:
        return {};
    }
  }

  // x [B, T, D], each head times its weight [B, T, heads].
  at::Tensor by_head(const at::Tensor& x, const at::Tensor& weights) const {
    const auto channels = layers_.plan().shape.head_dim;
    const auto heads = x.narrow(-1, 0, kHeads * channels).unflatten(-1, {kHeads, channels});
    return layers_.widened((heads * weights.unsqueeze(-1)).flatten(-2));
  }

  // 2·σ(W·[n[:6], v[:6]])·v for the rows v of the block's value table; undefined if it has none.
  at::Tensor gated_values(std::int64_t block, const NormedInput& n) const {
    const auto table = value_table(block);
    if (table < 0) return {};
    const auto& v = values_[static_cast<std::size_t>(table)];
    const auto inputs = at::cat({n.rows().narrow(-1, 0, 6), v.narrow(-1, 0, 6)}, -1);
    const auto weight = layers_[parameters_.value_gates][table].to(v.scalar_type());
    return layers_.as_values(by_head(v, 2 * at::linear(inputs, weight).sigmoid()));
  }

  const FlowParameters& parameters_;
  const Layers& layers_;
  const PassInputs& inputs_;
  const at::Tensor x0_;
  const at::Tensor bigrams_;  // β
  const std::array<at::Tensor, kValueTables> values_;
  const at::Tensor pre_;          // gates from x0
  at::Tensor post_;               // gates from c3
  at::Tensor c0_, c3_, c7_, c9_;  // x before block 0, after 3, 7 and 9
  NormedInput c7_norm_;
};

}  // namespace

Flow flow(const FlowParameters& parameters) {
  return [parameters](const Layers& layers, const Pass& pass, const PassInputs& inputs,
                      const at::Tensor& ids_bt, const at::Tensor& x0_btd) {
    return ForwardPass(parameters, layers, inputs, ids_bt, x0_btd).run(pass.calls);
  };
}

}  // namespace tg::record_89
