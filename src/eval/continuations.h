#pragma once
// Log-probabilities of texts that continue others: what tasks are scored by.
#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "model/gpt.h"

namespace tg {

struct Continuation {
  std::vector<std::uint16_t> ids;  // of the context, one at least, then of the continuation
  std::int64_t scored = 0;         // the latter; at most `context` of ContinuationOptions
};

struct ContinuationScore {
  double log_probability = 0;  // of all scored tokens together, in nats
  bool greedy = false;         // each of them is the likeliest token
};

struct ContinuationOptions {
  std::string name;          // of the task, for the progress line
  std::int64_t context = 0;  // tokens that the model reads at most, and the rows whose RoPE it uses
  int pieces = 0;            // of the tokenizer: no other id is the likeliest
};

// Scores of this rank's continuations, in their order. A context that is too long loses its
// beginning. Rows of like length run together, filled up at their ends, which changes no score.
std::vector<ContinuationScore> score_continuations(const Gpt& model,
                                                   std::span<const Continuation> continuations,
                                                   const ContinuationOptions& options,
                                                   at::Device device, Communicator& communicator);

}  // namespace tg
