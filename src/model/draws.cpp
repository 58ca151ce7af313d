#include "model/draws.h"

namespace tg {

namespace {

std::int64_t block_count(const Plan& plan) {
  return std::ssize(plan.blocks);
}

// A parameter is drawn where it begins at random, the weight of a Linear in any case.
void draw_head_gate(DrawList& draw, const Gate& gate, const ModelConfig& config) {
  if (config.gated_attention || config.gates.attn_out_gate_enabled)
    draw.linear(gate);
  else
    draw.initial(gate.weight);
}

// Module by module what its constructor draws, and what the script then overwrites that with.
std::vector<Draw> record_draws(const Plan& plan, const ModelConfig& config) {
  const auto& [embedding, values, m, blocks, stages, head] = plan;
  DrawList draw;
  draw.embedding(embedding.tokens);
  draw.embedding(embedding.bigrams);
  draw.linear(embedding.bigram_projection);
  for (const auto& block : blocks) {
    draw_head_gate(draw, block.head_gate.gate, config);
    draw.linear(block.update_gate);
  }
  draw.embedding(values.table);
  draw.initial(values.table);
  draw.linear(values.projection);
  draw.linear(head.weight);
  for (const auto& weight : head.multi_token) draw.linear(weight);
  draw.initial(embedding.tokens);
  for (std::int64_t i = 0; i < block_count(plan); ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values, m.up}) draw.initial(matrices, i);
  }
  draw.initial(embedding.bigram_projection);
  draw.initial(values.projection);
  return draw.take();
}

std::vector<Draw> speedrun_draws(const Plan& plan) {
  const auto& m = plan.matrices;
  DrawList draw;
  draw.embedding(plan.embedding.tokens);
  for (std::int64_t i = 0; i < block_count(plan); ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values, m.out, m.up, m.down})
      draw.linear(matrices, i);
  }
  draw.initial(plan.embedding.tokens);
  draw.initial(plan.value_embedding.table);
  draw.initial(plan.embedding.bigram_projection);
  draw.initial(plan.value_embedding.projection);
  return draw.take();
}

std::vector<Draw> last_record_draws(const Plan& plan, const ModelConfig& config) {
  const auto& [embedding, values, m, blocks, stages, head] = plan;
  DrawList draw;
  draw.embedding(embedding.tokens);
  for (const auto& block : blocks) draw_head_gate(draw, block.head_gate.gate, config);
  draw.linear(head.weight);
  draw.linear(embedding.gated_smear_weight);
  draw.initial(embedding.tokens);
  for (std::int64_t i = 0; i < block_count(plan); ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values}) draw.initial(matrices, i);
  }
  for (std::int64_t i = 0; i < block_count(plan); ++i) draw.initial(m.up, i);
  draw.initial(values.table);
  draw.initial(embedding.bigram_projection);
  draw.initial(values.projection);
  return draw.take();
}

}  // namespace

std::vector<Draw> initial_draws(const Plan& plan, const ModelConfig& config, RecipeChoice recipe) {
  switch (recipe) {
    case RecipeChoice::speedrun:
      return speedrun_draws(plan);
    case RecipeChoice::last_record:
      return last_record_draws(plan, config);
    case RecipeChoice::record:
    case RecipeChoice::automatic:
      break;
  }
  return record_draws(plan, config);
}

}  // namespace tg
