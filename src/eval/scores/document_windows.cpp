#include "eval/scores/document_windows.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "eval/scores/eta.h"

namespace tg {

std::vector<DocumentRow> rows_of_document(const DocumentSpan& document,
                                          const ChunkOptions& options) {
  std::vector<DocumentRow> rows;
  const auto chunks = chunks_of_document(document.predictions(), options);
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto window = chunk_window(document.predictions(), chunk, options);
    if (chunk > 0 && window.start == 0)
      rows.back().length = window.length;
    else
      rows.push_back({document.start + window.start, window.length, window.offset});
  }
  return rows;
}

namespace {

using Rows = std::span<const DocumentRow>;

// Limit of a pass: 1 GiB in fp32.
constexpr std::int64_t kMostLogits = 1 << 28;

// Groups rows into passes: rows of similar length that score from similar positions on, at most
// `batch_size`, and, since all logits are materialized at once, at most `most` scored positions.
// Longest first: if they fit in memory, all do.
std::vector<Rows> batches_of(std::vector<DocumentRow>& rows, std::int64_t batch_size,
                             std::int64_t most) {
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const DocumentRow& row) {
    return std::pair(row.from == 0, row.length);
  });
  std::vector<Rows> batches;
  for (Rows left(rows); !left.empty();) {
    const auto& first = left.front();
    auto scored_from = first.from;
    std::size_t count = 0;
    const auto fits = [&](const DocumentRow& row) {
      if ((row.from == 0) != (first.from == 0)) return false;
      const auto positions = first.length - std::min(scored_from, row.from);
      return static_cast<std::int64_t>(count + 1) * positions <= most;
    };
    do scored_from = std::min(scored_from, left[count++].from);
    while (count < left.size() && static_cast<std::int64_t>(count) < batch_size &&
           fits(left[count]));
    batches.push_back(left.first(count));
    left = left.subspan(count);
  }
  return batches;
}

// Scores one batch. `context`: see Gpt::token_losses(). `nll`: see score_documents().
void score_rows(const Gpt& model, const SplitTokens& tokens, Rows rows, std::int64_t context,
                const at::Tensor& nll, ScoreSums& sums) {
  const auto length = rows.front().length;  // the longest
  const auto first = std::ranges::min(rows, {}, &DocumentRow::from).from;
  std::vector<ChunkWindow> windows;
  std::int64_t scored = 0;
  for (const auto& [start, own_length, from] : rows) {
    windows.push_back({start, own_length, from, own_length - from});
    scored += own_length - from;
  }
  const auto padded = tokens.padded(windows, length, length - first);
  std::optional<Positions> only;
  if (first > 0) only = {first, length};
  const auto losses =
      model.token_losses(padded.inputs, padded.targets, only, /*documents=*/{}, context);
  if (nll.defined())
    nll.index_put_({padded.places.masked_select(padded.scored)},
                   losses.masked_select(padded.scored));
  sums.add(losses, padded.scored, scored);
}

}  // namespace

Score score_documents(Gpt& model, const SplitTokens& tokens, const PhasedTttConfig& config,
                      std::int64_t bos_id, at::Device device, Communicator& communicator,
                      const at::Tensor& nll) {
  const at::NoGradGuard no_grad;
  model.set_fake_quant(false);
  model.cast_weights();
  const auto host = tokens.inputs(0, 1, tokens.predictions() + 1, 1).view(-1).cpu();
  const auto documents = find_documents_to_score(ids_of(host), bos_id, config.val_doc_fraction);
  const ChunkOptions options{.chunk_size = config.ttt_chunk_size,
                             .longest_row = config.ttt_eval_seq_len};
  std::vector<DocumentRow> rows;
  for (const auto& document : documents)
    for (const auto& row : rows_of_document(document, options)) rows.push_back(row);
  const auto batches = batches_of(rows, config.ttt_batch_size, kMostLogits / model.vocab_size());

  ScoreSums sums(device);
  const auto rank = static_cast<std::size_t>(communicator.rank()),
             world = static_cast<std::size_t>(communicator.world_size());
  const EtaLine eta("documents");
  for (std::size_t i = rank; i < batches.size(); i += world) {
    score_rows(model, tokens, batches[i], options.longest_row, nll, sums);
    communicator.progress();
    eta(static_cast<std::int64_t>(i) + 1, std::ssize(batches));
  }
  for (std::size_t i = rank; i < documents.size() && tokens.has_bytes(); i += world)
    sums.add_bytes(
        tokens.target_bytes(documents[i].start, 1, documents[i].predictions(), 1).sum(at::kLong));
  return sums.score_of_all_ranks(communicator);
}

}  // namespace tg
