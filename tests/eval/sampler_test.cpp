#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eval/sampling/generate.h"

namespace tg {
namespace {

// Probabilities 0.5, 0.25, 0.125 and 0.125, in another order.
const at::Tensor kLogits = at::tensor({0.125, 0.5, 0.125, 0.25}, at::kDouble).log();

std::vector<double> frequencies(const SamplingOptions& options) {
  Sampler sampler(options);
  std::vector<double> counts(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) counts[static_cast<std::size_t>(sampler.draw(kLogits))] += 1;
  for (auto& count : counts) count /= kDraws;
  return counts;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  // Five standard deviations of 20,000 draws.
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.018) << i;
}

TEST(SamplerTest, DrawsWithTheModelsProbabilities) {
  expect_near(frequencies({.temperature = 1}), {0.125, 0.5, 0.125, 0.25});
}

TEST(SamplerTest, DividesLogitsByTheTemperature) {
  // Squared: 16, 4, 1, 1 of 22.
  expect_near(frequencies({.temperature = 0.5}), {1 / 22., 16 / 22., 1 / 22., 4 / 22.});
}

TEST(SamplerTest, TakesTheLikeliestAtTemperatureZero) {
  EXPECT_EQ(frequencies({.temperature = 0}), (std::vector<double>{0, 1, 0, 0}));
}

TEST(SamplerTest, KeepsTheTopK) {
  expect_near(frequencies({.temperature = 1, .top_k = 2}), {0, 2 / 3., 0, 1 / 3.});
  EXPECT_EQ(frequencies({.temperature = 1, .top_k = 1}), (std::vector<double>{0, 1, 0, 0}));
}

TEST(SamplerTest, KeepsTheFewestWhoseProbabilitiesReachTopP) {
  expect_near(frequencies({.temperature = 1, .top_p = 0.74}), {0, 2 / 3., 0, 1 / 3.});
  // The first of the two least likely tokens is needed to reach 0.8.
  expect_near(frequencies({.temperature = 1, .top_p = 0.8}), {1 / 7., 4 / 7., 0, 2 / 7.});
  EXPECT_EQ(frequencies({.temperature = 1, .top_p = 0.1}), (std::vector<double>{0, 1, 0, 0}));
}

TEST(SamplerTest, RepeatsWithItsSeed) {
  const auto draws = [](std::uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sampler.draw(kLogits));
    return ids;
  };
  EXPECT_EQ(draws(1), draws(1));
  EXPECT_NE(draws(1), draws(2));
}

}  // namespace
}  // namespace tg
