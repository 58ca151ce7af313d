#pragma once
#include <string>

#include "config/setting.h"

namespace tg {

// Its own flags.
struct SampleOptions {
  std::string prompt, stop;
  std::int64_t tokens = 200, samples = 1;
  bool stop_at_document_end = false;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  bool kv_cache = true;

  template <class Self, class Line>
  static void visit(Self& s, const Line& line) {
    line("prompt", s.prompt, anything, role::option, "text to continue; needed, and may be empty");
    line("tokens", s.tokens, within(1, 1 << 30), role::option, "tokens to draw");
    line("samples", s.samples, within(1, 1 << 30), role::option,
         "continuations of the prompt, one after the other with a line --- between them: the first "
         "is drawn by SEED, the next by SEED+1 and so on");
    line("stop", s.stop, anything, role::option,
         "text before which a continuation ends; empty: none");
    line("stop_at_document_end", s.stop_at_document_end, anything, role::option,
         "a continuation ends where the model begins another document, with BOS");
    line("temperature", s.temperature, at_least(0), role::option,
         "temperature of the softmax; 0: always the most likely token");
    line("top_k", s.top_k, at_least(0), role::option,
         "draw only from the k most likely tokens; 0: from all");
    line("top_p", s.top_p, within(0, 1), role::option,
         "draw only from the most likely tokens, whose probabilities add up to p");
    line("kv_cache", s.kv_cache, anything, role::option,
         "cache keys and values (KV cache); 0: recompute all tokens for each new one");
  }
};

// `train_gpt sample --init-from MODEL --prompt TEXT [--SETTING VALUE]...`: prints the prompt and
// the text that the model continues it with, as it is drawn, and on standard error the tokens per
// second. Errors: those of parse_model_command and join_alone; usage (no prompt, one that the
// tokenizer cannot encode, no tokenizer or, for the end of a document, none with BOS); config (its
// size); those of the model's file; io.
void sample_command(int argc, const char* const* argv);

}  // namespace tg
