#include "model/parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>

#include "config/derived.h"

namespace tg {

at::Tensor ParameterTable::add(std::string name, ParameterKind kind, const at::Tensor& value) {
  const auto stepper = stepped_as(name, kind, value);
  rows_.push_back({std::move(name), kind, stepper, value.set_requires_grad(true)});
  return value;
}

ParameterKind ParameterTable::stepped_as(const std::string& name, ParameterKind kind,
                                         const at::Tensor& value) const {
  for (const auto& pattern : control_patterns_) {
    if (name.find(pattern) != std::string::npos) return ParameterKind::scalar;
  }
  // A single layer has no skips: its skip_weights are [0, D].
  const bool matrix = value.dim() == 2 && value.numel() > 0;
  return kind == ParameterKind::scalar && matrix ? ParameterKind::bank : kind;
}

std::vector<std::string> ParameterTable::pattern_notices() const {
  std::vector<std::string> unmatched, left_to_muon, lines;
  const auto& usual = default_control_patterns();
  for (const auto& pattern : control_patterns_) {
    const bool known = std::find(usual.begin(), usual.end(), pattern) != usual.end();
    const bool found = std::any_of(rows_.begin(), rows_.end(), [&](const Parameter& row) {
      return row.name.find(pattern) != std::string::npos;
    });
    if (!known && !found) unmatched.push_back(pattern);
  }
  for (const auto& row : rows_) {
    if (row.kind == ParameterKind::scalar && row.stepped_as == ParameterKind::bank) {
      left_to_muon.push_back(row.name);
    }
  }
  if (!unmatched.empty()) {
    lines.push_back(fmt::format("CONTROL_TENSOR_NAME_PATTERNS: no parameter's name contains {}",
                                fmt::join(unmatched, ", ")));
  }
  if (!left_to_muon.empty()) {
    lines.push_back(fmt::format("CONTROL_TENSOR_NAME_PATTERNS leave out {}: Muon steps them",
                                fmt::join(left_to_muon, ", ")));
  }
  return lines;
}

const at::Tensor& ParameterTable::operator[](const std::string& name) const {
  for (const auto& row : rows_) {
    if (row.name == name) return row.value;
  }
  assert(!"no parameter of that name");
  std::abort();
}

at::Tensor ParameterTable::find(const std::string& name) const {
  for (const auto& row : rows_) {
    if (row.name == name) return row.value;
  }
  return {};
}

std::int64_t ParameterTable::element_count() const {
  std::int64_t count = 0;
  for (const auto& row : rows_) count += row.value.numel();
  return count;
}

std::vector<std::pair<std::string, at::Tensor>> ParameterTable::named_values() const {
  std::vector<std::pair<std::string, at::Tensor>> values;
  for (const auto& row : rows_) values.emplace_back(row.name, row.value.detach());
  return values;
}

namespace {

// Adds the rows of one part of the model after the other.
class Builder {
 public:
  Builder(const ModelConfig& config, at::ScalarType storage, at::Device device,
          const std::vector<std::string>& control_patterns)
      : config_(config),
        table_options_(at::TensorOptions(device).dtype(storage)),
        options_(table_options_.dtype(storage == at::kDouble ? at::kDouble : at::kFloat)),
        table_(control_patterns) {}

  ParameterTable build() {
    const auto dim = config_.model_dim;
    const auto layers = config_.num_layers;
    const auto kv_dim = config_.num_kv_heads * head_dim(config_);
    const auto hidden = mlp_hidden(config_);
    add("qo_bank", ParameterKind::bank, {2 * layers, dim, dim});
    add("kv_bank", ParameterKind::bank, {2 * layers, kv_dim, dim});
    add("mlp_up_bank", ParameterKind::bank, {layers, hidden, dim});
    add("mlp_down_bank", ParameterKind::bank, {layers, dim, hidden});
    add_table("tok_emb.weight", config_.vocab_size, dim);
    if (config_.bigram_vocab_size > 0) {
      add_table("bigram.embed.weight", config_.bigram_vocab_size, config_.bigram_dim);
      add_projection("bigram.proj.weight", dim, config_.bigram_dim);
      add("bigram.scale", ParameterKind::scalar, {});
    }
    if (config_.smear_gate) add("smear.gate", ParameterKind::scalar, {dim});
    if (config_.unet_skips) add("skip_weights", ParameterKind::scalar, {layers / 2, dim});
    for (std::int64_t i = 0; i < layers; ++i) add_block(i);
    if (config_.ve_enabled && !config_.ve_layers.empty()) {
      add_table("ve_shared.embed.weight", config_.vocab_size, config_.ve_dim);
      add_projection("ve_shared.proj.weight", kv_dim, config_.ve_dim);
      add("ve_shared.scale", ParameterKind::scalar, {});
      for (std::size_t j = 0; j < config_.ve_layers.size(); ++j) {
        add(fmt::format("ve_layer_scales.{}", j), ParameterKind::scalar, {1});
      }
    }
    if (!config_.tie_embeddings) {
      add("lm_head.weight", ParameterKind::head, {config_.vocab_size, dim});
    }
    for (std::int64_t k = 0; k < config_.mtp_num_heads; ++k) {
      add(fmt::format("mtp_heads.{}.weight", k), ParameterKind::mtp_head,
          {config_.vocab_size, dim});
    }
    return std::move(table_);
  }

 private:
  void add(std::string name, ParameterKind kind, at::IntArrayRef shape) {
    table_.add(std::move(name), kind, at::empty(shape, options_));
  }
  void add_table(std::string name, std::int64_t rows, std::int64_t columns) {
    table_.add(std::move(name), ParameterKind::table, at::empty({rows, columns}, table_options_));
  }
  // Absent where both sides are equal.
  void add_projection(std::string name, std::int64_t rows, std::int64_t columns) {
    if (rows != columns) add(std::move(name), ParameterKind::projection, {rows, columns});
  }

  void add_block(std::int64_t i) {
    const auto dim = config_.model_dim;
    const auto heads = config_.num_heads;
    const auto scalar = [&](const char* name, at::IntArrayRef shape) {
      add(fmt::format("blocks.{}.{}", i, name), ParameterKind::scalar, shape);
    };
    if (config_.qk_gain_init != 0) scalar("attn.q_gain", {heads});
    if (config_.gated_attention) {
      scalar("attn.attn_gate.weight", {heads, dim});
      scalar("attn.attn_gate.bias", {heads});
    }
    if (config_.value_residual == ValueResidual::on) scalar("attn.vr_lambda", {2});
    if (config_.value_residual == ValueResidual::blend) scalar("attn.value_blend", {});
    if (config_.layer_scales) {
      scalar("attn_scale", {dim});
      scalar("mlp_scale", {dim});
    }
    if (config_.resid_mix == ResidMix::vector) {
      scalar("resid_mix", {2, dim});
    } else {
      scalar("resid_mix", {2});
    }
    if (config_.dtg_enabled) {
      scalar("dtg_gate.weight", {1, dim});
      scalar("dtg_gate.bias", {1});
    }
  }

  const ModelConfig& config_;
  at::TensorOptions table_options_, options_;
  ParameterTable table_;
};

}  // namespace

ParameterTable make_parameters(const ModelConfig& config, at::ScalarType storage, at::Device device,
                               const std::vector<std::string>& control_patterns) {
  return Builder(config, storage, device, control_patterns).build();
}

}  // namespace tg
