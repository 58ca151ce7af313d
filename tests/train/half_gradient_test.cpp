#include "optim/loss_scale.h"
#include "tests/model/fixtures.h"

namespace tg {
namespace {

ModelConfig config() {
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
void set_young_weights(ParameterTable& table) {
  const at::NoGradGuard no_grad;
  initialize(table, config(), /*seed=*/1);
  for (const char* name : {"qo_bank", "mlp_down_bank"}) {
    const at::Tensor value = table[name];
    value.detach().add_(test::normal(value.sizes(), 2).to(value.scalar_type()) * 2e-4);
  }
}

// Of 1,024 tokens, which are as many of a step's `tokens`; in fp64.
std::map<std::string, at::Tensor> gradients(at::ScalarType compute, std::int64_t tokens) {
  constexpr std::int64_t kRows = 8, kLength = 128;
  auto table = make_parameters(config(), at::kFloat, at::kCPU);
  set_young_weights(table);
  Gpt model(config(), table, {.compute = compute});
  const LossScale scale(at::kCPU, tokens);
  const double share = static_cast<double>(kRows * kLength) / static_cast<double>(tokens);
  const auto ids = test::integers({kRows, kLength + 1}, config().vocab_size, 3);
  model
      .loss(ids.slice(1, 0, -1).contiguous(), ids.slice(1, 1).contiguous(),
            {.training = true, .scale = share, .grad_scale = scale.gradient_scale()})
      .backward();
  model.collect_gradients();
  std::map<std::string, at::Tensor> found;
  for (const auto& row : table.rows()) {
    if (!row.value.grad().defined()) continue;
    scale.unscale({row.value.grad()});
    found[row.name] = row.value.grad().to(at::kDouble) / share;
  }
  return found;
}

TEST(Fp16, NoGradientIsLostHoweverManyTokensAStepHas) {
  const auto exact = gradients(at::kFloat, 1024);
  for (const std::int64_t tokens : {1024, 98304, 786432}) {
    const auto found = gradients(at::kHalf, tokens);
    for (const char* name :
         {"qo_bank", "kv_bank", "mlp_up_bank", "mlp_down_bank", "tok_emb.weight"}) {
      const double distance = (found.at(name) - exact.at(name)).norm().item<double>() /
                              exact.at(name).norm().item<double>();
      EXPECT_LT(distance, 0.02) << name << " of a step of " << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace tg
