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
struct DocumentScorer::Rows {
  std::int64_t count = 0;
  at::Tensor inputs;   // [B, T] int64, zeros after a document's tokens
  at::Tensor targets;  // [B, C] int64, at the last positions; zeros after the document
  at::Tensor places;   // [B, C] int64: index in the split of the inputs at these positions
  at::Tensor scored;   // [B, C] bool
  at::Tensor learns;   // [B] bool: whether the document has a later chunk
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
  Rows rows;
  rows.count = rows_with(batch, chunk);
  const auto host =
      at::zeros({5, rows.count, 1}, at::TensorOptions(at::kLong).pinned_memory(device_.is_cuda()));
  auto numbers = host.accessor<std::int64_t, 3>();
  for (std::int64_t row = 0; row < rows.count; ++row) {
    const auto& document = *(batch.documents.end() - rows.count + row);
    const auto window = chunk_window(document.predictions(), chunk, chunks_);
    const bool learns = chunk + 1 < chunks_of_document(document.predictions(), chunks_);
    numbers[0][row][0] = document.start + window.start;
    numbers[1][row][0] = window.length;
    numbers[2][row][0] = window.offset;
    numbers[3][row][0] = window.offset + window.scored;
    numbers[4][row][0] = learns;
    rows.scored_tokens += window.scored;
    rows.any_learns |= learns && config_.ttt_lora_lr > 0;
  }
  const auto of_row = host.to(device_, /*non_blocking=*/true).unbind();
  const auto positions =
      at::arange(row_length(chunk, chunks_), at::TensorOptions(device_).dtype(at::kLong));
  const auto last = [&](const at::Tensor& x) { return x.slice(-1, -chunks_.chunk_size); };
  const auto padding = positions >= of_row[1];
  const auto places = (of_row[0] + positions).masked_fill_(padding, 0);
  rows.inputs = tokens_.gather(places).masked_fill_(padding, 0);
  rows.places = last(places);
  rows.targets = tokens_.gather(rows.places + 1).masked_fill_(last(padding), 0);
  rows.scored = (last(positions) >= of_row[2]).logical_and_(last(positions) < of_row[3]);
  rows.learns = of_row[4].squeeze(1).to(at::kBool);
  return rows;
}

void DocumentScorer::score_chunk(const DocumentBatch& batch, std::int64_t chunk, AdapterSet& set,
                                 ScoreSums& sums) {
  assert(set.adapters().rows() == std::ssize(batch.documents));
  const auto rows = rows_of(batch, chunk);
  set.learn_in_last(rows.count);
  const at::AutoGradMode with_gradients(rows.any_learns);
  auto losses = token_losses(rows, set);
  const auto scored = losses.detach().masked_fill(rows.scored.logical_not(), 0);
  sums.add_sum(scored.sum(at::kDouble), rows.scored_tokens);
  if (saved_.defined()) save(losses.detach(), rows);
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

at::Tensor DocumentScorer::learning_loss(const at::Tensor& losses_bc, const Rows& rows) const {
  return losses_bc.mean(1).masked_fill(rows.learns.logical_not(), 0).sum();
}

void DocumentScorer::learn(at::Tensor losses_bc, const Rows& rows, AdapterSet& set) const {
  for (std::int64_t step = 0; step < config_.ttt_grad_steps; ++step) {
    if (step > 0) losses_bc = token_losses(rows, set);
    learning_loss(losses_bc, rows).backward();
    losses_bc.reset();
    set.step();
  }
}

void DocumentScorer::save(const at::Tensor& losses_bc, const Rows& rows) {
  saved_.index_put_({rows.places.masked_select(rows.scored)},
                    losses_bc.masked_select(rows.scored).to(saved_.scalar_type()));
}

}  // namespace tg
