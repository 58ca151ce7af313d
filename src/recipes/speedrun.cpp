// The GPT-124M speedrun of 2024-11-08: 3,242 steps of 524,288 tokens to a validation loss of 3.28.
// Neither averages nor quantizes weights.
#include "recipes/gpt_spec.h"
#include "recipes/own_layers.h"
#include "weights/foreign_weights.h"

namespace tg {

namespace {

void set_defaults(Settings& s) {
  set_speedrun_defaults(s);
  s.data.loader_order = LoaderOrder::strided;

  auto& model = s.model;
  model.num_layers = 12;
  model.bigram_vocab_size = 0;
  model.unet_skips = false;
  model.gates.smear = SmearKind::off;
  model.value_residual = ValueResidual::blend;

  auto& run = s.run;
  run.iterations = 3242;
  run.warmdown_iters = 926;
  run.train_batch_tokens = 524288;
  run.train_seq_len = 1024;
  run.val_loss_every = 125;
  run.eval_seq_len = 0;

  auto& optim = s.optim;
  optim.embed_lr = 0.3;
  optim.head_lr = 0.002;
  optim.matrix_lr = optim.scalar_lr = 0.02;
  optim.muon_momentum_warmup_steps = 500;
  optim.muon_wd = optim.adam_wd = 0;
}

std::vector<Draw> draws(const Plan& plan, const ModelConfig& config) {
  const auto& m = plan.matrices;
  DrawList draw;
  draw.embedding(plan.embedding.tokens);
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    for (const auto& matrices : {m.queries, m.keys, m.values, m.out, m.up, m.down})
      draw.linear(matrices, i);
  }
  draw.initial(plan.embedding.tokens);
  draw.initial(plan.value_embedding.table);
  draw.initial(plan.embedding.bigram_projection);
  draw.initial(plan.value_embedding.projection);
  return draw.take();
}

}  // namespace

const Recipe kSpeedrun{.set_defaults = set_defaults,
                       .model =
                           [](const Settings& s) {
                             return gpt_spec(s,
                                             {.draws = draws, .matrices = InitDist::torch_default});
                           },
                       .script_weights = {"the GPT-124M script", rename_script_weights}};

}  // namespace tg
