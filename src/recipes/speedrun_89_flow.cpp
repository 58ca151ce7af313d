#include <array>

#include "model/layers.h"
#include "ops/attention/gates/scaled_heads.h"
#include "ops/embedding/bigram_hash.h"
#include "ops/mlp/token_gates.h"
#include "recipes/speedrun_89.h"

namespace tg::record_89 {

namespace {

// Groups of columns of the gates. Autograd joins the gradients of a split in one pass; narrow()'s
// gradient would be a tensor of all columns for each group.
struct GatesOfX0 {
  at::Tensor exclusive_1, exclusive_3, head_3;  // [B, T, heads]

  explicit GatesOfX0(const at::Tensor& gates) {
    const auto groups =
        gates.split_with_sizes({kHeads, kHeads, kHeads, pre::kCount - pre::kPairs}, -1);
    exclusive_1 = groups[0], exclusive_3 = groups[1], head_3 = groups[2];
  }
};
struct GatesOfC3 {
  at::Tensor exclusive_4, exclusive_7, head_10, compose_pre, compose_post;  // [B, T, heads]
  at::Tensor skip;                                                          // [B, T, 1]

  GatesOfC3() = default;
  explicit GatesOfC3(const at::Tensor& gates) {
    const auto groups = gates.split_with_sizes(
        {kHeads, kHeads, kHeads, post::kSkip - post::kPairs, 1, kHeads, kHeads}, -1);
    exclusive_4 = groups[0], exclusive_7 = groups[1], head_10 = groups[2], skip = groups[4];
    compose_pre = groups[5], compose_post = groups[6];
  }
};
// A shared tensor as a term.
MixTerm term(const SharedTensor& x, const MixWeight& weight = {}) {
  return {.tensor = x.tensor, .weight = weight, .shared = x.gradient};
}

class ForwardPass {
 public:
  // All arguments must outlive it.
  ForwardPass(const FlowParameters& parameters, const Layers& layers, const PassInputs& inputs,
              const at::Tensor& ids_bt, const at::Tensor& x0_btd)
      : parameters_(parameters),
        layers_(layers),
        inputs_(inputs),
        x0_(shared(x0_btd)),
        bigrams_(shared(bigram_embedding(ids_bt))),
        values_(value_embeddings(ids_bt)),
        resid_(layers[parameters.resid].flatten().unbind()),
        branch_(layers[parameters.branch].flatten().unbind()),
        pre_(gates(0, x0_, pre::kCount)),
        of_x0_(pre_.tensor) {}

  NormedInput run(const std::vector<LayerCall>& calls) {
    MixTerms x = {term(x0_), term(bigrams_, {pre_, pre::kPairs + 1})};
    for (const auto& call : calls) {
      const Layer layer(layers_, call, inputs_, x0_.tensor);
      if (call.block == kWithoutAttention)
        x = without_attention(layer, x);
      else
        x = call.block == kLast ? last(layer, x) : block(layer, x);
    }
    return final_norm(shared(residual_sum(x)));
  }

 private:
  MixTerms block(const Layer& layer, const MixTerms& x) {
    const auto i = layer.call().block;
    const auto entry = i <= 8
                           ? layer.norm_for_attention(x)
                           : ResidualNorm{.sum = {}, .x = residual_sum(x), .y = c7_norm_, .x0 = {}};
    const bool is_read_later = i == 0 || i == 4 || i == 8;
    const auto in = is_read_later ? shared(entry.x) : SharedTensor{entry.x};
    if (i == 0) c0_ = in;
    if (i == 4) {
      c3_ = in;
      post_ = gates(1, c3_, post::kCount);
      of_c3_ = GatesOfC3(post_.tensor);
    }
    if (i == 8) {
      c7_ = in;
      // Without the copy in FP8, which has the scale of block 8.
      c7_norm_ = NormedInput(entry.y.rows());
    }
    const auto [n, values] = gated_values(i, entry.y);
    const auto attended = layer.attention(n, values, /*first_v=*/{}, head_weights(i));
    auto branch = layer.project(attended);
    branch.weight = branch_[index(i, 0)];
    MixTerms terms = {term(in, resid_[index(i, 0)]), branch, term(x0_, pair(i, 0))};
    if (i > 0) terms.push_back(term(bigrams_, pair(i, 1)));
    return mlp(layer, terms);
  }

  MixTerms without_attention(const Layer& layer, MixTerms x) {
    const auto weight = layers_[parameters_.skip].sigmoid().to(post_.tensor.scalar_type());
    x.push_back(term(c3_, weight * of_c3_.skip));
    return mlp(layer, x);
  }

  // λ·x + λ'·mlp(n(x)) of the sum x of the terms.
  MixTerms mlp(const Layer& layer, const MixTerms& terms) {
    const auto i = layer.call().block;
    const auto middle = layer.norm_for_mlp(terms);
    auto branch = layer.mlp(middle.y);
    branch.weight = branch_[index(i, 1)];
    return {{.tensor = middle.x, .weight = resid_[index(i, 1)]}, branch};
  }

  // With x' = (1 + m5)·x + m3·c0 + m4·c7, the sum before the MLP is m8·x' + m9·attention + m10·c0 +
  // m11·β.
  MixTerms last(const Layer& layer, const MixTerms& terms) {
    c9_ = shared(residual_sum(terms));
    const auto mixes = this->mixes(0, c9_, kLastMixes);
    const auto m = mixes.tensor.split(1, -1);
    const auto half = [&](std::size_t i) { return m[i].expand({-1, -1, kHeads / 2}); };
    const auto values =
        residual_sum({{.tensor = by_head(values_[4].tensor, at::cat({half(6), half(7)}, -1))},
                      term(c0_, {mixes, 0}),
                      term(c7_, {mixes, 1}),
                      term(c9_, {mixes, 2})});
    const auto attended =
        layer.attention(c7_norm_, layers_.as_values(values), /*first_v=*/{}, head_weights(kLast));
    auto branch = layer.project(attended);
    branch.weight = {mixes, 9};
    const auto middle = layer.norm_for_mlp({term(c9_, m[8] * (1 + m[5])), branch,
                                            term(c0_, at::addcmul(m[10], m[8], m[3])),
                                            term(c7_, m[8] * m[4]), term(bigrams_, {mixes, 11})});
    auto up = layer.mlp(middle.y);
    up.weight = {mixes, 13};
    return {{.tensor = middle.x, .weight = {mixes, 12}}, up};
  }

  NormedInput final_norm(const SharedTensor& x) const {
    const auto mixes = this->mixes(1, x, kFinalMixes);
    MixTerms terms = {term(x)};
    for (const auto& state : {c0_, c7_, c9_, values_[0], c3_})
      terms.push_back(term(state, {mixes, std::ssize(terms) - 1}));
    const auto norm = layers_.head_norm(inputs_);
    if (!inputs_.only) return residual_norm(terms, norm).y;
    const auto sum = residual_sum(terms);
    return residual_norm(
               {{.tensor = sum.narrow(1, inputs_.only->from, inputs_.only->count()).contiguous()}},
               norm)
        .y;
  }

  // β: rows of the bigram table, times their signs.
  at::Tensor bigram_embedding(const at::Tensor& ids_bt) const {
    const auto rows = bigram_hash_in_place(ids_bt, layers_[parameters_.bigrams].size(0));
    const auto signs = layers_[parameters_.signs];
    const auto sign_rows = signs.index({bigram_sign_rows(ids_bt, signs.size(0))});
    return layers_.widened(layers_.embedding(parameters_.bigrams, rows) *
                           sign_rows.to(x0_.tensor.scalar_type()));
  }

  // Rows of each value table, [B, T, D].
  std::array<SharedTensor, kValueTables> value_embeddings(const at::Tensor& ids_bt) const {
    std::array<SharedTensor, kValueTables> values;
    for (std::int64_t k = 0; k < kValueTables; ++k) {
      const auto rows =
          layers_.embedding(parameters_.value_tables, ids_bt, inputs_.id_order, {k, kValueTables});
      values[static_cast<std::size_t>(k)] = shared(layers_.widened(rows));
    }
    return values;
  }

  SharedTensor gates(std::int64_t network, const SharedTensor& x, std::int64_t count) const {
    const auto& p = parameters_;
    return shared(token_gates(x, network_of(p.gate_w1, p.gate_w2, p.gate_b2, network, count),
                              layers_[p.gate_scale]));
  }
  SharedTensor mixes(std::int64_t network, const SharedTensor& x, std::int64_t count) const {
    const auto& p = parameters_;
    return shared(token_gates(x, network_of(p.mudd_w1, p.mudd_w2, p.mudd_b2, network, count), 0.1));
  }
  // The first `count` outputs of a network.
  TokenGateWeights network_of(ParameterId w1, ParameterId w2, ParameterId b2, std::int64_t network,
                              std::int64_t count) const {
    return {layers_.widened(layers_[w1][network]), layers_[w2][network].narrow(0, 0, count),
            layers_[b2][network].narrow(0, 0, count)};
  }

  // Returns the place of a block's λ for attention, or with `part` 1 for the MLP.
  static std::size_t index(std::int64_t block, std::size_t part) {
    return 2 * static_cast<std::size_t>(block) + part;
  }

  // Returns the gate of the embedding, or with `part` 1 of the bigram embedding.
  MixWeight pair(std::int64_t block, std::int64_t part) const {
    const auto of_later = block - (block > kWithoutAttention ? 5 : 4);
    if (block < 4) return {pre_, pre::kPairs + 2 * block + part};
    return {post_, post::kPairs + 2 * of_later + part};
  }

  TokenHeadWeights head_weights(std::int64_t block) const {
    switch (block) {
      case 1:
        return {.exclusive = of_x0_.exclusive_1};
      case 3:
        return {.exclusive = of_x0_.exclusive_3, .gate = of_x0_.head_3};
      case 4:
        return {.exclusive = of_c3_.exclusive_4};
      case 7:
        return {.exclusive = of_c3_.exclusive_7};
      case kLast:
        return {.gate = of_c3_.head_10, .pre = of_c3_.compose_pre, .post = of_c3_.compose_post};
      default:
        return {};
    }
  }

  // x [B, T, D], each head times its weight [B, T, heads].
  at::Tensor by_head(const at::Tensor& x, const at::Tensor& weights) const {
    return layers_.widened(scaled_heads(x, weights, layers_.plan().shape.head_dim));
  }

  // The rows of the block's value table with their gates, tg::gated_values(); undefined if it has
  // none.
  GatedValues gated_values(std::int64_t block, const NormedInput& n) const {
    const auto table = value_table(block);
    if (table < 0) return {n, {}};
    auto gated =
        tg::gated_values(n, values_[static_cast<std::size_t>(table)].tensor,
                         layers_[parameters_.value_gates][table], layers_.plan().shape.head_dim);
    gated.values = layers_.as_values(gated.values);
    return gated;
  }

  const FlowParameters& parameters_;
  const Layers& layers_;
  const PassInputs& inputs_;
  const SharedTensor x0_;
  const SharedTensor bigrams_;  // β
  const std::array<SharedTensor, kValueTables> values_;
  const std::vector<at::Tensor> resid_, branch_;  // λ of each block: of attention, of the MLP
  const SharedTensor pre_;                        // gates from x0
  const GatesOfX0 of_x0_;
  SharedTensor post_;  // gates from c3
  GatesOfC3 of_c3_;
  SharedTensor c0_, c3_, c7_, c9_;  // x before block 0, after 3, 7 and 9
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
