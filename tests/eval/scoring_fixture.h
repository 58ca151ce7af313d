#pragma once
// A model in fp64, rows of random tokens, and what the model loses on them window by window.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "eval/scores/window_scorer.h"
#include "tests/eval/legality.h"
#include "tests/model/fixtures.h"
#include "tests/model/spec.h"

// Not in test itself: other headers of this folder define these names with other types or values.
namespace tg::test::scoring {

inline constexpr int kVocab = 40;
inline constexpr std::int64_t kLength = 16, kStride = 5, kPredictions = 160;
inline constexpr int kBos = 1;  // begins a document

inline Tokens random_tokens(std::uint64_t seed) {
  return test::random_tokens(kPredictions + 1, kVocab, seed);
}

// Returns a row [1, count] of tokens from `begin` on.
inline at::Tensor row(const Tokens& tokens, std::int64_t begin, std::int64_t count) {
  const std::vector<std::int64_t> ids(tokens.begin() + begin, tokens.begin() + begin + count);
  return at::tensor(ids, at::kLong).unsqueeze(0);
}

struct TestModel {
  explicit TestModel(const ModelConfig& config)
      : table(random_parameters(config, at::kDouble, 1)),
        gpt(plan_of(config), table, {.compute = at::kDouble, .bos_id = kBos}) {}
  ParameterTable table;
  Gpt gpt;
};

inline std::optional<Documents> bos_documents(const at::Tensor& inputs, bool documents) {
  if (!documents) return {};
  return documents_in(inputs.eq(kBos), at::kCPU);
}

// Returns every token's nll in the window that scores it.
inline std::vector<double> window_losses(const Gpt& gpt, const Tokens& tokens,
                                         std::span<const Window> windows, bool documents = false) {
  std::vector<double> losses(kPredictions);
  for (const auto& [begin, from, to] : windows) {
    const auto inputs = row(tokens, begin, to);
    const auto nll = values_of(
        gpt.token_losses(inputs, row(tokens, begin + 1, to), {}, bos_documents(inputs, documents)));
    std::copy(nll.begin() + from, nll.begin() + to, losses.begin() + begin + from);
  }
  return losses;
}

}  // namespace tg::test::scoring
