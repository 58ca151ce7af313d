#pragma once
// Shared code of the tests that no score depends on later tokens, for CPU and GPU.
#include <gtest/gtest.h>

#include <vector>

#include "eval/scores/window_scorer.h"
#include "eval/ttt/test_time_training.h"
#include "tests/data/listed_tokens.h"
#include "tests/ops/tensors.h"

namespace tg::test {

inline Tokens random_tokens(std::int64_t count, std::int64_t vocab, std::uint64_t seed) {
  const auto ids = values_of(integers({count}, vocab, seed));
  return {ids.begin(), ids.end()};
}

// All `tokens` except the last predict the next token.
inline SplitTokens split_of(const Tokens& tokens, std::int64_t length, at::Device device,
                            std::optional<std::int64_t> bos_id = {}) {
  return {ListedTokens(tokens), std::ssize(tokens) - 1, length, nullptr, bos_id, device};
}

// The nll of every token in fp32, and the score.
struct TokenScores {
  std::vector<double> losses;
  Score score;
};

inline TokenScores window_scores(const Gpt& model, const Tokens& tokens,
                                 const WindowOptions& options, at::Device device, bool graphs,
                                 std::optional<std::int64_t> bos_id = {}) {
  Communicator alone;
  const auto split = split_of(tokens, options.length, device, bos_id);
  WindowScorer scorer(model, split, options.length, options.stride, device, {.graphs = graphs},
                      alone);
  const auto losses = at::zeros({split.predictions()}, at::TensorOptions(device));
  scorer.save_token_losses(losses);
  ScoreSums sums(device);
  scorer.score(sliding_windows(split.predictions(), options), sums);
  return {values_of(losses.cpu()), sums.score()};
}

// Updates the parameters.
inline TokenScores ttt_scores(Gpt& model, const ParameterTable& table, const Tokens& tokens,
                              const TttOptions& options, at::Device device,
                              Communicator& communicator, std::optional<std::int64_t> bos_id = {}) {
  const auto split = split_of(tokens, options.windows.length, device, bos_id);
  TestTimeTraining training(model, table, split, options, device, communicator);
  const auto losses = at::zeros({split.predictions()}, at::TensorOptions(device));
  training.save_token_losses(losses);
  const auto score = training.run();
  return {values_of(losses.cpu()), score};
}

// Changes all tokens from each of `places` on. The earlier losses of `losses_of`, where position t
// predicts token t + 1, must stay bitwise equal, and the loss of the first changed token must not.
template <class LossesOf>
void expect_no_score_sees_later_tokens(const Tokens& tokens, std::int64_t vocab,
                                       std::initializer_list<std::int64_t> places,
                                       LossesOf losses_of) {
  const std::vector<double> before = losses_of(tokens);
  for (const auto place : places) {
    auto others = tokens;
    for (auto token = others.begin() + place; token != others.end(); ++token)
      *token = static_cast<TokenId>((*token + 1) % vocab);
    const std::vector<double> after = losses_of(others);
    const auto [first_changed, unused] = std::mismatch(before.begin(), before.end(), after.begin());
    EXPECT_EQ(first_changed - before.begin(), place - 1) << "tokens changed from " << place;
  }
}

}  // namespace tg::test
