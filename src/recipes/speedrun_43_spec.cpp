// Parameters of record 43's model, how each is updated, the order of their draws, and the passes.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "config/derived.h"
#include "recipes/gpt_spec.h"
#include "recipes/growing_windows.h"
#include "recipes/speedrun_43.h"

namespace tg::record_43 {

namespace {

// Optimizer settings by parameter, as in the script.
constexpr Update by_adam(double OptimConfig::*lr) {
  return {.rule = UpdateRule::adam, .lr = lr, .every = &OptimConfig::adam_every};
}
constexpr Update kTables = by_adam(&OptimConfig::embed_lr),
                 kHeadUpdate = by_adam(&OptimConfig::head_lr),
                 kScalars = by_adam(&OptimConfig::scalar_lr), kMatrices = Update::muon;
constexpr Update kUpMatrices = [] {
  auto update = kMatrices;
  update.lr_multiplier = 2;
  return update;
}();

constexpr bool is_long(std::int64_t block) {
  return block == 4 || block == 11;
}

// Parameters are named as in the script's state dict, except its vector `scalars`, whose elements
// have separate names, and the matrices, which are in banks.
class Builder {
 public:
  explicit Builder(const Settings& settings)
      : config_(settings.model),
        begins_tied_(settings.optim.untie_embeddings_at > 0),
        tied_std_(settings.optim.tied_embed_init_std) {}

  ModelSpec build() {
    plan_.shape = model_shape(config_);
    plan_.rope_base = config_.rope_base;
    plan_.negative_slope = config_.mlp_negative_slope;
    embedding();
    matrices();
    blocks();
    plan_.stages = window_stages(config_, [this](const Windows& w) { return make_pass(w); });
    const auto initial = begins_tied_ ? Initial{InitDist::normal, tied_std_} : constant(0);
    plan_.head = {.weight = declare_.head(kHead, {config_.vocab_size, dim_}, kHeadUpdate,
                                          /*exported=*/true, initial),
                  .softcap = softcap_of(config_.objective),
                  .sums_over_tokens = true};
    if (begins_tied_) declare_.tie(plan_.embedding.tokens, plan_.head.weight);
    flow_.backout = declare_.control("backout_lambda", {}, constant(0.5), kScalars);
    plan_.flow = flow(flow_);
    return {declare_.take(), draws(), std::move(plan_)};
  }

 private:
  void embedding() {
    const auto table = [&](const std::string& name, const Update& update) {
      return declare_.table(name, {config_.vocab_size, dim_}, update, {InitDist::torch_default});
    };
    auto& plan = plan_.embedding;
    plan.tokens = table(kTokenTable, begins_tied_ ? kHeadUpdate : kTables);
    plan.gated_smear_weight = declare_.control("smear_gate.weight", {1, config_.gates.gate_window},
                                               constant(0), kMatrices);
    plan.gated_smear_lambda = declare_.control("smear_lambda", {1}, constant(0), kScalars);
    plan.smears_across_documents = true;
    for (std::size_t k = 0; k < flow_.value_tables.size(); ++k)
      flow_.value_tables[k] = table(fmt::format("value_embeds.{}.weight", k), kTables);
    plan.summed_in_fp32.assign(flow_.value_tables.begin(), flow_.value_tables.end());
    plan.summed_in_fp32.push_back(plan.tokens);
  }

  // Each matrix is drawn as the script draws it: the MLP's first one transposed.
  void matrices() {
    const auto bound = std::numbers::sqrt3 * 0.5 / std::sqrt(static_cast<double>(dim_));
    const Initial drawn{InitDist::uniform, bound};
    std::vector<std::int64_t> all, attending;
    for (std::int64_t block = 1; block < kBlocks; ++block) {
      all.push_back(block);
      if (block != kWithoutAttention) attending.push_back(block);
    }
    const auto hidden = mlp_hidden(config_);
    const auto qo = declare_.bank("qo_bank", attending, {dim_, dim_},
                                  {{"attn.c_q", drawn}, {"attn.proj", constant(0)}}, kMatrices);
    const auto kv = declare_.bank("kv_bank", attending, {dim_, dim_},
                                  {{"attn.c_k", drawn}, {"attn.c_v", drawn}}, kMatrices);
    const auto up =
        declare_.bank("mlp_up_bank", all, {hidden, dim_},
                      {{"mlp.fc", {InitDist::uniform, bound, /*transposed=*/true}}}, kUpMatrices);
    const auto down =
        declare_.bank("mlp_down_bank", all, {dim_, hidden}, {{"mlp.proj", constant(0)}}, kMatrices);
    plan_.matrices = {qo[0], kv[0], kv[1], qo[1], up[0], down[0]};
  }

  void blocks() {
    skip_weights_ =
        declare_.control("skip_weights", {kBlocks - 1 - kFirstDecoder}, constant(-1.5), kScalars);
    plan_.blocks.resize(kBlocks);
    for (std::int64_t i = 1; i < kBlocks; ++i) {
      const auto of_block = [&](const char* name, const Declarations::Shape& shape, Initial initial,
                                const Update& update) {
        return declare_.of_block(i, name, shape, initial, Quantization::keep_fp32, update);
      };
      auto& block = plan_.blocks[static_cast<std::size_t>(i)];
      block.mix = of_block("resid_mix", {2}, {InitDist::first_row, 1}, kScalars);
      if (i == kWithoutAttention) continue;
      block.value_scale = of_block("attn.value_scale", {1}, constant(0.5), kScalars);
      if (value_table(i) >= 0)
        value_scales_[static_cast<std::size_t>(i)] =
            of_block("attn.ve_scale", {1}, constant(0.5), kScalars);
      const auto window = config_.gates.gate_window;
      block.head_gate = {.gate = {of_block("attn.attn_gate.weight", {config_.num_heads, window},
                                           constant(0), kMatrices),
                                  {}},
                         .window = window,
                         .scale = config_.gates.sparse_attn_gate_scale};
    }
  }

  Pass make_pass(const Windows& windows) const {
    // The other half of the pairs is not rotated.
    const auto still = at::zeros({head_dim(config_) / 2 - windows.frequencies.numel()}, at::kFloat);
    Pass pass{.slots = kFirstDecoder - 1,
              .rope_frequencies = at::cat({windows.frequencies, still}),
              .attention_scale = windows.scale};
    const auto backout_slot = pass.slots - 1;
    for (std::int64_t block = 1; block < kBlocks; ++block) {
      LayerCall call{.index = block - 1,
                     .block = block,
                     .norm_scale = 1,
                     .attends = block != kWithoutAttention,
                     .window = is_long(block) ? windows.large : windows.small,
                     .value_scale = value_scales_[static_cast<std::size_t>(block)],
                     .last = block == kBlocks - 1};
      if (block > 1 && block < kFirstDecoder) call.keep_input = block - 2;
      if (block == kBackout + 1) call.keep_input = backout_slot;
      if (const auto row = block - kFirstDecoder; row >= 0 && block < kBlocks - 1) {
        call.skip = {.weights = skip_weights_, .row = row};
        if (row > 0) call.skip.slot = kFirstDecoder - 2 - row;
      }
      pass.calls.push_back(call);
    }
    return pass;
  }

  std::vector<Draw> draws() const {
    const auto& m = plan_.matrices;
    DrawList draw;
    if (begins_tied_) draw.initial(plan_.head.weight);
    draw.embedding(plan_.embedding.tokens);
    for (const auto table : flow_.value_tables) draw.embedding(table);
    for (std::int64_t i = 1; i < kBlocks; ++i) {
      if (i != kWithoutAttention) {
        for (const auto& matrices : {m.queries, m.keys, m.values}) draw.initial(matrices, i);
      }
      draw.initial(m.up, i);
    }
    return draw.take();
  }

  const ModelConfig& config_;
  const bool begins_tied_;  // UNTIE_EMBEDDINGS_AT: the token table equals the head until then
  const double tied_std_;
  const std::int64_t dim_ = config_.model_dim;
  Declarations declare_;
  FlowParameters flow_;
  ParameterId skip_weights_;                       // w of the flow, [5]
  std::array<ParameterId, kBlocks> value_scales_;  // of each block's value table rows, or none
  Plan plan_;
};

}  // namespace

ModelSpec spec(const Settings& settings) {
  return Builder(settings).build();
}

}  // namespace tg::record_43
