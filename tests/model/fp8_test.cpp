// Training passes with FP8 GEMMs, on the CPU by their reference.
#include <fmt/format.h>

#include <map>
#include <string>

#include "config/types/text.h"
#include "model/gpt.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

constexpr Fp8Parts kAll{.mlp = true, .qkv = true, .out = true};

// Sizes that are multiples of 16, as FP8 wants them.
ModelConfig small_config() {
  ModelConfig c;
  c.vocab_size = 256;
  c.num_layers = 4;
  c.model_dim = 64;
  c.num_heads = 4;
  c.num_kv_heads = 2;
  c.rope_dims = 16;
  c.bigram_vocab_size = 0;
  c.ve_enabled = false;
  return c;
}

class Fp8Model : public testing::Test {
 protected:
  struct Made {
    explicit Made(Fp8Parts fp8, ActivationRecompute recompute = ActivationRecompute::off,
                  bool has_fp8 = true, const ModelConfig& model_config = small_config())
        : config(model_config),
          table(test::random_parameters(config, at::kFloat, 1)),
          model(test::plan_of(config), table,
                {.compute = at::kBFloat16,
                 .recompute = recompute,
                 .fp8 = fp8,
                 .has_fp8 = has_fp8,
                 .step_tokens = kTokens}) {
      model.cast_weights();
    }
    double loss(bool training = true) {
      const auto ids = test::integers({kRows, kLength + 1}, config.vocab_size, 3);
      const auto loss = model.loss(ids.slice(1, 0, -1), ids.slice(1, 1), {.fp8 = training});
      if (training) loss.backward();
      return loss.item<double>();
    }
    test::Tensors gradients() {
      model.collect_gradients();
      test::Tensors found;
      for (const auto& row : table.rows()) {
        if (row.value.grad().defined()) found[row.name] = row.value.grad().clone();
      }
      return found;
    }
    at::Tensor scales() { return model.fp8_scales().scales(); }

    ModelConfig config;
    ParameterTable table;
    Gpt model;
  };
  static constexpr std::int64_t kRows = 4, kLength = 32, kTokens = kRows * kLength;

  static double distance(const at::Tensor& a, const at::Tensor& b) {
    return ((a - b).norm() / b.norm()).item<double>();
  }
};

TEST_F(Fp8Model, LossAndGradientsAreNearThoseOfBf16) {
  Made bf16({}), first(kAll), second(kAll);
  const double expected = bf16.loss();
  const auto exact = bf16.gradients();
  const auto expect_near = [&](Made& made) {
    EXPECT_NEAR(made.loss(), expected, 0.01 * expected);
    const auto found = made.gradients();
    // A GEMM of two rounded operands is off by some 4 %, and a gradient is one after several.
    for (const char* name :
         {"qo_bank", "kv_bank", "mlp_up_bank", "mlp_down_bank", "tok_emb.weight"}) {
      EXPECT_LT(distance(found.at(name), exact.at(name)), 0.25) << name;
    }
  };
  // The first step's scales are a guess, the second's follow from what the first saw.
  expect_near(first);
  first.model.fp8_scales().update();
  second.scales().copy_(first.scales());
  expect_near(second);
}

TEST_F(Fp8Model, ScalesFollowTheLargestMagnitudesOfTheStepBefore) {
  Made made(kAll);
  const auto first = made.scales().clone();
  made.loss();
  const auto amax = made.model.fp8_scales().amax().clone();
  EXPECT_TRUE((amax > 0).all().item<bool>());
  EXPECT_TRUE(at::equal(made.scales(), first)) << "within a step they stay";
  made.model.fp8_scales().update();
  EXPECT_TRUE(test::is_close(made.scales(), amax * (Fp8Scales::kHeadroom / kFp8Max), 1e-6, 0));
  EXPECT_EQ(made.model.fp8_scales().amax().max().item<double>(), 0);

  const auto second = made.scales().clone();
  made.model.fp8_scales().amax().fill_(NAN);
  made.model.fp8_scales().amax()[1].fill_(0);
  made.model.fp8_scales().update();
  EXPECT_TRUE(at::equal(made.scales(), second)) << "what is not finite or not seen says nothing";
}

TEST_F(Fp8Model, ValidationComputesInBf16AndLeavesTheScalesAlone) {
  Made bf16({}), fp8(kAll);
  EXPECT_EQ(fp8.loss(/*training=*/false), bf16.loss(/*training=*/false));
  EXPECT_EQ(fp8.model.fp8_scales().amax().max().item<double>(), 0);
}

TEST_F(Fp8Model, WithoutItsKernelsPassesAreInBf16AndTheScalesStay) {
  Made bf16({}), without(kAll, ActivationRecompute::off, /*has_fp8=*/false);
  EXPECT_EQ(without.loss(), bf16.loss());
  const auto scales = without.scales().clone();
  without.model.fp8_scales().update();
  EXPECT_TRUE(at::equal(without.scales(), scales));
}

TEST_F(Fp8Model, RecomputeGivesTheSameBits) {
  Made plain(kAll);
  const double expected = plain.loss();
  const auto gradients = plain.gradients();
  for (const auto mode : {ActivationRecompute::light, ActivationRecompute::block}) {
    SCOPED_TRACE(choice_name(mode));
    Made made(kAll, mode);
    EXPECT_EQ(made.loss(), expected);
    for (const auto& [name, gradient] : made.gradients())
      EXPECT_TRUE(at::equal(gradient, gradients.at(name))) << name;
    EXPECT_TRUE(at::equal(made.model.fp8_scales().amax(), plain.model.fp8_scales().amax()));
  }
}

TEST_F(Fp8Model, EachPartIsItsOwnProductsAlone) {
  const double bf16 = Made({}).loss();
  for (const auto& [name, part] : Fp8Parts::names()) {
    if (name == "head") continue;  // by its kernel alone
    Fp8Parts parts;
    parts.*part = true;
    Made made(parts);
    EXPECT_NE(made.loss(), bf16) << name;
    const auto used = (made.model.fp8_scales().amax() > 0).sum().item<std::int64_t>();
    const std::int64_t products = name == "mlp" ? 2 : 1;
    EXPECT_EQ(used, 2 * products * made.config.num_layers) << name;
  }
}

// The head is in FP8 by its kernel alone, so never here; a run that resumes where it is wants its
// scales all the same.
TEST_F(Fp8Model, AHeadThatIsNotInFp8IsNeitherRoundedNorSaid) {
  auto config = small_config();
  config.tie_embeddings = false;
  const auto make = [&](Fp8Parts parts, bool has_fp8) {
    return Made(parts, ActivationRecompute::off, has_fp8, config);
  };
  auto with_head = kAll;
  with_head.head = true;
  auto asked = make(with_head, true), others = make(kAll, true), nothing = make(with_head, false);
  EXPECT_EQ(value_text(asked.model.fp8_parts()), "mlp,qkv,out");
  EXPECT_FALSE(nothing.model.fp8_parts().any());
  EXPECT_EQ(asked.loss(), others.loss());
  EXPECT_TRUE(at::equal(asked.model.fp8_scales().amax(), others.model.fp8_scales().amax()));
  EXPECT_EQ(asked.scales().sizes(), at::IntArrayRef({2, 4 * config.num_layers + 2}));
  EXPECT_EQ(nothing.scales().sizes(), asked.scales().sizes());
}

// In FP8 or not, as an untied one; a smaller one never is.
TEST_F(Fp8Model, AHeadThatIsTheTokenTableHasScalesFromItsLeastColumnsOn) {
  auto config = small_config();
  config.num_layers = 1;
  for (const std::int64_t vocab : {8191, 8192}) {
    config.vocab_size = vocab;
    Made made(kAll, ActivationRecompute::off, /*has_fp8=*/true, config);
    EXPECT_EQ(made.model.fp8_scales().state().back().first,
              vocab == 8192 ? "fp8_scales.head.scaled_input" : "fp8_scales.calls.0.down");
    EXPECT_FALSE(made.model.fp8_parts().head);
  }
}

TEST_F(Fp8Model, AScaleIsKeptByTheNameOfItsVisitAndMatrix) {
  auto config = small_config();
  config.num_layers = 2;
  config.tie_embeddings = false;
  for (const bool has_fp8 : {true, false}) {
    Made made({.mlp = true, .head = true}, ActivationRecompute::off, has_fp8, config);
    const auto state = made.model.fp8_scales().state();
    std::vector<std::string> names;
    for (const auto& [name, value] : state) names.push_back(name.substr(name.find('.') + 1));
    // First those in FP8: so are the columns of older checkpoints.
    EXPECT_EQ(names,
              (std::vector<std::string>{"calls.0.up", "calls.1.up", "calls.0.down", "calls.1.down",
                                        "calls.0.qkv", "calls.1.qkv", "calls.0.out", "calls.1.out",
                                        "head", "head.scaled_input"}));
    state[1].second.fill_(7);
    EXPECT_EQ(made.scales().select(1, 1).min().item<double>(), 7);
  }
}

// So that the first step in recurrence does not round by guesses.
TEST_F(Fp8Model, AVisitThatRecurrenceAddsBeginsWithTheScalesOfItsBlock) {
  auto config = small_config();
  config.num_layers = 3;
  config.recurrence = {.num_loops = 1, .loop_start = 1, .loop_end = 1};
  Made made(kAll, ActivationRecompute::off, /*has_fp8=*/true, config);
  // Layer calls 0, 1, 1, 2 of the blocks; before recurrence the third of them is not there.
  const auto state = made.model.fp8_scales().state();
  std::map<std::string, at::Tensor> scales(state.begin(), state.end());
  double number = 1;
  for (const auto& [name, value] : state) value.fill_(number++);
  made.model.inherit_fp8_scales(0, 1);
  for (const char* kind : {"qkv", "out", "up", "down"}) {
    const auto largest_scale = [&](int call) {
      return scales.at(fmt::format("fp8_scales.calls.{}.{}", call, kind)).max().item<double>();
    };
    EXPECT_EQ(largest_scale(2), largest_scale(1)) << kind;
    EXPECT_NE(largest_scale(3), largest_scale(2)) << kind;
    EXPECT_NE(largest_scale(1), largest_scale(0)) << kind;
  }
}

TEST(Fp8Scales, OfAHeadsGradientHaveTheRangeOfE5m2) {
  Fp8Scales scales({"other", "head", "head.scaled_input"}, 128, at::kCPU);
  scales.set_head(1, /*gradient=*/1e-13, /*scaled_input=*/1e-3);
  const auto scale = [](const Fp8Scaling& scaling) { return scaling.scale.item<double>(); };
  const auto expect_scales = [&](double gradient, double scaled_input) {
    const double of_gradient = gradient * Fp8Scales::kE5m2Headroom / kE5m2Max;
    EXPECT_NEAR(scale(scales.output_gradient(1)), of_gradient, 1e-6 * of_gradient);
    const double of_input = scaled_input * Fp8Scales::kHeadroom / kFp8Max;
    EXPECT_NEAR(scale(scales.input(2)), of_input, 1e-6 * of_input);
  };
  expect_scales(1e-13, 1e-3);
  EXPECT_EQ(scale(scales.input(1)), scale(scales.input(0))) << "its input is as any other";
  scales.amax().fill_(5);
  scales.update();
  expect_scales(5, 5);
  EXPECT_EQ(scale(scales.output_gradient(0)), scale(scales.input(2)));
}

}  // namespace
}  // namespace tg
