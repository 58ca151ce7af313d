// Parameters of record 89's model, how each is updated, the order of their draws, and the passes.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <numbers>

#include "config/derived.h"
#include "recipes/gpt_spec.h"
#include "recipes/growing_windows.h"
#include "recipes/speedrun_89.h"

namespace tg::record_89 {

namespace {

// Adam with rate and decay as multiples of settings, and the parameter's own betas.
constexpr Update by_adam(double OptimConfig::*lr, double lr_multiplier, double wd_multiplier,
                         AdamBetas betas) {
  return {.rule = UpdateRule::adam,
          .lr = lr,
          .weight_decay = wd_multiplier > 0 ? adam_wd : nullptr,
          .lr_multiplier = lr_multiplier,
          .wd_multiplier = wd_multiplier,
          .betas = betas,
          .every = &OptimConfig::adam_every};
}
constexpr auto kHeadLr = &OptimConfig::head_lr;
constexpr AdamBetas kSmall{0.9, 0.99};
constexpr Update kHeadUpdate = by_adam(kHeadLr, 1, 150, {0.5, 0.95}),
                 kTables = by_adam(&OptimConfig::embed_lr, 1, 5, {0.75, 0.95}),
                 kValueGates = by_adam(kHeadLr, 1, 1, kSmall),
                 kSmearGate = by_adam(kHeadLr, 0.01, 0, kSmall),
                 kScalars = by_adam(&OptimConfig::scalar_lr, 1, 0, kSmall),
                 kResid = by_adam(&OptimConfig::scalar_lr, 1, 0, {0.9, 0.95}),
                 kBranch = by_adam(kHeadLr, 1, 0, {0.9, 0.95}),
                 kMudd = by_adam(kHeadLr, 0.25, 1, kSmall),
                 kMuddBias = by_adam(kHeadLr, 0.25, 0, kSmall),
                 kGates = by_adam(kHeadLr, 0.1, 1, kSmall),
                 kGateBias = by_adam(kHeadLr, 0.1, 0, kSmall);

constexpr std::int64_t kGateRows = post::kCount, kMuddRows = kLastMixes;
// Multiplies the outputs of the gates' network at first; the biases are divided by it.
constexpr double kGateScale = 0.1;

constexpr auto kMuddBiases = [] {
  std::array<double, 2 * kMuddRows> biases{};
  const double sqrt_1_1 = 1.0488088481701516;
  biases[6] = biases[7] = 2 / kGateScale;
  biases[8] = biases[12] = sqrt_1_1 / kGateScale;
  biases[9] = biases[13] = 1 / kGateScale;
  biases[11] = 0.05 / kGateScale;
  biases[kMuddRows + 1] = -0.5 / kGateScale;
  return biases;
}();

constexpr auto kGateBiases = [] {
  std::array<double, 2 * kGateRows> biases{};
  const auto fill = [&](std::int64_t first, std::int64_t count, std::int64_t step, double value) {
    for (std::int64_t i = 0; i < count; ++i)
      biases[static_cast<std::size_t>(first + step * i)] = value / kGateScale;
  };
  fill(pre::kHeadGate3, kHeads, 1, 0.25);
  fill(pre::kPairs + 1, 4, 2, 0.05);
  fill(kGateRows + post::kHeadGate10, kHeads, 1, 0.25);
  fill(kGateRows + post::kPairs + 1, 5, 2, 0.05);
  fill(kGateRows + post::kSkip, 1, 1, 0.5);
  fill(kGateRows + post::kCompose, kHeads, 1, 1);
  return biases;
}();

constexpr bool is_paired(std::int64_t block) {
  return block == 0 || block == 2 || block == 5 || block == 9;
}
constexpr bool is_long(std::int64_t block) {
  return block == 3 || block == kLast;
}

Pass make_pass(const Windows& windows, std::int64_t dc_window) {
  Pass pass{.rope_frequencies = windows.frequencies, .attention_scale = windows.scale};
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    pass.calls.push_back({.index = block,
                          .block = block,
                          .norm_scale = 1,
                          .attends = block != kWithoutAttention,
                          .window = is_long(block) ? windows.large : windows.small,
                          .paired = is_paired(block),
                          .key_offset = is_long(block),
                          .composed_window = block == kLast ? dc_window : 0,
                          .adds_values = value_table(block) >= 0 || block == kLast});
  }
  return pass;
}

// Parameters are named as in the script's state dict, except its vector `scalars`, whose elements
// have separate names, and its banks.
class Builder {
 public:
  explicit Builder(const Settings& settings)
      : config_(settings.model),
        begins_tied_(settings.optim.untie_embeddings_at > 0),
        transposes_outputs_(settings.model.recipe == RecipeChoice::speedrun_91) {}

  ModelSpec build() {
    plan_.shape = model_shape(config_);
    plan_.shape.rope_dims = qk_head_dim(config_) / 2;
    plan_.rope_interleaved = true;
    plan_.decodes_from_cache = false;
    plan_.rope_base = config_.rope_base;
    plan_.negative_slope = config_.mlp_negative_slope;
    embedding();
    matrices();
    blocks();
    gates();
    plan_.head = {
        .weight = declare_.head(kHead, {config_.vocab_size, dim_}, kHeadUpdate, /*exported=*/true,
                                {.dist = InitDist::normal,
                                 .number = 0.005,
                                 .transposed = true,
                                 .in_table_dtype = true}),
        .softcap = softcap_of(config_.objective),
        .sums_over_tokens = true};
    if (begins_tied_) declare_.tie(plan_.embedding.tokens, plan_.head.weight);
    plan_.stages = window_stages(config_, [&](const Windows& windows) {
      return make_pass(windows, config_.gates.dc_window);
    });
    plan_.flow = flow(flow_);
    return {declare_.take(), draws(), std::move(plan_)};
  }

 private:
  void embedding() {
    auto& plan = plan_.embedding;
    const auto vocab = config_.vocab_size;
    plan.tokens = declare_.table(kTokenTable, {vocab, dim_}, kHeadUpdate,
                                 begins_tied_ ? constant(0) : Initial{InitDist::torch_default});
    plan.gated_smear_weight = declare_.control("smear_gate.weight", {1, config_.gates.gate_window},
                                               constant(0), kSmearGate);
    plan.gated_smear_lambda = declare_.control("smear_lambda", {1}, constant(0), kScalars);
    plan.smears_across_documents = true;
    flow_.value_tables = declare_.table(
        "value_embeds", {kValueTables * vocab, dim_}, kTables,
        {.dist = InitDist::normal, .number = 1, .in_table_dtype = true, .factor = 0.01});
    flow_.value_gates =
        declare_.control("ve_gate_bank", {kValueTables, kHeads, 12}, constant(0), kValueGates);
    flow_.bigrams = declare_.table("bigram_embed.weight", {config_.bigram_vocab_size, dim_},
                                   kTables, constant(0));
    flow_.signs = declare_.table("bigram_sign_table", {config_.bigram_sign_rows, dim_},
                                 Update::constant, {InitDist::normal_sign});
    plan.summed_in_fp32 = {plan.tokens, flow_.value_tables, flow_.bigrams};
  }

  void matrices() {
    const auto bound = std::numbers::sqrt3 * 0.5 / std::sqrt(static_cast<double>(dim_));
    const Initial drawn{InitDist::uniform, bound};
    std::vector<std::int64_t> all, attending;
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      all.push_back(block);
      if (block != kWithoutAttention) attending.push_back(block);
    }
    const auto hidden = mlp_hidden(config_);
    auto heads = Update::muon, up = Update::muon, down = Update::muon;
    heads.row_parts = kHeads / 2;
    up.lr_multiplier = std::sqrt(static_cast<double>(hidden) / static_cast<double>(dim_));
    down.lr_multiplier = 2 * up.lr_multiplier;
    const auto qk = declare_.bank("qk_bank", attending, {kHeads * qk_head_dim(config_), dim_},
                                  {{"attn.c_q", drawn}, {"attn.c_k", drawn}}, heads);
    const auto vo = values_and_outputs(attending, drawn);
    const auto ups = declare_.bank("mlp_up_bank", all, {hidden, dim_}, {{"mlp.fc", drawn}}, up);
    const auto downs =
        declare_.bank("mlp_down_bank", all, {dim_, hidden}, {{"mlp.proj", constant(0)}}, down);
    plan_.matrices = {qk[0], qk[1], vo[0], vo[1], ups[0], downs[0]};
  }

  // Record 91 stores the output projections transposed, which transposes their draws and keeps the
  // second moments by input channel.
  std::vector<BlockMatrices> values_and_outputs(const std::vector<std::int64_t>& blocks,
                                                const Initial& drawn) {
    const Declarations::Kind values{"attn.c_v", drawn};
    auto by_row = Update::muon;
    by_row.square_moments_by_row = true;
    if (!transposes_outputs_)
      return declare_.bank("vo_bank", blocks, {dim_, dim_}, {values, {"attn.proj", drawn}}, by_row);
    auto transposed = drawn;
    transposed.transposed = true;
    return {declare_.bank("v_bank", blocks, {dim_, dim_}, {values}, by_row)[0],
            declare_.bank("o_bank", blocks, {dim_, dim_}, {{"attn.proj", transposed}},
                          Update::muon)[0]};
  }

  void blocks() {
    plan_.blocks.resize(kBlocks);
    for (std::int64_t i = 0; i < kBlocks; ++i) {
      if (i == kWithoutAttention) continue;
      const auto scale = [&](const char* name, double initial) {
        return declare_.of_block(i, name, {1}, constant(initial), Quantization::keep_fp32,
                                 kScalars);
      };
      auto& block = plan_.blocks[static_cast<std::size_t>(i)];
      block.qk_scale = block.value_scale = scale("attn.qkv_scale", 0.5);
      block.attn_scale = scale("attn_scale", 1);
    }
    flow_.skip = declare_.control("skip_lambda", {1}, constant(-1.5), kScalars);
    flow_.branch = declare_.control("post_lambdas", {kBlocks, 2}, constant(1), kBranch);
    flow_.resid = declare_.control("resid_lambdas", {kBlocks, 2}, constant(std::sqrt(1.1)), kResid);
  }

  void gates() {
    const auto hidden = config_.gates.mudd_dim;
    const Initial drawn{InitDist::torch_default};
    const auto values = [](const auto& numbers) {
      return Initial{.dist = InitDist::values, .values = numbers};
    };
    auto& flow = flow_;
    flow.mudd_w1 = declare_.control("mudd_w1", {2, hidden, dim_}, drawn, kMudd);
    flow.mudd_w2 = declare_.control("mudd_w2", {2, kMuddRows, hidden}, constant(0), kMudd);
    flow.mudd_b2 = declare_.control("mudd_b2", {2, kMuddRows}, values(kMuddBiases), kMuddBias);
    flow.gate_scale = declare_.control("mudd_gate_scale", {}, constant(kGateScale), kGateBias);
    flow.gate_w1 = declare_.control("mudd_gate_w1", {2, hidden, dim_}, drawn, kGates);
    flow.gate_w2 = declare_.control("mudd_gate_w2", {2, kGateRows, hidden}, constant(0), kGates);
    flow.gate_b2 = declare_.control("mudd_gate_b2", {2, kGateRows}, values(kGateBiases), kGateBias);
  }

  std::vector<Draw> draws() const {
    const auto& m = plan_.matrices;
    DrawList draw;
    draw.initial(plan_.head.weight);
    draw.embedding(plan_.embedding.tokens);
    draw.initial(flow_.value_tables);
    const auto alternately = [&](const BlockMatrices& first, const BlockMatrices& second) {
      for (const auto block : first.blocks) {
        draw.initial(first, block);
        draw.initial(second, block);
      }
    };
    alternately(m.queries, m.keys);
    alternately(m.values, m.out);
    for (const auto block : m.up.blocks) draw.initial(m.up, block);
    draw.linear(m.up, kLast);  // of a twelfth block, which is not there
    draw.linear(plan_.embedding.gated_smear_weight);
    draw.embedding(flow_.bigrams);
    draw.initial(flow_.signs);
    draw.linear(flow_.mudd_w1);
    draw.linear(flow_.gate_w1);
    return draw.take();
  }

  const ModelConfig& config_;
  const bool begins_tied_;  // UNTIE_EMBEDDINGS_AT: the token table equals the head until then
  const bool transposes_outputs_;
  const std::int64_t dim_ = config_.model_dim;
  Declarations declare_;
  FlowParameters flow_;
  Plan plan_;
};

}  // namespace

ModelSpec spec(const Settings& settings) {
  return Builder(settings).build();
}

}  // namespace tg::record_89
