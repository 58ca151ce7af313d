// A small model of record 89 on a GPU in fp32: own kernels and the reference against the reference
// in fp64 on the CPU, gradient by gradient.
#include <map>

#include "ops/fused.h"
#include "tests/model/fixtures.h"
#include "tests/ops/on_gpu.h"

namespace tg {
namespace {

constexpr std::int64_t kVocab = 40, kTokens = 60;

// Six heads of 16 channels.
Settings small() {
  Settings settings;
  set_recipe_defaults(RecipeChoice::speedrun_89, settings);
  auto& model = settings.model;
  model.vocab_size = kVocab;
  model.model_dim = model.bigram_dim = 96;
  model.mlp_mult = 2;
  model.bigram_vocab_size = 30;
  model.bigram_sign_rows = 7;
  model.gates.mudd_dim = 5;
  model.gates.dc_window = 4;
  model.windows.window_block = 2;
  model.windows.short_window = CountSchedule({{1, 0}});
  model.windows.long_window = CountSchedule({{4, 0}});
  model.windows.final_long_window = 6;
  return settings;
}

class Speedrun89Gpu : public test::OnGpu<> {
 protected:
  // The loss and every gradient, in fp64.
  std::map<std::string, at::Tensor> run(bool fused, at::ScalarType dtype, at::Device device) const {
    set_fused(fused);
    const auto table = make_parameters(spec_, settings_, dtype, device);
    std::uint64_t seed = 1;
    for (const auto& row : table.rows())
      row.value.detach().copy_(test::normal(row.value.sizes(), seed++, at::kFloat) * 0.2);
    Gpt model(spec_.plan, table, {.compute = dtype});
    const auto tokens = test::integers({1, kTokens + 1}, kVocab, 2).to(device);
    const auto ends = at::tensor({0, 23, 60}, at::kInt).to(device);
    const auto loss =
        model.loss(tokens.slice(1, 0, -1).contiguous(), tokens.slice(1, 1).contiguous(), {},
                   documents_at(ends, 1, kTokens, /*longest=*/kTokens));
    loss.backward();
    model.collect_gradients();
    set_fused(true);
    std::map<std::string, at::Tensor> found{{"loss", loss.detach()}};
    for (const auto& row : table.rows()) {
      if (row.update.optimized()) found[row.name] = row.value.grad();
    }
    for (auto& [name, tensor] : found) tensor = tensor.to(at::kCPU, at::kDouble);
    return found;
  }

  const Settings settings_ = small();
  const ModelSpec spec_ = model_spec(settings_);
};

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).norm().item<double>() / b.norm().item<double>();
}

TEST_F(Speedrun89Gpu, LossAndEveryGradientAreTheReferences) {
  const auto truth = run(/*fused=*/false, at::kDouble, at::kCPU),
             reference = run(/*fused=*/false, at::kFloat, test::kGpu),
             found = run(/*fused=*/true, at::kFloat, test::kGpu);
  for (const auto& [name, exact] : truth) {
    ASSERT_TRUE(exact.abs().max().item<double>() > 0) << name;
    // Of one number, the reference's error may be small by chance.
    const double of_reference = distance(reference.at(name), exact);
    EXPECT_LT(distance(found.at(name), exact), 10 * of_reference + 1e-4)
        << name << ", reference " << of_reference;
  }
}

}  // namespace
}  // namespace tg
