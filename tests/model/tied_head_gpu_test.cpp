// A head that is the token table, of so many columns that it works in chunks: both uses of the
// table add to one fp32 sum. Against the reference in fp32. Skipped where there is no GPU.
#include <fmt/format.h>

#include "ops/attention/attention.h"
#include "ops/kernels.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"
#include "tests/ops/on_fp8_gpu.h"

namespace tg {
namespace {

constexpr std::int64_t kRows = 2, kLength = 65, kMicroBatches = 2;

// Its vocabulary is padded to 8,192 columns where it is not of that size.
struct Case {
  const char* name;
  std::int64_t vocab;
  bool fp8;
};

ModelConfig config_of(std::int64_t vocab) {
  ModelConfig c;
  c.vocab_size = vocab;
  c.num_layers = 2;
  c.model_dim = 128;
  c.num_heads = 2;
  c.num_kv_heads = 1;
  c.bigram_vocab_size = c.xsa_last_n = 0;
  c.ve_enabled = false;
  return c;
}

struct Tokens {
  at::Tensor inputs, targets;
};
Tokens tokens_of(std::int64_t vocab, std::int64_t micro_batch) {
  const auto all = test::integers({kRows, kLength + 1}, vocab, 3 + micro_batch).to(test::kGpu);
  return {all.slice(1, 0, -1).contiguous(), all.slice(1, 1).contiguous()};
}

class TiedHeadGpu : public test::OnGpu<::testing::TestWithParam<Case>> {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (!IsSkipped() && GetParam().fp8 && !test::has_fp8_gemms())
      GTEST_SKIP() << "no FP8 tensor cores";
  }
  // As a run has it.
  struct Model {
    Model(const ModelConfig& model_config, at::ScalarType dtype, bool fp8, bool trains = true)
        : config(model_config),
          compute(dtype),
          table(test::make_parameters(config, compute, test::kGpu)) {
      const auto source = test::random_parameters(config, at::kFloat, 1);
      for (const auto& row : table.rows()) {
        // As bf16 holds them, whatever the dtype; small enough for a trained model's activations.
        row.value.detach().copy_((source[row.name].detach() * 0.3).to(at::kBFloat16));
        at::Tensor(row.value).set_requires_grad(trains);
      }
      use_attention(choose_attention("auto", test::kGpu, compute, 64));
      const Fp8Parts parts{.head = fp8};
      gpt.emplace(test::plan_of(config), table,
                  Numerics{.compute = compute,
                           .padding = {.vocab = 64},  // as PAD_VOCAB=auto
                           .fp8 = parts,
                           .has_fp8 = true,
                           .step_tokens = kMicroBatches * kRows * kLength});
    }
    // → the loss of a step's micro-batches.
    double step() {
      for (const auto& row : table.rows()) {
        if (row.value.grad().defined()) row.value.mutable_grad().zero_();
      }
      gpt->cast_weights();
      double sum = 0;
      for (std::int64_t i = 0; i < kMicroBatches; ++i) {
        const auto [inputs, targets] = tokens_of(config.vocab_size, i);
        const auto loss = gpt->loss(inputs, targets, {.fp8 = true, .scale = 1.0 / kMicroBatches});
        loss.backward();
        sum += loss.item<double>();
      }
      // Neither use's gradient comes by autograd, in the table's dtype.
      if (compute == at::kBFloat16) {
        EXPECT_EQ(table["tok_emb.weight"].grad().count_nonzero().item<std::int64_t>(), 0);
      }
      gpt->collect_gradients();
      gpt->fp8_scales().update();
      return sum;
    }
    at::Tensor gradient() const { return table["tok_emb.weight"].grad().to(at::kDouble); }
    std::string head_kernel() const {
      const auto kernels = gpt->kernels(kRows, kLength, kLength);
      return kernels.substr(kernels.find("head:"));
    }

    ModelConfig config;
    at::ScalarType compute;
    ParameterTable table;
    std::optional<Gpt> gpt;
  };
  Model model() const { return Model(config_of(GetParam().vocab), at::kBFloat16, GetParam().fp8); }
};

double distance(const at::Tensor& found, const at::Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

TEST_P(TiedHeadGpu, TheTablesGradientIsTheSumOfBothUsesOfAllMicroBatches) {
  const auto c = GetParam();
  set_fused(false);
  Model reference(config_of(c.vocab), at::kFloat, /*fp8=*/false);
  const double expected = reference.step();
  set_fused(true);
  auto found = model();
  const auto x = at::empty({0}, at::device(test::kGpu).dtype(at::kBFloat16));
  EXPECT_EQ(found.head_kernel(), fmt::format("head:{}{}", use_hopper_kernels(x) ? "hopper" : "cuda",
                                             c.fp8 ? "_fp8" : ""));
  if (c.fp8) found.step();  // whose scales are a guess
  EXPECT_NEAR(found.step() / expected, 1, c.fp8 ? 0.01 : 0.002);
  // Each row's part of the lookups, the targets and the softmax differs.
  auto seen = at::zeros({c.vocab}, at::device(test::kGpu).dtype(at::kBool)), targets = seen.clone();
  for (std::int64_t i = 0; i < kMicroBatches; ++i) {
    const auto tokens = tokens_of(c.vocab, i);
    seen.index_fill_(0, tokens.inputs.flatten(), 1);
    targets.index_fill_(0, tokens.targets.flatten(), 1);
  }
  const double tolerance = c.fp8 ? 0.1 : 0.03;
  const auto expect_near = [&](const at::Tensor& rows, const char* name) {
    const auto indices = rows.nonzero().squeeze(1);
    ASSERT_GT(indices.numel(), 0) << name;
    EXPECT_LT(distance(found.gradient().index_select(0, indices),
                       reference.gradient().index_select(0, indices)),
              tolerance)
        << name;
  };
  expect_near(seen & ~targets, "looked up alone");
  expect_near(targets & ~seen, "targets alone");
  expect_near(seen & targets, "both");
  expect_near(~seen & ~targets, "neither");
}

TEST_P(TiedHeadGpu, AStepLeavesNothingForTheNext) {
  auto made = model();
  auto& scales = made.gpt->fp8_scales();
  const auto first = GetParam().fp8 ? scales.scales().clone() : at::Tensor();
  const double loss = made.step();
  const auto gradient = made.gradient();
  if (GetParam().fp8) scales.scales().copy_(first);
  EXPECT_EQ(made.step(), loss);
  EXPECT_TRUE(at::equal(made.gradient(), gradient));
}

TEST_P(TiedHeadGpu, ScoresAreThoseOfAModelForInference) {
  auto trained = model();
  trained.step();
  Model scores(config_of(GetParam().vocab), at::kBFloat16, /*fp8=*/false, /*trains=*/false);
  const auto [inputs, targets] = tokens_of(GetParam().vocab, 0);
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(trained.gpt->token_losses(inputs, targets),
                        scores.gpt->token_losses(inputs, targets)));
  EXPECT_EQ(trained.gpt->loss(inputs, targets, {}).item<double>(),
            scores.gpt->loss(inputs, targets, {}).item<double>());
  auto cache = trained.gpt->make_cache(kRows, kLength),
       other = scores.gpt->make_cache(kRows, kLength);
  EXPECT_TRUE(test::is_close(trained.gpt->next_logits(inputs, cache),
                             scores.gpt->next_logits(inputs, other), 0, 0.05))
      << "columns of the padding change nothing but the GEMM's order";
}

TEST_P(TiedHeadGpu, IsReadAsItIsAfterAnUpdateAndNeverRoundedByQat) {
  auto made = model();
  made.step();
  const at::NoGradGuard no_grad;
  made.table["tok_emb.weight"].detach().mul_(0.5);
  made.gpt->set_fake_quant(true);
  made.gpt->cast_weights();
  Model fresh(config_of(GetParam().vocab), at::kBFloat16, /*fp8=*/false, /*trains=*/false);
  fresh.table["tok_emb.weight"].detach().mul_(0.5);
  fresh.gpt->set_fake_quant(true);
  fresh.gpt->cast_weights();
  const auto [inputs, targets] = tokens_of(GetParam().vocab, 0);
  EXPECT_TRUE(
      at::equal(made.gpt->token_losses(inputs, targets), fresh.gpt->token_losses(inputs, targets)));
}

TEST_P(TiedHeadGpu, OfFewerColumnsKeepsItsLogits) {
  const Model small(config_of(4096), at::kBFloat16, GetParam().fp8);
  EXPECT_EQ(small.head_kernel(), "head:cuda");
  EXPECT_FALSE(small.gpt->fp8_parts().head);
}

INSTANTIATE_TEST_SUITE_P(Cases, TiedHeadGpu,
                         ::testing::Values(Case{"Bf16", 8192, false}, Case{"Padded", 8150, false},
                                           Case{"Fp8", 8192, true}, Case{"PaddedFp8", 8150, true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace tg
