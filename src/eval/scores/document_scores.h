#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "eval/scores/split_tokens.h"

namespace tg {

// Score of one document of a split. A prediction belongs to the document whose tokens it reads,
// including the prediction of the next document's BOS.
struct DocumentScore {
  std::int64_t document = 0;  // index, from 0
  std::int64_t place = 0;     // index of its first token in the split
  std::int64_t tokens = 0;    // number of scored predictions
  std::optional<std::int64_t>
      bytes{};     // text bytes of the scored predictions; absent without byte counts
  double nll = 0;  // sum over the scored predictions, in nats
  bool operator==(const DocumentScore&) const = default;
};

// Scores of the documents of which something was scored. `nll` [n] fp32 on the CPU: loss of the
// token after each position, NaN where it was not scored; `tokens`: at least n predictions, on the
// CPU. A document begins at each `bos_id`, and at the beginning of the split.
std::vector<DocumentScore> document_scores(const SplitTokens& tokens, std::int64_t bos_id,
                                           const at::Tensor& nll);

// A line of JSON: {"score", "document", "place", "tokens", "bytes", "nll", "bpb"}. "bytes" and
// "bpb" are absent without byte counts, "bpb" also if there are 0 bytes.
std::string json_line(const std::string& score, const DocumentScore& document);

// Merges the nll of all ranks, each of which has scored other positions; on the CPU. Collective.
at::Tensor merge_ranks(const at::Tensor& nll, Communicator& communicator);

}  // namespace tg
