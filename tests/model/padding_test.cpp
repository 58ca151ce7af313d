// Padded sizes change no result: the model against itself without them, in fp64.
#include "model/padding.h"

#include <fmt/format.h>

#include "config/derived.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

namespace tg {
namespace {

const at::Device kGpu(at::kCUDA, 0);  // asked about, never used

TEST(ChoosePadding, PadsNothingOnTheCpu) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto padding = choose_padding(PadVocab::automatic, at::kCPU, dtype);
    EXPECT_EQ(padding.vocab, 1);
    EXPECT_EQ(padding.channels, 1);
  }
}

TEST(ChoosePadding, OnAGpuPadsTheVocabularyUnlessToldNotToAndChannelsInHalfPrecision) {
  EXPECT_EQ(choose_padding(PadVocab::automatic, kGpu, at::kFloat).vocab, 64);
  EXPECT_EQ(choose_padding(PadVocab::off, kGpu, at::kBFloat16).vocab, 1);
  EXPECT_EQ(choose_padding(PadVocab::off, kGpu, at::kBFloat16).channels, 8);
  EXPECT_EQ(choose_padding(PadVocab::automatic, kGpu, at::kHalf).channels, 8);
  EXPECT_EQ(choose_padding(PadVocab::automatic, kGpu, at::kFloat).channels, 1);
}

ModelConfig with_heads(std::int64_t heads, std::int64_t head_dim, std::int64_t rope_dims) {
  ModelConfig config;
  config.num_heads = config.num_kv_heads = heads;
  config.model_dim = heads * head_dim;
  config.rope_dims = rope_dims;
  return config;
}

TEST(ComputeSizes, AreTheSettingsWhereTheseAreMultiples) {
  for (const auto& config : {ModelConfig(), test::speedrun_config()}) {
    const auto sizes = compute_sizes(model_shape(config), {.vocab = 64, .channels = 8});
    EXPECT_EQ(sizes.vocab, config.vocab_size);
    EXPECT_EQ(sizes.dim, config.model_dim);
    EXPECT_EQ(sizes.hidden, mlp_hidden(config));
    EXPECT_EQ(sizes.head_dim, head_dim(config));
    EXPECT_EQ(sizes.qk_runs.size(), 1u);
  }
}

TEST(ComputeSizes, AreTheNextMultiples) {
  auto config = with_heads(7, 110, 16);
  config.vocab_size = 50257;
  const auto sizes = compute_sizes(model_shape(config), {.vocab = 64, .channels = 8});
  EXPECT_EQ(sizes.vocab, 50304);
  EXPECT_EQ(sizes.dim, 776);
  EXPECT_EQ(sizes.hidden, 2312);
  EXPECT_EQ(sizes.head_dim, 112);
  EXPECT_EQ(sizes.half_rope_dims, 8);
}

TEST(ComputeSizes, KeepInterleavedPairsTogether) {
  const auto sizes = compute_sizes(model_shape(with_heads(2, 22, 10)), {.channels = 8},
                                   /*rope_interleaved=*/true);
  EXPECT_EQ(sizes.head_dim, 24);
  EXPECT_EQ(sizes.half_rope_dims, 5);
  ASSERT_EQ(sizes.qk_runs.size(), 1u);
  EXPECT_EQ(sizes.qk_runs[0].to, 0);
  EXPECT_EQ(sizes.qk_runs[0].count, 22);
}

// With whole heads rotated each half is a multiple of 8, so that the head is one of 16; channels
// that are not rotated fill the gaps between the halves first.
TEST(ComputeSizes, EveryEvenHeadFitsTheKernelsAndKeepsItsPairs) {
  for (std::int64_t head = 16; head <= 256; head += 2) {
    for (const std::int64_t rope_dims :
         {std::int64_t{0}, std::int64_t{4}, std::int64_t{16}, head}) {
      const auto sizes =
          compute_sizes(model_shape(with_heads(2, head, rope_dims)), {.channels = 8});
      const auto rotated = rope_dims == 0 ? head : rope_dims, half = sizes.half_rope_dims;
      EXPECT_EQ(sizes.head_dim % 8, 0);
      EXPECT_EQ(half % 8, 0);
      EXPECT_LE(sizes.head_dim,
                rotated == head ? (head + 15) / 16 * 16 : std::max(head + 7, 2 * half));
      std::vector<std::int64_t> place(static_cast<std::size_t>(head), -1);
      std::vector<bool> taken(static_cast<std::size_t>(sizes.head_dim));
      for (const auto& run : sizes.qk_runs) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          place.at(static_cast<std::size_t>(run.from + i)) = run.to + i;
          EXPECT_FALSE(taken.at(static_cast<std::size_t>(run.to + i)));
          taken.at(static_cast<std::size_t>(run.to + i)) = true;
        }
      }
      for (std::int64_t i = 0; i < head; ++i) {
        const auto where = place[static_cast<std::size_t>(i)];
        ASSERT_GE(where, 0) << head << ' ' << rope_dims << ' ' << i;
        if (i < rotated) {
          EXPECT_EQ(where, i < rotated / 2 ? i : half + i - rotated / 2);
        }
      }
    }
  }
}

ModelConfig wide_value_embedding() {
  auto config = test::tiny_record();
  config.ve_dim = config.model_dim / config.num_heads * config.num_kv_heads;  // no projection
  config.rope_dims = 0;
  config.gates.head_gate = HeadGateKind::biased;
  return config;
}

struct Run {
  at::Tensor loss, token_losses;
  std::vector<at::Tensor> gradients;
};
// The gradients of two micro-batches, as a step collects them.
Run run(const ModelConfig& config, const Padding& padding, bool fake_quant) {
  const auto table = test::random_parameters(config, at::kDouble, 1);
  Gpt model(test::plan_of(config), table, {.compute = at::kDouble, .padding = padding});
  model.set_fake_quant(fake_quant);
  model.cast_weights();
  Run found;
  for (const std::uint64_t seed : {2, 3}) {
    const auto tokens = test::integers({2, 13}, config.vocab_size, seed);
    const auto inputs = tokens.slice(1, 0, -1), targets = tokens.slice(1, 1);
    const auto loss = model.loss(inputs, targets, {.auxiliary_losses = true, .scale = 0.5});
    loss.backward();
    found.loss = loss.detach();
    found.token_losses = model.token_losses(inputs, targets);
  }
  model.collect_gradients();
  for (const auto& row : table.rows()) {
    found.gradients.push_back(row.value.grad().defined() ? row.value.grad() : at::zeros({}));
  }
  return found;
}

TEST(PaddedModel, LossAndEveryGradientAreThoseWithoutPadding) {
  for (const auto& config : {test::tiny_record(), test::tiny_switches(), test::tiny_speedrun(),
                             wide_value_embedding()}) {
    for (const bool fake_quant : {false, true}) {
      const auto expected = run(config, {}, fake_quant);
      for (const Padding padding :
           {Padding{.vocab = 64, .channels = 1}, Padding{.vocab = 1, .channels = 8},
            Padding{.vocab = 7, .channels = 10}}) {
        const auto found = run(config, padding, fake_quant);
        const auto where = fmt::format("vocab {}, channels {}", padding.vocab, padding.channels);
        EXPECT_TRUE(test::is_close(found.loss, expected.loss, 1e-12, 0)) << where;
        EXPECT_TRUE(test::is_close(found.token_losses, expected.token_losses, 1e-11, 0)) << where;
        ASSERT_EQ(found.gradients.size(), expected.gradients.size());
        for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
          const auto& gradient = expected.gradients[i];
          const double largest = gradient.numel() > 0 ? gradient.abs().max().item<double>() : 0;
          EXPECT_TRUE(test::is_close(found.gradients[i], gradient, 1e-9, 1e-11 * largest))
              << where << ", parameter " << i;
        }
      }
    }
  }
}

TEST(PaddedModel, SamplesFromTheVocabularyAloneAndDecodesTheSame) {
  for (const auto& config : {test::tiny_record(), test::tiny_switches()}) {
    const auto table = test::random_parameters(config, at::kDouble, 1);
    const auto ids = test::integers({2, 9}, config.vocab_size, 2);
    const auto logits = [&](const Padding& padding) {
      const Gpt model(test::plan_of(config), table, {.compute = at::kDouble, .padding = padding});
      auto cache = model.make_cache(2, 9);
      model.next_logits(ids.narrow(1, 0, 6), cache);
      model.next_logits(ids.narrow(1, 6, 1), cache);
      return model.next_logits(ids.narrow(1, 7, 2), cache);
    };
    const auto expected = logits({}), found = logits({.vocab = 64, .channels = 8});
    EXPECT_EQ(found.size(1), config.vocab_size);
    EXPECT_TRUE(test::is_close(found, expected, 1e-5, 1e-5));  // fp32 logits
  }
}

TEST(PaddedModel, ScoresSomePositionsAsAll) {
  const auto config = test::tiny_record();
  const auto table = test::random_parameters(config, at::kDouble, 1);
  const Gpt model(test::plan_of(config), table,
                  {.compute = at::kDouble, .padding = {.vocab = 64, .channels = 8}});
  const auto tokens = test::integers({2, 13}, config.vocab_size, 2);
  const auto inputs = tokens.slice(1, 0, -1), targets = tokens.slice(1, 1);
  const auto all = model.token_losses(inputs, targets);
  const auto some = model.token_losses(inputs, targets.narrow(1, 5, 4), Positions{5, 9});
  EXPECT_TRUE(test::is_close(some, all.narrow(1, 5, 4), 1e-11, 0));
}

}  // namespace
}  // namespace tg
