#include "optim/loss_scale.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

ModelConfig small_config() {
  ModelConfig c;
  c.vocab_size = 512;
  c.num_layers = 4;
  c.model_dim = 128;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.rope_dims = 16;
  c.ve_enabled = false;
  return c;
}

// As after the first steps: the outputs of the blocks began at zero, so that what is inside them
// has the smallest gradients.
void set_young_weights(ParameterTable& table, const ModelConfig& config) {
  const at::NoGradGuard no_grad;
  test::initialize(table, config, /*seed=*/1);
  for (const char* name : {"qo_bank", "mlp_down_bank"}) {
    const at::Tensor value = table[name];
    value.detach().add_(test::normal(value.sizes(), 2).to(value.scalar_type()) * 2e-4);
  }
}

using Gradients = std::map<std::string, at::Tensor>;

// Gradients of these tokens [B, T + 1], part of a step's `step_tokens`, in fp64.
Gradients gradients(const ModelConfig& config, at::ScalarType compute, const at::Tensor& ids,
                    std::int64_t step_tokens) {
  auto table = test::make_parameters(config, at::kFloat, at::kCPU);
  set_young_weights(table, config);
  Gpt model(test::plan_of(config), table, {.compute = compute});
  const LossScale scale(at::kCPU, step_tokens);
  const auto inputs = ids.slice(1, 0, -1).contiguous(), targets = ids.slice(1, 1).contiguous();
  const double share = static_cast<double>(inputs.numel()) / static_cast<double>(step_tokens);
  model
      .loss(inputs, targets,
            {.auxiliary_losses = true, .scale = share, .grad_scale = scale.gradient_scale()})
      .backward();
  model.collect_gradients();
  Gradients found;
  for (const auto& row : table.rows()) {
    if (!row.value.grad().defined()) continue;
    scale.unscale({row.value.grad()});
    found[row.name] = row.value.grad().to(at::kDouble) / share;
  }
  return found;
}

double relative_distance(const at::Tensor& found, const at::Tensor& exact) {
  return (found - exact).norm().item<double>() / exact.norm().item<double>();
}

TEST(Fp16, NoGradientIsLostHoweverManyTokensAStepHas) {
  const auto config = small_config();
  const auto ids = test::integers({4, 65}, config.vocab_size, 3);
  const auto exact = gradients(config, at::kFloat, ids, 256);
  for (const std::int64_t tokens : {256, 98304, 786432}) {
    const auto found = gradients(config, at::kHalf, ids, tokens);
    for (const char* name :
         {"qo_bank", "kv_bank", "mlp_up_bank", "mlp_down_bank", "tok_emb.weight"}) {
      EXPECT_LT(relative_distance(found.at(name), exact.at(name)), 0.02)
          << name << " of a step of " << tokens << " tokens";
    }
  }
}

// A frequent token's gradient is a sum over its thousands of positions in a micro-batch, a gate's
// over all of them.
TEST(Fp16, NoParametersGradientOverflowsAsTheSumOfManyTokens) {
  auto config = small_config();
  config.num_layers = 2;
  config.model_dim = 64;
  config.ve_enabled = config.dtg_enabled = true;
  config.gates.head_gate = HeadGateKind::biased;
  config.ve_dim = config.bigram_dim = 16;
  config.bigram_vocab_size = 64;
  config.ve_layers = {1};
  auto ids = test::integers({16, 513}, config.vocab_size, 3);
  ids.narrow(1, 0, 400).fill_(7);
  const auto exact = gradients(config, at::kFloat, ids, 8192);
  const auto found = gradients(config, at::kHalf, ids, 8192);
  for (const auto& [name, gradient] : found)
    EXPECT_TRUE(gradient.isfinite().all().item<bool>()) << name;
  EXPECT_LT(relative_distance(found.at("tok_emb.weight"), exact.at("tok_emb.weight")), 0.02);
}

}  // namespace
}  // namespace tg
