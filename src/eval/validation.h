#pragma once
// Mean loss and bits per byte over the validation split.
#include <ATen/ATen.h>

#include <memory>
#include <optional>

#include "config/settings.h"
#include "data/byte_count.h"
#include "data/validation.h"
#include "model/gpt.h"

namespace tg {

struct Score {
  double loss;                // mean negative log-likelihood of a token, in nats
  std::optional<double> bpb;  // Σnll / ln 2 / Σbytes; absent without a tokenizer
};

// The split's size and where each batch comes from follow LOADER_ORDER: `stream` cuts the whole
// split into sequences; `strided` reads VAL_BATCH_SIZE tokens at a time from the first shard on,
// VAL_TOKENS in all.
class Validation {
 public:
  // Errors: those of the shards. Without `bytes` there is no bpb.
  Validation(const Settings& settings, std::optional<ByteTable> bytes, at::Device device);

  const std::string& pattern() const;
  std::int64_t tokens() const;  // predictions scored
  // Sequences of `seq_len`. Waits for the device once, at the end.
  Score score(const Gpt& model, std::int64_t seq_len) const;

 private:
  Score score_stream(const Gpt& model, std::int64_t seq_len) const;
  Score score_strided(const Gpt& model, std::int64_t seq_len) const;

  const Settings& settings_;
  std::optional<ByteTable> bytes_;
  at::Device device_;
  std::unique_ptr<ValidationTokens> tokens_;  // stream
  std::unique_ptr<ShardSet> shards_;          // strided
};

}  // namespace tg
