// The record of the 16 MB challenge of 2026-03-23; its script's defaults are the program's
// defaults.
#include "recipes/gpt_spec.h"

namespace tg {

namespace {

// The draws of each module's constructor, followed by the script's explicit initialisation.
std::vector<Draw> draws(const Plan& plan, const ModelConfig& config) {
  const auto& m = plan.matrices;
  DrawList draw;
  draw.embedding(plan.embedding.tokens);
  draw.embedding(plan.embedding.bigrams);
  draw.linear(plan.embedding.bigram_projection);
  for (const auto& block : plan.blocks) {
    draw_head_gate(draw, block.head_gate.gate, config);
    draw.linear(block.update_gate);
  }
  draw.embedding(plan.value_embedding.table);
  draw.initial(plan.value_embedding.table);
  draw.linear(plan.value_embedding.projection);
  draw.linear(plan.head.weight);
  for (const auto& weight : plan.head.multi_token) draw.linear(weight);
  draw.initial(plan.embedding.tokens);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values, m.up}) draw.initial(matrices, i);
  }
  draw.initial(plan.embedding.bigram_projection);
  draw.initial(plan.value_embedding.projection);
  return draw.take();
}

}  // namespace

const Recipe kRecord{
    .set_defaults = [](Settings&) {},
    .model = [](const Settings& settings) { return gpt_spec(settings, {.draws = draws}); }};

}  // namespace tg
