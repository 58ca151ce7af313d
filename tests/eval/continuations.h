#pragma once
// Continuations, and a model's scores for each by itself; shared by the CPU and GPU tests.
#include <algorithm>
#include <random>
#include <vector>

#include "eval/tasks/continuations.h"
#include "tests/ops/tensors.h"

namespace tg::test {

// Continuations of 1 to `longest` tokens, of which the last 0 or more are scored, but never the
// first.
inline std::vector<Continuation> random_continuations(int count, std::int64_t longest, int vocab,
                                                      unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Continuation> rows(static_cast<std::size_t>(count));
  for (auto& row : rows) {
    row.ids.resize(1 + random() % static_cast<unsigned>(longest));
    for (auto& id : row.ids) id = static_cast<TokenId>(random() % static_cast<unsigned>(vocab));
    row.scored = static_cast<std::int64_t>(random() % row.ids.size());
  }
  return rows;
}

// Returns the nll [T] of each token after the first, from validation's forward pass; the row is
// padded with zeros to `length` tokens.
inline at::Tensor losses_alone(const Gpt& model, const std::vector<TokenId>& ids,
                               std::int64_t length, at::Device device) {
  const auto count = std::ssize(ids) - 1;
  std::vector<std::int64_t> inputs(ids.begin(), ids.end() - 1), targets(ids.begin() + 1, ids.end());
  inputs.resize(static_cast<std::size_t>(length)), targets.resize(inputs.size());
  const auto row = [&](const std::vector<std::int64_t>& values) {
    return at::tensor(values, at::kLong).unsqueeze(0).to(device);
  };
  return model.token_losses(row(inputs), row(targets))[0].narrow(0, 0, count).to(at::kDouble).cpu();
}

inline std::vector<ContinuationScore> scores_of(const Gpt& model,
                                                const std::vector<Continuation>& rows,
                                                std::int64_t context, int pieces,
                                                at::Device device = at::kCPU) {
  Communicator alone;
  return score_continuations(model, rows, {"test", context, pieces}, device, alone);
}

}  // namespace tg::test
