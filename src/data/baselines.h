#pragma once
// Scores of count-based models on the validation split, in bits per byte, which a training run
// should beat.
//   byte_unigram   bytes, add-one estimate from the training split
//   token_unigram  tokens, add-one estimate from the training split
//   token_bigram   p(y|x) = (count(x, y) + k p(y)) / (count(x) + k), p(y) the token unigram
// A score is the sum of -log2 p over the predicted tokens (all but the first), divided by the bytes
// that the ByteTable counts for them, which is val_bpb's denominator.
#include "data/shard.h"
#include "text/tokenizer.h"

namespace tg {

struct Baselines {
  std::optional<double> byte_unigram;  // absent with CaseOps: ids do not determine capitals
  double token_unigram = 0, token_bigram = 0;
};

// Computes the scores; the shards' ids must be the tokenizer's pieces. Throws what reading throws,
// and Error(bad_data) if there are no bytes to predict or unknown pieces that may hide spaces.
Baselines text_baselines(const ShardSet& train, const ShardSet& val, const Tokenizer& tokenizer);
// Logs one line per score: "baseline byte_unigram val_bpb:3.1234".
void log_baselines(const Baselines& scores);

}  // namespace tg
