#pragma once
// What models without any learning score on a validation split, in bits per byte: the marks that a
// training run must leave behind.
//   byte_unigram   each byte on its own, frequencies of the training split plus one
//   token_unigram  each token on its own, likewise
//   token_bigram   p(y|x) = (count(x, y) + k p(y)) / (count(x) + k), p(y) the token unigram
// Every score is the sum of -log2 p over the predicted tokens (all but the first), divided by the
// bytes that the ByteTable gives them: the same denominator as val_bpb.
#include "data/shard.h"
#include "data/tokenizer.h"

namespace tg {

struct Baselines {
  double byte_unigram = 0, token_unigram = 0, token_bigram = 0;
};

// Errors: those of reading; bad_data (no bytes to predict).
Baselines text_baselines(const ShardSet& train, const ShardSet& val, const Tokenizer& tokenizer);

}  // namespace tg
