#pragma once
// Text generation: continues a prompt and samples tokens.
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "data/segments.h"
#include "model/gpt.h"
#include "text/tokenizer.h"

namespace tg {

struct SamplingOptions {
  double temperature = 0.8;  // 0: always the argmax
  std::int64_t top_k = 0;    // only the k likeliest tokens; 0: all
  double top_p = 1.0;  // nucleus sampling: only the likeliest tokens with cumulative probability p
                       // (Holtzman et al. 2020)
  std::uint64_t seed = 1337;
};

// Draws tokens from softmax(logits / temperature), restricted to top-k, then to top-p.
// Deterministic across machines for equal seed and logits.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  // logits [V], any floating dtype and device. Returns the id drawn. Waits for the device.
  std::int64_t draw(const at::Tensor& logits_v);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t tokens = 200;    // to draw
  std::int64_t context = 1024;  // most tokens that the model reads, and row length of RoPE
  bool kv_cache = true;         // false: recomputes the whole row for every token
  // Limits attention to a token's segment, as in training; nullopt: attention spans the whole
  // context.
  std::optional<SegmentRule> segments = {};
  // End the text early, and are not part of it: a text (empty: none) and a token.
  std::string stop_text = {};
  std::optional<std::int64_t> stop_id = {};
};

// Adds to the cache what it lacks of the row `ids` and returns the logits of the next token [1, V]
// fp32. For segments before the last one, adds only their ids, since no later token attends to
// them. A model that does not decode from a cache computes the last segment as a row of its own.
at::Tensor next_logits(const Gpt& model, std::span<const TokenId> ids,
                       const std::optional<SegmentRule>& segments, DecodeCache& cache,
                       at::Device device);

// Continues `prompt` token by token, and passes each new piece of text to `on_text` as soon as it
// is complete UTF-8. When the context is full, continues with its later half. Returns the number of
// tokens drawn. Throws ExitCode::usage if the prompt is not UTF-8 or has characters that the
// tokenizer does not know.
std::int64_t generate(const Gpt& model, const Tokenizer& tokenizer, std::string_view prompt,
                      const GenerateOptions& options, at::Device device,
                      const std::function<void(std::string_view)>& on_text);

// The prompt's token ids, preceded by BOS if the tokenizer has one.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt);

}  // namespace tg
