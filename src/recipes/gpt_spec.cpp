#include "recipes/gpt_spec.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "config/derived.h"
#include "ops/gemm/normed_input.h"
#include "recipes/passes.h"

namespace tg {

namespace {

constexpr Initial kZero = constant(0);

// Draws nothing if std is 0.
constexpr Initial normal(double std) {
  return std > 0 ? Initial{InitDist::normal, std} : kZero;
}

class GptSpec {
 public:
  using Shape = Declarations::Shape;

  GptSpec(const Settings& settings, const GptRecipe& recipe)
      : config_(settings.model), settings_(settings), recipe_(recipe) {}

  ModelSpec build() {
    plan_.shape = model_shape(config_);
    plan_.flow = gpt_flow;
    plan_.rope_base = config_.rope_base;
    plan_.negative_slope = config_.mlp_negative_slope;
    matrices();
    embedding();
    const auto passes = skips_and_lanes();
    for (std::int64_t i = 0; i < layers_; ++i) block(i);
    plan_.stages = make_stages(config_, passes);
    value_embedding();
    heads();
    auto draws = recipe_.draws(plan_, config_);
    return {declare_.take(), std::move(draws), std::move(plan_)};
  }

 private:
  void matrices() {
    const Initial drawn{recipe_.matrices};
    const auto hidden = mlp_hidden(config_);
    std::vector<std::int64_t> blocks(static_cast<std::size_t>(layers_));
    std::iota(blocks.begin(), blocks.end(), 0);
    const auto bank = [&](const char* name, const Shape& shape,
                          const std::vector<Declarations::Kind>& kinds) {
      return declare_.bank(name, blocks, shape, kinds);
    };
    const auto qo = bank("qo_bank", {dim_, dim_}, {{"attn.c_q", drawn}, {"attn.proj", kZero}});
    const auto kv = bank("kv_bank", {kv_dim_, dim_}, {{"attn.c_k", drawn}, {"attn.c_v", drawn}});
    const auto up = bank("mlp_up_bank", {hidden, dim_}, {{"mlp.fc", drawn}});
    const auto down = bank("mlp_down_bank", {dim_, hidden}, {{"mlp.proj", kZero}});
    plan_.matrices = {qo[0], kv[0], kv[1], qo[1], up[0], down[0]};
  }

  void embedding() {
    auto& plan = plan_.embedding;
    const Initial tied{InitDist::normal, settings_.optim.tied_embed_init_std},
        untied{InitDist::torch_default};
    plan.tokens = declare_.table(kTokenTable, {config_.vocab_size, dim_}, tables_,
                                 config_.tie_embeddings ? tied : untied);
    if (const auto rows = config_.bigram_vocab_size, channels = config_.bigram_dim; rows > 0) {
      plan.bigrams = declare_.table("bigram.embed.weight", {rows, channels}, tables_, kZero);
      plan.bigram_projection = declare_.projection("bigram.proj.weight", dim_, channels);
      plan.bigram_scale = declare_.control("bigram.scale", {}, constant(0.05));
    }
    if (config_.gates.smear == SmearKind::channels)
      plan.smear_gate = declare_.control("smear.gate", {dim_}, kZero);
    if (config_.gates.smear == SmearKind::gated) {
      plan.gated_smear_weight =
          declare_.control("smear_gate.weight", {1, config_.gates.gate_window}, kZero);
      plan.gated_smear_lambda = declare_.control("smear_lambda", {1}, kZero);
    }
  }

  PassParameters skips_and_lanes() {
    PassParameters found;
    const Shape by_skip{skip_count(config_), dim_};
    if (config_.unet_skips) {
      found.skip_weights = declare_.control("skip_weights", by_skip, constant(1));
      if (config_.gates.skip_gates_enabled)
        found.skip_gates = declare_.mix("skip_gates", by_skip, constant(0));
    }
    if (config_.lanes.parallel_start_layer > 0) {
      found.lane_post = declare_.mix(kLanePost, {layers_, 2, 2}, constant(1));
      found.lane_residual = declare_.mix(kLaneResidual, {layers_, 2}, constant(1.1));
    }
    return found;
  }

  ParameterId of_attention(std::int64_t block, const char* name, const Shape& shape,
                           Initial initial) {
    return declare_.of_block(block, name, shape, initial, Quantization::int6);
  }

  void block(std::int64_t i) {
    const auto heads = config_.num_heads;
    const auto of_block = [&](const char* name, const Shape& shape, Initial initial) {
      return declare_.of_block(i, name, shape, initial, Quantization::int8);
    };
    BlockPlan plan;
    if (config_.qk_gain_init != 0)
      plan.q_gain = of_attention(i, "attn.q_gain", {heads}, constant(config_.qk_gain_init));
    plan.head_gate = head_gate(i);
    if (config_.value_residual == ValueResidual::on)
      plan.value_mix.weights = of_attention(i, "attn.vr_lambda", {2}, constant(0.5));
    if (config_.value_residual == ValueResidual::blend)
      plan.value_mix = {of_attention(i, "attn.value_blend", {}, constant(0.5)), /*blend=*/true};
    if (config_.layer_scales) {
      plan.attn_scale = of_block("attn_scale", {dim_}, constant(1));
      plan.mlp_scale = of_block("mlp_scale", {dim_}, constant(1));
    }
    // m0 = 1 for the stream, m1 = 0 for the first block's input.
    const bool by_channel = config_.resid_mix == ResidMix::vector;
    plan.mix =
        of_block("resid_mix", by_channel ? Shape{2, dim_} : Shape{2}, {InitDist::first_row, 1});
    if (config_.dtg_enabled) {
      plan.update_gate.weight = of_block("dtg_gate.weight", {1, dim_}, kZero);
      plan.update_gate.bias = of_block("dtg_gate.bias", {1}, constant(2));
    }
    plan_.blocks.push_back(plan);
  }

  // HEAD_GATE selects one of four kinds, or none.
  HeadGate head_gate(std::int64_t i) {
    const auto& gates = config_.gates;
    const auto heads = config_.num_heads, window = gates.gate_window;
    const auto declare = [&](const char* name, const Shape& shape, Initial initial) {
      return of_attention(i, name, shape, initial);
    };
    switch (gates.head_gate) {
      case HeadGateKind::off:
        break;
      case HeadGateKind::biased:
        return {.gate = {declare("attn.attn_gate.weight", {heads, dim_}, kZero),
                         declare("attn.attn_gate.bias", {heads}, constant(4))}};
      case HeadGateKind::sparse:
        return {.gate = {declare("attn.attn_gate_w", {heads, window},
                                 normal(gates.sparse_attn_gate_init_std)),
                         {}},
                .window = window,
                .scale = gates.sparse_attn_gate_scale};
      case HeadGateKind::full:
        return {
            .gate = {declare("attn.attn_gate_w", {heads, dim_}, normal(gates.gated_attn_init_std)),
                     {}}};
      case HeadGateKind::output:
        return {.gate = {declare("attn.attn_gate_proj.weight", {heads, window}, kZero), {}},
                .input = gates.attn_out_gate_src == GateSource::queries ? HeadGate::Input::queries
                                                                        : HeadGate::Input::normed,
                .window = window,
                .range = 2};
    }
    return {};
  }

  void value_embedding() {
    if (!config_.ve_enabled || config_.ve_layers.empty()) return;
    auto& plan = plan_.value_embedding;
    plan.table = declare_.table("ve_shared.embed.weight", {config_.vocab_size, config_.ve_dim},
                                tables_, {InitDist::normal, 0.01});
    plan.projection = declare_.projection("ve_shared.proj.weight", kv_dim_, config_.ve_dim);
    plan.scale = declare_.control("ve_shared.scale", {}, constant(0.1));
    for (std::size_t j = 0; j < config_.ve_layers.size(); ++j) {
      const auto scale = declare_.control(fmt::format("ve_layer_scales.{}", j), {1}, constant(1));
      for (auto& stage : plan_.stages) {
        for (auto& call : stage.pass.calls)
          if (call.block == config_.ve_layers[j]) call.value_scale = scale;
      }
    }
  }

  void heads() {
    const Shape shape{config_.vocab_size, dim_};
    const auto update = settings_.runtime.record_quirks ? Update::none : Update::head;
    if (!config_.tie_embeddings)
      plan_.head.weight =
          declare_.head(kHead, shape, recipe_.forgets_untied_head ? update : Update::head,
                        /*exported=*/true);
    plan_.head.softcap = softcap_of(config_.objective);
    plan_.head.multi_token_weight = config_.mtp_loss_weight;
    plan_.head.lane = config_.lanes.parallel_final_lane;
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) {
      plan_.head.multi_token.push_back(
          declare_.head(fmt::format("mtp_heads.{}.weight", k), shape, update, /*exported=*/false));
    }
  }

  const ModelConfig& config_;
  const Settings& settings_;
  const GptRecipe& recipe_;
  const std::int64_t layers_ = config_.num_layers, dim_ = config_.model_dim,
                     kv_dim_ = config_.num_kv_heads * head_dim(config_);
  const Update tables_ = config_.tie_embeddings ? Update::tied_embedding : Update::embedding;
  Declarations declare_;
  Plan plan_;
};

}  // namespace

ModelSpec gpt_spec(const Settings& settings, const GptRecipe& recipe) {
  return GptSpec(settings, recipe).build();
}

void draw_head_gate(DrawList& draw, const Gate& gate, const ModelConfig& config) {
  const auto kind = config.gates.head_gate;
  if (kind == HeadGateKind::biased || kind == HeadGateKind::output)
    draw.linear(gate);
  else
    draw.initial(gate.weight);
}

}  // namespace tg
