#pragma once
// Scores that models are compared by, of test files that the user has.
#include "comm/communicator.h"
#include "eval/task_files.h"
#include "model/gpt.h"
#include "text/tokenizer.h"

namespace tg {

struct TaskOptions {
  std::string path;          // of the examples, for messages
  std::int64_t context = 0;  // tokens that the model reads at most
};

// Shares of the examples whose right ending is the likeliest of the four, by its log-probability:
struct HellaSwagScore {
  double acc = 0;              // as it is: the sum over its tokens
  double acc_norm = 0;         // per character
  double acc_bytes = 0;        // per byte of UTF-8
  double acc_token = 0;        // per token
  std::int64_t truncated = 0;  // rows whose context was too long
};
struct LambadaScore {
  double acc = 0;         // every token of the word is the likeliest
  double perplexity = 0;  // exp of the mean over words of −log of the word's probability
  std::int64_t truncated = 0;
};

// Scores the examples, a part on each rank. A row is the context's tokens, behind BOS if the
// tokenizer is a SentencePiece model, and the ending's tokens. The first of equal endings is
// chosen; an ending without tokens, characters or bytes is never chosen by a score that divides by
// them. Collective: equal on every rank. Throws Error(bad_data) for a context without tokens or an
// ending longer than `context` tokens.
HellaSwagScore hellaswag_score(Gpt& model, const Tokenizer& tokenizer,
                               std::span<const HellaSwagExample> examples,
                               const TaskOptions& options, at::Device device,
                               Communicator& communicator);
LambadaScore lambada_score(Gpt& model, const Tokenizer& tokenizer,
                           std::span<const LambadaExample> examples, const TaskOptions& options,
                           at::Device device, Communicator& communicator);

}  // namespace tg
