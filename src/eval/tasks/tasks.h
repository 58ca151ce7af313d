#pragma once
// Task scores for comparing models, from test files of the user.
#include "comm/communicator.h"
#include "eval/tasks/task_files.h"
#include "model/gpt.h"
#include "text/tokenizer.h"

namespace tg {

struct TaskOptions {
  std::string path;          // path of the examples, for messages
  std::int64_t context = 0;  // most tokens that the model reads
};

// Fractions of the examples whose right ending is the likeliest of the four, by log-probability:
struct HellaSwagScore {
  double acc = 0;              // sum over its tokens
  double acc_norm = 0;         // per character
  double acc_bytes = 0;        // per byte of UTF-8
  double acc_token = 0;        // per token
  std::int64_t truncated = 0;  // rows whose context was too long
};
struct LambadaScore {
  double acc = 0;         // every token of the word is the argmax
  double perplexity = 0;  // exp of the mean over words of −log p(word)
  std::int64_t truncated = 0;
};

// Each rank scores a part of the examples. A row is the context's tokens, after BOS if the
// tokenizer is a SentencePiece model, followed by the ending's. Ties go to the first ending; an
// ending without tokens, characters or bytes is never chosen by a score that divides by them.
// Collective: all ranks return the same score. Throws ExitCode::bad_data for a context without
// tokens, or an ending longer than `context` tokens.
HellaSwagScore hellaswag_score(Gpt& model, const Tokenizer& tokenizer,
                               std::span<const HellaSwagExample> examples,
                               const TaskOptions& options, at::Device device,
                               Communicator& communicator);
LambadaScore lambada_score(Gpt& model, const Tokenizer& tokenizer,
                           std::span<const LambadaExample> examples, const TaskOptions& options,
                           at::Device device, Communicator& communicator);

}  // namespace tg
