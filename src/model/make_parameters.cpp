// The rows of the parameter table.
#include <fmt/format.h>

#include "config/derived.h"
#include "model/parameters.h"

namespace tg {

namespace {

constexpr Initial kZero{Law::constant, 0};

constexpr Initial constant(double number) {
  return {Law::constant, number};
}

// Adds the rows of one part of the model after the other. The scripts' quantiser takes int6 where a
// name contains .mlp., .attn. or .proj., else int8.
class Builder {
 public:
  Builder(const ModelConfig& config, at::ScalarType storage, at::Device device,
          const ParameterOptions& options)
      : config_(config),
        options_(options),
        tables_(at::TensorOptions(device).dtype(storage)),
        others_(tables_.dtype(storage == at::kDouble ? at::kDouble : at::kFloat)),
        table_(options.control_patterns) {}

  ParameterTable build() {
    const auto vocab = config_.vocab_size, dim = config_.model_dim, layers = config_.num_layers;
    const auto kv_dim = config_.num_kv_heads * head_dim(config_), hidden = mlp_hidden(config_);
    const bool speedrun = config_.value_residual == ValueResidual::blend;
    const Initial drawn{speedrun ? Law::torch_default : Law::orthogonal};
    const Initial tokens = config_.tie_embeddings
                               ? Initial{Law::normal, options_.tied_embed_init_std}
                               : Initial{Law::torch_default};
    bank("qo_bank", {dim, dim}, {{"attn.c_q", drawn}, {"attn.proj", kZero}});
    bank("kv_bank", {kv_dim, dim}, {{"attn.c_k", drawn}, {"attn.c_v", drawn}});
    bank("mlp_up_bank", {hidden, dim}, {{"mlp.fc", drawn}});
    bank("mlp_down_bank", {dim, hidden}, {{"mlp.proj", kZero}});
    table("tok_emb.weight", {vocab, dim}, tokens);
    if (config_.bigram_vocab_size > 0) {
      table("bigram.embed.weight", {config_.bigram_vocab_size, config_.bigram_dim}, kZero);
      projection("bigram.proj.weight", dim, config_.bigram_dim);
      control("bigram.scale", {}, constant(0.05));
    }
    if (config_.smear_gate) control("smear.gate", {dim}, kZero);
    if (config_.unet_skips) control("skip_weights", {layers / 2, dim}, constant(1));
    for (std::int64_t i = 0; i < layers; ++i) block(i);
    if (config_.ve_enabled && !config_.ve_layers.empty()) {
      table("ve_shared.embed.weight", {vocab, config_.ve_dim}, {Law::normal, 0.01});
      projection("ve_shared.proj.weight", kv_dim, config_.ve_dim);
      control("ve_shared.scale", {}, constant(0.1));
      for (std::size_t j = 0; j < config_.ve_layers.size(); ++j) {
        control(fmt::format("ve_layer_scales.{}", j), {1}, constant(1));
      }
    }
    if (!config_.tie_embeddings) head("lm_head.weight", ParamGroup::head, /*exported=*/true);
    const auto mtp_group = options_.record_quirks ? ParamGroup::none : ParamGroup::head;
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) {
      head(fmt::format("mtp_heads.{}.weight", k), mtp_group, /*exported=*/false);
    }
    return std::move(table_);
  }

 private:
  using Shape = std::vector<std::int64_t>;
  // One matrix of each block.
  struct BlockMatrix {
    const char* name;
    Initial initial;
  };

  void block(std::int64_t i) {
    const auto dim = config_.model_dim, heads = config_.num_heads;
    const auto of_block = [&](const char* name, const Shape& shape, Initial initial) {
      control(fmt::format("blocks.{}.{}", i, name), shape, initial);
    };
    const auto of_attention = [&](const char* name, const Shape& shape, Initial initial) {
      control(fmt::format("blocks.{}.attn.{}", i, name), shape, initial, Quantization::int6);
    };
    if (config_.qk_gain_init != 0) of_attention("q_gain", {heads}, constant(config_.qk_gain_init));
    if (config_.gated_attention) {
      of_attention("attn_gate.weight", {heads, dim}, kZero);
      of_attention("attn_gate.bias", {heads}, constant(4));
    }
    if (config_.value_residual == ValueResidual::on) of_attention("vr_lambda", {2}, constant(0.5));
    if (config_.value_residual == ValueResidual::blend)
      of_attention("value_blend", {}, constant(0.5));
    if (config_.layer_scales) {
      of_block("attn_scale", {dim}, constant(1));
      of_block("mlp_scale", {dim}, constant(1));
    }
    // The shares of the stream, 1, and of the first block's input, 0.
    const bool by_channel = config_.resid_mix == ResidMix::vector;
    of_block("resid_mix", by_channel ? Shape{2, dim} : Shape{2}, {Law::first_row, 1});
    if (config_.dtg_enabled) {
      of_block("dtg_gate.weight", {1, dim}, kZero);
      of_block("dtg_gate.bias", {1}, constant(2));
    }
  }

  // [n·L, rows, columns]: one of `matrices` after the other, each of all blocks.
  void bank(const std::string& name, const Shape& shape, const std::vector<BlockMatrix>& matrices) {
    const auto layers = config_.num_layers;
    const auto count = static_cast<std::int64_t>(matrices.size()) * layers;
    const auto value = at::empty({count, shape[0], shape[1]}, others_);
    const auto view = value.detach();
    std::vector<ParameterPart> parts;
    for (std::int64_t i = 0; i < layers; ++i) {
      auto index = i;
      for (const auto& matrix : matrices) {
        parts.push_back(part(fmt::format("blocks.{}.{}.weight", i, matrix.name), view[index],
                             matrix.initial, Quantization::int6));
        index += layers;
      }
    }
    add(name, value, ParamGroup::muon, /*exported=*/true, std::move(parts));
  }

  void table(const std::string& name, const Shape& shape, Initial initial) {
    whole(name, at::empty(shape, tables_), ParamGroup::embedding, initial, Quantization::int8);
  }
  // Absent where both sides are equal.
  void projection(const std::string& name, std::int64_t rows, std::int64_t columns) {
    if (rows == columns) return;
    const auto initial = is_drawn_projection(rows, columns) ? Initial{Law::orthogonal} : kZero;
    whole(name, at::empty({rows, columns}, others_), ParamGroup::scalar, initial,
          Quantization::int6);
  }
  // Gains, scales, mixes and gates: a matrix among them is Muon's where no control pattern names
  // it. A single layer has no skips: its skip_weights are [0, D].
  void control(const std::string& name, const Shape& shape, Initial initial,
               Quantization quantization = Quantization::int8) {
    const auto value = at::empty(shape, others_);
    const bool matrix = value.dim() == 2 && value.numel() > 0;
    whole(name, value, matrix ? ParamGroup::muon : ParamGroup::scalar, initial, quantization);
  }
  void head(const std::string& name, ParamGroup group, bool exported) {
    const auto value = at::empty({config_.vocab_size, config_.model_dim}, others_);
    whole(name, value, group, kZero, Quantization::int8, exported);
  }

  void whole(const std::string& name, const at::Tensor& value, ParamGroup group, Initial initial,
             Quantization quantization, bool exported = true) {
    add(name, value, group, exported, {part(name, value.detach(), initial, quantization)});
  }
  ParameterPart part(const std::string& name, const at::Tensor& value, Initial initial,
                     Quantization quantization) const {
    return {name, value, initial, table_.is_control(name) ? Quantization::keep_fp32 : quantization};
  }
  void add(const std::string& name, const at::Tensor& value, ParamGroup group, bool exported,
           std::vector<ParameterPart> parts) {
    table_.add({.name = name,
                .value = value,
                .group = table_.is_control(name) ? ParamGroup::scalar : group,
                .exported = exported,
                .parts = std::move(parts)});
  }

  const ModelConfig& config_;
  const ParameterOptions& options_;
  at::TensorOptions tables_, others_;
  ParameterTable table_;
};

}  // namespace

ParameterTable make_parameters(const ModelConfig& config, at::ScalarType storage, at::Device device,
                               const ParameterOptions& options) {
  return Builder(config, storage, device, options).build();
}

}  // namespace tg
