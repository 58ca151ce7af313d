#pragma once
// The tiny models that tests/fixtures/make_model_fixtures.py computes in plain PyTorch, and the
// presets' full sizes.
#include <map>
#include <string>

#include "config/settings.h"
#include "model/gpt.h"
#include "model/init.h"
#include "model/parameters.h"
#include "tests/model/spec.h"
#include "tests/ops/tensors.h"
#include "weights/safetensors/safetensors.h"

namespace tg::test {

// The model of a recipe, full size.
inline ModelConfig recipe_config(RecipeChoice recipe) {
  Settings settings;
  set_recipe_defaults(recipe, settings);
  return settings.model;
}

// All switches that tell the speedrun from the record; full size.
inline ModelConfig speedrun_config() {
  return recipe_config(RecipeChoice::speedrun);
}

inline ModelConfig tiny_speedrun() {
  auto c = speedrun_config();
  c.vocab_size = 40;
  c.num_layers = 3;
  c.num_heads = c.num_kv_heads = 2;
  c.model_dim = 16;
  return c;
}

// Every part of the record: grouped queries, XSA, smear, bigram and value embeddings, skips over an
// odd number of layers, partial RoPE.
inline ModelConfig tiny_record() {
  ModelConfig c;
  c.vocab_size = 40;
  c.num_layers = 5;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.model_dim = 24;
  c.mlp_mult = 1.5;
  c.rope_base = 100;
  c.rope_dims = 4;
  c.objective.logit_softcap = 8;
  c.bigram_vocab_size = 30;
  c.bigram_dim = 10;
  c.xsa_last_n = 2;
  c.ve_dim = 10;
  c.ve_layers = {1, 4};
  return c;
}

// Every part that the record leaves out, for QAT as well; the bigram table needs no projection.
inline ModelConfig tiny_switches() {
  ModelConfig c;
  c.vocab_size = 40;
  c.num_layers = 4;
  c.num_heads = c.num_kv_heads = 3;
  c.model_dim = 24;
  c.mlp_mult = 1.5;
  c.tie_embeddings = false;
  c.rope_dims = 0;
  c.bigram_vocab_size = 30;
  c.bigram_dim = 24;
  c.xsa_last_n = 1;
  c.ln_scale = false;
  c.ve_dim = 10;
  c.ve_layers = {0, 2};
  c.dtg_enabled = true;
  c.gates.head_gate = HeadGateKind::biased;
  c.value_residual = ValueResidual::on;
  c.mtp_num_heads = 2;
  c.mtp_loss_weight = 0.3;
  return c;
}

// The record's bigrams and value embeddings, with a smear gate that documents close.
inline ModelConfig tiny_gated_smear() {
  auto c = tiny_record();
  c.gates.smear = SmearKind::gated;
  c.gates.gate_window = 5;
  return c;
}

// The last record at its full size.
inline ModelConfig last_record_config() {
  auto c = recipe_config(RecipeChoice::last_record);
  c.recipe = RecipeChoice::last_record;
  c.gates.smear = SmearKind::gated;
  c.gates.head_gate = HeadGateKind::sparse;
  c.gates.sparse_attn_gate_scale = 0.5;
  return c;
}
// Every part of it at the size of its reference case, but for the vocabulary: blocks 2 and 3 recur
// twice, two lanes begin with block 4.
inline ModelConfig tiny_last_record() {
  auto c = last_record_config();
  c.vocab_size = 40;
  c.num_layers = c.xsa_last_n = 6;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.model_dim = 64;
  c.mlp_mult = 2;
  c.rope_dims = 8;
  c.recurrence.loop_start = 2;
  c.recurrence.loop_end = 3;
  c.lanes.parallel_start_layer = 4;
  return c;
}

using Tensors = std::map<std::string, at::Tensor>;

inline Tensors load_fixture(const std::string& name) {
  const auto loaded = load_safetensors(std::string(TEST_DATA_DIR "/") + name);
  return {loaded.begin(), loaded.end()};
}

// Weights in the range of a trained model's, so that no gradient vanishes.
inline ParameterTable random_parameters(const ModelConfig& config, at::ScalarType storage,
                                        std::uint64_t seed) {
  auto table = test::make_parameters(config, storage, at::kCPU, {.tied_embed_init_std = 0.3});
  const at::NoGradGuard no_grad;
  test::initialize(table, config, static_cast<std::int64_t>(seed));
  for (const auto& row : table.rows()) {
    const auto noise = normal(row.value.sizes(), ++seed) * 0.2;
    row.value.detach().add_(noise.to(row.value.scalar_type()));
  }
  return table;
}

// For a few positions alone and in decoding, of a model in fp64 and more than seven inputs a row.
inline void expect_the_logits_of_a_whole_pass(const Gpt& model, const at::Tensor& inputs_bt) {
  const auto length = inputs_bt.size(1);
  const auto whole = model.logits(inputs_bt, {0, length}, length);
  EXPECT_TRUE(
      is_close(model.logits(inputs_bt, {4, 7}, length), whole.narrow(1, 4, 3), 1e-12, 1e-13));
  auto cache = model.make_cache(inputs_bt.size(0), length);
  for (std::int64_t i = 0; i < length; ++i) {
    EXPECT_TRUE(is_close(model.next_logits(inputs_bt.narrow(1, i, 1), cache), whole.select(1, i),
                         1e-12, 1e-13))
        << i;
  }
}

}  // namespace tg::test
