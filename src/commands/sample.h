#pragma once
#include <string>

#include "config/limits.h"

namespace tg {

// Its own flags.
struct SampleOptions {
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;
  std::int64_t top_k = 0;
  double top_p = 1;
  bool kv_cache = true;

  template <class V>
  void visit(V&& v) {
    v("prompt", prompt, anything, "text to continue; needed, and may be empty");
    v("tokens", tokens, within(1, 1 << 30), "tokens to draw");
    v("temperature", temperature, at_least(0), "of the softmax; 0: always the likeliest token");
    v("top_k", top_k, at_least(0), "draw from the k likeliest tokens only; 0: from all");
    v("top_p", top_p, within(0, 1), "draw from the likeliest tokens that add up to p only");
    v("kv_cache", kv_cache, anything,
      "keep keys and values; 0: compute all tokens for each new one");
  }
};

// `train_gpt sample --init-from MODEL --prompt TEXT [--SETTING VALUE]...`: prints the prompt and
// the text that the model continues it with, as it is drawn, and on standard error the tokens per
// second. Errors: those of parse_model_command and join_alone; usage (no prompt, one that the
// tokenizer cannot encode, no tokenizer); config (its size); those of the model's file; io.
void sample_command(int argc, const char* const* argv);

}  // namespace tg
