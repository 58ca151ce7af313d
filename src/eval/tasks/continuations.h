#pragma once
// Log-probabilities of continuations of texts, for task scores.
#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/gpt.h"
#include "text/token_id.h"

namespace tg {

struct Continuation {
  std::vector<TokenId> ids;  // context, at least one token, followed by the continuation
  std::int64_t scored = 0;   // the continuation's tokens; ≤ ContinuationOptions::context
};

struct ContinuationScore {
  double log_probability = 0;  // sum over the scored tokens, in nats
  bool greedy = false;         // whether each of them is the argmax
};

struct ContinuationOptions {
  std::string name;          // name of the task, for the progress line
  std::int64_t context = 0;  // most tokens that the model reads, and row length of RoPE
  int pieces = 0;            // of the tokenizer: the argmax is over these ids only
};

// Scores this rank's continuations, in their order. Truncates long contexts at the left. Rows of
// similar length run together, padded at their ends, which changes no score.
std::vector<ContinuationScore> score_continuations(const Gpt& model,
                                                   std::span<const Continuation> continuations,
                                                   const ContinuationOptions& options,
                                                   at::Device device, Communicator& communicator);

}  // namespace tg
