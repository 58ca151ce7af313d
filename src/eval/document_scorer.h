#pragma once
#include "config/phased_ttt_config.h"
#include "eval/document_batches.h"
#include "eval/score.h"
#include "eval/split_tokens.h"
#include "model/gpt.h"
#include "model/lora.h"
#include "optim/adapter_optimizer.h"

namespace tg {

// The adapters of a batch's documents, one of each row, and their optimizer.
class AdapterSet {
 public:
  // A is drawn by `generator`, on the CPU.
  AdapterSet(const Gpt& model, const PhasedTttConfig& config, std::int64_t rows,
             at::Generator& generator);

  const LoraAdapters& adapters() const { return adapters_; }
  // For a batch's documents: B is zero, the optimizer as new, and A as the batch before left it or,
  // with TTT_WARM_START_A=0, drawn anew.
  void restart(at::Generator& generator);
  // Another A, for batches to come: restart() makes the rest as new.
  void redraw(at::Generator& generator) { adapters_.draw_a(generator); }
  // Until restart() all but the last `rows` rows have no gradient: their documents have ended.
  void learn_in_last(std::int64_t rows);
  // One update, by the gradient of the adapters' parameters, also of rows that have none.
  void step() { optimizer_.step(); }

 private:
  const bool warm_start_;
  LoraAdapters adapters_;
  AdapterOptimizer optimizer_;
  std::int64_t learning_rows_ = adapters_.rows();
};

// Scores the documents of a batch chunk by chunk, each document with adapters of its own, which
// learn from a chunk once it is scored. The model's parameters do not change.
class DocumentScorer {
 public:
  // All references must outlive this.
  DocumentScorer(const Gpt& model, const SplitTokens& tokens, const PhasedTttConfig& config,
                 at::Device device);

  ChunkOptions chunks() const { return chunks_; }
  // From now on every scored token's nll is also written to its place in `nll` [predictions] fp32.
  void save_token_losses(at::Tensor nll) { saved_ = std::move(nll); }
  // Adds the scores of the documents' chunk `chunk` to `sums`, and teaches it to the set, of as
  // many rows as there are documents. Of a batch, chunks from 0 on. Nothing waits for the device.
  void score_chunk(const DocumentBatch& batch, std::int64_t chunk, AdapterSet& set,
                   ScoreSums& sums);
  // Adds the bytes of all that is scored of the documents.
  void add_bytes(const DocumentBatch& batch, ScoreSums& sums) const;

 private:
  struct Rows;
  std::int64_t rows_with(const DocumentBatch& batch, std::int64_t chunk) const;
  Rows rows_of(const DocumentBatch& batch, std::int64_t chunk) const;
  at::Tensor token_losses(const Rows& rows, const AdapterSet& set) const;  // [B, C]
  // Sum over the documents that learn of their mean loss.
  at::Tensor learning_loss(const at::Tensor& losses_bc, const Rows& rows) const;
  void learn(at::Tensor losses_bc, const Rows& rows, AdapterSet& set) const;
  void save(const at::Tensor& losses_bc, const Rows& rows);

  const Gpt& model_;
  const SplitTokens& tokens_;
  const PhasedTttConfig& config_;
  const ChunkOptions chunks_;
  const at::Device device_;
  at::Tensor saved_;
};

}  // namespace tg
