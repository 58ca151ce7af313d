#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "eval/split_tokens.h"

namespace tg {

// What a document of a split lost. A prediction is its document's whose tokens are read, up to that
// of the next document's BOS.
struct DocumentScore {
  std::int64_t document = 0;            // its number, from 0
  std::int64_t place = 0;               // of its first token in the split
  std::int64_t tokens = 0;              // predictions that were scored
  std::optional<std::int64_t> bytes{};  // of text in these; absent where none are counted
  double nll = 0;                       // their sum in nats
  bool operator==(const DocumentScore&) const = default;
};

// Returns the scores of the documents of which something was scored. `nll` [n] fp32 on the CPU: of
// the token after each place, NaN where it was not scored; `tokens`: of at least n
// predictions, on the CPU. A document begins with each `bos_id`, and with the split.
std::vector<DocumentScore> document_scores(const SplitTokens& tokens, std::int64_t bos_id,
                                           const at::Tensor& nll);

// A line of JSON: {"score", "document", "place", "tokens", "bytes", "nll", "bpb"}; "bytes" and
// "bpb" are absent where no bytes are counted, "bpb" where there are none.
std::string json_line(const std::string& score, const DocumentScore& document);

// The nll of all ranks, each of which has scored places of its own, on the CPU. Collective.
at::Tensor of_all_ranks(const at::Tensor& nll, Communicator& communicator);

}  // namespace tg
