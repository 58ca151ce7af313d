#include "eval/scores/document_scorer.h"

#include <algorithm>
#include <cassert>

namespace tg {

AdapterSet::AdapterSet(const Gpt& model, const PhasedTttConfig& config, std::int64_t rows,
                       at::Generator& generator)
    : warm_start_(config.ttt_warm_start_a),
      adapters_(model,
                {.rank = config.ttt_lora_rank,
                 .alpha = config.ttt_lora_alpha,
                 .keys = config.ttt_k_lora,
                 .mlp = config.ttt_mlp_lora,
                 .out = config.ttt_o_lora},
                rows, generator),
      optimizer_(adapters_.parameters(), {.rule = config.ttt_optimizer,
                                          .lr = config.ttt_lora_lr,
                                          .beta1 = config.ttt_beta1,
                                          .beta2 = config.ttt_beta2,
                                          .weight_decay = config.ttt_weight_decay}) {}

void AdapterSet::restart(at::Generator& generator) {
  if (!warm_start_) redraw(generator);
  adapters_.zero_b();
  optimizer_.reset();
  learning_rows_ = adapters_.rows();
}

void AdapterSet::learn_in_last(std::int64_t rows) {
  // Clears the last gradients of rows that have ended; backward overwrites the other rows.
  if (rows < learning_rows_) adapters_.parameters().grad().zero_();
  learning_rows_ = rows;
}

// Input of a batch's pass for one chunk: one document per row, the longest B of them; rows without
// this chunk are all padding. The scored positions are among the last C = chunk_size of a row, and
// are all of them if the document has a later chunk.
struct DocumentScorer::Rows : PaddedRows {
  at::Tensor learns;  // [B] bool: whether the document has a later chunk
  std::int64_t scored_tokens = 0;
  bool any_learns = false;
};

DocumentScorer::DocumentScorer(const Gpt& model, const SplitTokens& tokens,
                               const PhasedTttConfig& config, at::Device device)
    : model_(model),
      tokens_(tokens),
      config_(config),
      chunks_{.chunk_size = config.ttt_chunk_size, .longest_row = config.ttt_eval_seq_len},
      device_(device) {}

// Number of documents that have the chunk (the last ones, since documents are sorted by length),
// rounded up to an eighth of the batch: attention and GEMMs choose a kernel for each new size.
std::int64_t DocumentScorer::rows_with(const DocumentBatch& batch, std::int64_t chunk) const {
  const auto ended =
      std::ranges::partition_point(batch.documents, [&](const DocumentSpan& document) {
        return chunks_of_document(document.predictions(), chunks_) <= chunk;
      });
  const auto all = std::ssize(batch.documents), unit = std::max<std::int64_t>(all / 8, 1);
  const auto some = batch.documents.end() - ended;
  return std::min(all, (some + unit - 1) / unit * unit);
}

DocumentScorer::Rows DocumentScorer::rows_of(const DocumentBatch& batch, std::int64_t chunk) const {
  const auto count = rows_with(batch, chunk);
  const auto learns =
      at::empty({count}, at::TensorOptions(at::kBool).pinned_memory(device_.is_cuda()));
  std::vector<ChunkWindow> windows;
  std::int64_t scored_tokens = 0;
  bool any_learns = false;
  for (std::int64_t row = 0; row < count; ++row) {
    const auto& document = *(batch.documents.end() - count + row);
    windows.push_back(chunk_window(document.predictions(), chunk, chunks_));
    windows.back().start += document.start;
    scored_tokens += windows.back().scored;
    const bool later = chunk + 1 < chunks_of_document(document.predictions(), chunks_);
    learns.mutable_data_ptr<bool>()[row] = later;
    any_learns |= later && config_.ttt_lora_lr > 0;
  }
  return {tokens_.padded(windows, row_length(chunk, chunks_), chunks_.chunk_size),
          learns.to(device_, /*non_blocking=*/true), scored_tokens, any_learns};
}

void DocumentScorer::score_chunk(const DocumentBatch& batch, std::int64_t chunk, AdapterSet& set,
                                 ScoreSums& sums) {
  assert(set.adapters().rows() == std::ssize(batch.documents));
  const auto rows = rows_of(batch, chunk);
  set.learn_in_last(rows.inputs.size(0));
  const at::AutoGradMode with_gradients(rows.any_learns);
  auto losses = token_losses(rows, set);
  sums.add(losses.detach(), rows.scored, rows.scored_tokens);
  if (saved_.defined())
    saved_.index_put_({rows.places.masked_select(rows.scored)},
                      losses.detach().masked_select(rows.scored).to(saved_.scalar_type()));
  if (rows.any_learns) learn(std::move(losses), rows, set);
}

void DocumentScorer::add_bytes(const DocumentBatch& batch, ScoreSums& sums) const {
  if (!tokens_.has_bytes()) return;
  for (const auto& document : batch.documents)
    sums.add_bytes(
        tokens_.target_bytes(document.start, 1, document.predictions(), 1).sum(at::kLong));
}

at::Tensor DocumentScorer::token_losses(const Rows& rows, const AdapterSet& set) const {
  const auto length = rows.inputs.size(1);
  return model_.adapted_losses(rows.inputs, rows.targets, set.adapters(),
                               Positions{length - chunks_.chunk_size, length}, chunks_.longest_row);
}

// Minimizes the sum, over documents with a later chunk, of their mean loss.
void DocumentScorer::learn(at::Tensor losses_bc, const Rows& rows, AdapterSet& set) const {
  for (std::int64_t step = 0; step < config_.ttt_grad_steps; ++step) {
    if (step > 0) losses_bc = token_losses(rows, set);
    losses_bc.mean(1).masked_fill(rows.learns.logical_not(), 0).sum().backward();
    losses_bc.reset();
    set.step();
  }
}

}  // namespace tg
