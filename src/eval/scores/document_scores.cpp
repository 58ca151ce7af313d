#include "eval/scores/document_scores.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "data/segments.h"
#include "eval/scores/score.h"

namespace tg {

std::vector<DocumentScore> document_scores(const SplitTokens& tokens, std::int64_t bos_id,
                                           const at::Tensor& nll) {
  const auto count = nll.numel();
  const auto ids = tokens.inputs(0, 1, count, 1).contiguous();
  const auto bytes = tokens.has_bytes()
                         ? tokens.target_bytes(0, 1, count, 1).to(at::kLong).contiguous()
                         : at::Tensor();
  const auto* const loss = nll.const_data_ptr<float>();
  std::vector<DocumentScore> scores;
  DocumentScore document;
  if (bytes.defined()) document.bytes = 0;
  const auto next = [&](std::int64_t place) {
    if (document.tokens > 0) scores.push_back(document);
    document = {.document = document.document + 1, .place = place, .bytes = document.bytes};
    if (document.bytes) document.bytes = 0;
  };
  const auto starts = segment_starts(ids_of(ids), count, {.bos_id = bos_id});
  auto start = starts.begin();
  for (std::int64_t place = 0; place < count; ++place) {
    if (start != starts.end() && *start == place && start++ != starts.begin()) next(place);
    if (std::isnan(loss[place])) continue;
    ++document.tokens;
    document.nll += static_cast<double>(loss[place]);
    if (document.bytes) *document.bytes += bytes.const_data_ptr<std::int64_t>()[place];
  }
  next(count);
  return scores;
}

std::string json_line(const std::string& score, const DocumentScore& document) {
  nlohmann::ordered_json line = {{"score", score},
                                 {"document", document.document},
                                 {"place", document.place},
                                 {"tokens", document.tokens}};
  if (document.bytes) line["bytes"] = *document.bytes;
  line["nll"] = document.nll;
  if (document.bytes && *document.bytes > 0)
    line["bpb"] = document.nll / std::numbers::ln2 / static_cast<double>(*document.bytes);
  return line.dump();
}

at::Tensor merge_ranks(const at::Tensor& nll, Communicator& communicator) {
  const auto sums = at::stack({nll.nan_to_num(0), nll.isnan().logical_not().to(nll.scalar_type())});
  const auto host = sum_on_host(sums, communicator);
  return host[0] / host[1];  // NaN where no rank has scored it
}

}  // namespace tg
