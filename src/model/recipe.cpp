#include "model/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/derived.h"

namespace tg {

namespace {

constexpr Initial kZero{InitDist::constant, 0};

constexpr Initial constant(double number) {
  return {InitDist::constant, number};
}

// The record and the GPT-124M speedrun, with every part in which they differ a setting.
// VALUE_RESIDUAL=blend, which only the speedrun has, says whose initial weights it gets.
class GptRecipe {
 public:
  using Shape = Declarations::Shape;

  GptRecipe(const ModelConfig& config, const ParameterOptions& options)
      : config_(config), options_(options) {}

  Recipe build() {
    matrices();
    embedding();
    ParameterId skips;
    if (config_.unet_skips)
      skips = declare_.control("skip_weights", {layers_ / 2, dim_}, constant(1));
    for (std::int64_t i = 0; i < layers_; ++i) block(i);
    visits(skips);
    value_embedding();
    heads();
    return {declare_.take(), speedrun_ ? speedrun_draws() : record_draws(), std::move(plan_)};
  }

 private:
  void matrices() {
    const Initial drawn{speedrun_ ? InitDist::torch_default : InitDist::orthogonal};
    const auto hidden = mlp_hidden(config_);
    const auto bank = [&](const char* name, const Shape& shape,
                          const std::vector<Declarations::Kind>& kinds) {
      return declare_.bank(name, layers_, shape, kinds);
    };
    const auto qo = bank("qo_bank", {dim_, dim_}, {{"attn.c_q", drawn}, {"attn.proj", kZero}});
    const auto kv = bank("kv_bank", {kv_dim_, dim_}, {{"attn.c_k", drawn}, {"attn.c_v", drawn}});
    const auto up = bank("mlp_up_bank", {hidden, dim_}, {{"mlp.fc", drawn}});
    const auto down = bank("mlp_down_bank", {dim_, hidden}, {{"mlp.proj", kZero}});
    plan_.matrices = {qo[0], kv[0], kv[1], qo[1], up[0], down[0]};
  }

  void embedding() {
    auto& plan = plan_.embedding;
    const Initial tied{InitDist::normal, options_.tied_embed_init_std},
        untied{InitDist::torch_default};
    plan.tokens = declare_.table(kTokenTable, {config_.vocab_size, dim_}, tables_,
                                 config_.tie_embeddings ? tied : untied);
    if (const auto rows = config_.bigram_vocab_size, channels = config_.bigram_dim; rows > 0) {
      plan.bigrams = declare_.table("bigram.embed.weight", {rows, channels}, tables_, kZero);
      plan.bigram_projection = declare_.projection("bigram.proj.weight", dim_, channels);
      plan.bigram_scale = declare_.control("bigram.scale", {}, constant(0.05));
    }
    if (config_.smear_gate) plan.smear_gate = declare_.control("smear.gate", {dim_}, kZero);
    if (config_.smear_gate_enabled) {
      plan.gated_smear_weight =
          declare_.control("smear_gate.weight", {1, config_.gate_window}, kZero);
      plan.gated_smear_lambda = declare_.control("smear_lambda", {1}, kZero);
    }
  }

  void block(std::int64_t i) {
    const auto heads = config_.num_heads;
    const auto of_block = [&](const char* name, const Shape& shape, Initial initial) {
      return declare_.of_block(i, name, shape, initial, Quantization::int8);
    };
    const auto of_attention = [&](const char* name, const Shape& shape, Initial initial) {
      return declare_.of_block(i, name, shape, initial, Quantization::int6);
    };
    BlockPlan plan;
    if (config_.qk_gain_init != 0)
      plan.q_gain = of_attention("attn.q_gain", {heads}, constant(config_.qk_gain_init));
    if (config_.gated_attention) {
      auto& gate = plan.head_gate.gate;
      gate.weight = of_attention("attn.attn_gate.weight", {heads, dim_}, kZero);
      gate.bias = of_attention("attn.attn_gate.bias", {heads}, constant(4));
    }
    if (config_.value_residual == ValueResidual::on)
      plan.value_mix.weights = of_attention("attn.vr_lambda", {2}, constant(0.5));
    if (config_.value_residual == ValueResidual::blend)
      plan.value_mix = {of_attention("attn.value_blend", {}, constant(0.5)), /*blend=*/true};
    if (config_.layer_scales) {
      plan.attn_scale = of_block("attn_scale", {dim_}, constant(1));
      plan.mlp_scale = of_block("mlp_scale", {dim_}, constant(1));
    }
    // The shares of the stream, 1, and of the first block's input, 0.
    const bool by_channel = config_.resid_mix == ResidMix::vector;
    plan.mix =
        of_block("resid_mix", by_channel ? Shape{2, dim_} : Shape{2}, {InitDist::first_row, 1});
    if (config_.dtg_enabled) {
      plan.update_gate.weight = of_block("dtg_gate.weight", {1, dim_}, kZero);
      plan.update_gate.bias = of_block("dtg_gate.bias", {1}, constant(2));
    }
    plan_.blocks.push_back(plan);
  }

  // Each block once. U-Net skips: the first half keeps its outputs, the second half adds them, the
  // newest first. The newest is the output of the visit just before, which needs no slot.
  void visits(ParameterId skips) {
    const std::int64_t kept = config_.unet_skips ? layers_ / 2 : 0;
    plan_.slots = std::max<std::int64_t>(kept - 1, 0);
    for (std::int64_t i = 0; i < layers_; ++i) {
      const auto root = std::sqrt(static_cast<double>(i + 1));
      Visit visit{.index = i,
                  .block = i,
                  .norm_scale = config_.ln_scale ? 1.0 / root : 1.0,
                  .window = attention_window(config_, i),
                  .exclusive = i >= layers_ - config_.xsa_last_n,
                  .last = i + 1 == layers_};
      if (i > 0 && i < kept) visit.keep_input = i - 1;
      if (i >= kept && i < 2 * kept) visit.skip = {.weights = skips, .row = i - kept};
      if (i > kept && i < 2 * kept) visit.skip.slot = 2 * kept - 1 - i;
      plan_.visits.push_back(visit);
    }
  }

  void value_embedding() {
    if (!config_.ve_enabled || config_.ve_layers.empty()) return;
    auto& plan = plan_.value_embedding;
    plan.table = declare_.table("ve_shared.embed.weight", {config_.vocab_size, config_.ve_dim},
                                tables_, {InitDist::normal, 0.01});
    plan.projection = declare_.projection("ve_shared.proj.weight", kv_dim_, config_.ve_dim);
    plan.scale = declare_.control("ve_shared.scale", {}, constant(0.1));
    for (std::size_t j = 0; j < config_.ve_layers.size(); ++j) {
      plan_.visits[static_cast<std::size_t>(config_.ve_layers[j])].value_scale =
          declare_.control(fmt::format("ve_layer_scales.{}", j), {1}, constant(1));
    }
  }

  void heads() {
    const Shape shape{config_.vocab_size, dim_};
    if (!config_.tie_embeddings)
      plan_.head.weight = declare_.head(kHead, shape, ParamGroup::head, /*exported=*/true);
    const auto group = options_.record_quirks ? ParamGroup::none : ParamGroup::head;
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) {
      plan_.head.multi_token.push_back(
          declare_.head(fmt::format("mtp_heads.{}.weight", k), shape, group, /*exported=*/false));
    }
  }

  // Module by module what its constructor draws, and what the script then overwrites that with.
  std::vector<Draw> record_draws() const {
    const auto& [embedding, values, m, blocks, visits, slots, head] = plan_;
    DrawList draw;
    draw.embedding(embedding.tokens);
    draw.embedding(embedding.bigrams);
    draw.linear(embedding.bigram_projection);
    for (const auto& block : blocks) {
      draw.linear(block.head_gate.gate);
      draw.linear(block.update_gate);
    }
    draw.embedding(values.table);
    draw.initial(values.table);
    draw.linear(values.projection);
    draw.linear(head.weight);
    for (const auto& weight : head.multi_token) draw.linear(weight);
    draw.initial(embedding.tokens);
    for (std::int64_t i = 0; i < layers_; ++i) {
      for (const auto& matrices : {m.queries, m.keys, m.values, m.up}) draw.initial(matrices, i);
    }
    draw.initial(embedding.bigram_projection);
    draw.initial(values.projection);
    return draw.take();
  }

  // After the script's own draws those of what it does not have.
  std::vector<Draw> speedrun_draws() const {
    const auto& m = plan_.matrices;
    DrawList draw;
    draw.embedding(plan_.embedding.tokens);
    for (std::int64_t i = 0; i < layers_; ++i) {
      for (const auto& matrices : {m.queries, m.keys, m.values, m.out, m.up, m.down})
        draw.linear(matrices, i);
    }
    draw.initial(plan_.embedding.tokens);
    draw.initial(plan_.value_embedding.table);
    draw.initial(plan_.embedding.bigram_projection);
    draw.initial(plan_.value_embedding.projection);
    return draw.take();
  }

  const ModelConfig& config_;
  const ParameterOptions& options_;
  const std::int64_t layers_ = config_.num_layers, dim_ = config_.model_dim,
                     kv_dim_ = config_.num_kv_heads * head_dim(config_);
  const bool speedrun_ = config_.value_residual == ValueResidual::blend;
  const ParamGroup tables_ =
      config_.tie_embeddings ? ParamGroup::tied_embedding : ParamGroup::embedding;
  Declarations declare_;
  Plan plan_;
};

}  // namespace

Recipe make_recipe(const ModelConfig& config, const ParameterOptions& options) {
  return GptRecipe(config, options).build();
}

}  // namespace tg
