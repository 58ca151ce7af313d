#pragma once
// How a model continues a prompt, and how each token is drawn.
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
  double temperature = 0.8;  // 0: always the likeliest token
  std::int64_t top_k = 0;    // only the k likeliest; 0: all
  double top_p = 1.0;  // only the likeliest whose probabilities add up to p (Holtzman et al. 2020)
  std::uint64_t seed = 1337;
};

// Draws tokens from softmax(logits / temperature), cut to top-k, then to top-p. The same seed and
// logits give the same tokens on every machine.
class Sampler {
 public:
  explicit Sampler(const SamplingOptions& options) : options_(options), random_(options.seed) {}

  // logits [V], any floating dtype and device → the id drawn. Waits for the device.
  std::int64_t draw(const at::Tensor& logits_v);

 private:
  SamplingOptions options_;
  std::mt19937_64 random_;
};

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t tokens = 200;  // to draw
  std::int64_t context =
      1024;              // tokens that the model sees at most, and the row whose RoPE it uses
  bool kv_cache = true;  // false: every token runs the whole row again
  // Which earlier tokens a token does not see, as in training; none: it sees all of the context.
  std::optional<SegmentRule> segments = {};
  // What ends the text before it has all its tokens, and is no part of it: a text, empty for none,
  // and a token.
  std::string stop_text = {};
  std::optional<std::int64_t> stop_id = {};
};

// Adds to the cache what it lacks of a row of `ids` → the logits of the token after them [1, V]
// fp32. Of segments before the last one it only gets their ids: no later token sees them.
at::Tensor next_logits(const Gpt& model, std::span<const std::uint16_t> ids,
                       const std::optional<SegmentRule>& segments, DecodeCache& cache,
                       at::Device device);

// Continues `prompt`, token by token, and passes each new piece of text to `on_text` as soon as it
// is whole UTF-8. A full context goes on with its later half. → the number of tokens drawn. Errors:
// usage (a prompt that is no UTF-8 or has characters that the tokenizer does not know).
std::int64_t generate(const Gpt& model, const Tokenizer& tokenizer, std::string_view prompt,
                      const GenerateOptions& options, at::Device device,
                      const std::function<void(std::string_view)>& on_text);

// The prompt's token ids, after BOS where the tokenizer has one.
std::vector<std::uint16_t> encode_prompt(const Tokenizer& tokenizer, std::string_view prompt);

}  // namespace tg
