#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "eval/sampler.h"
#include "model/gpt.h"
#include "text/tokenizer.h"

namespace tg {

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t tokens = 200;  // to draw
  std::int64_t context =
      1024;              // tokens that the model sees at most, and the row whose RoPE it uses
  bool kv_cache = true;  // false: every token runs the whole row again
};

// Continues `prompt`, token by token, and passes each new piece of text to `on_text` as soon as it
// is whole UTF-8. A full context goes on with its later half. Errors: usage (a prompt that is no
// UTF-8 or has characters that the tokenizer does not know).
void generate(const Gpt& model, const Tokenizer& tokenizer, std::string_view prompt,
              const GenerateOptions& options, at::Device device,
              const std::function<void(std::string_view)>& on_text);

// The prompt's token ids, after BOS where the tokenizer has one.
std::vector<std::uint16_t> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt);

}  // namespace tg
