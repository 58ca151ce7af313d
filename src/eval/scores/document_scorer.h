#pragma once
#include "config/ttt_config.h"
#include "eval/scores/score.h"
#include "eval/scores/split_tokens.h"
#include "model/gpt.h"
#include "model/lora.h"
#include "optim/adapter_optimizer.h"

namespace tg {

// LoRA adapters of a batch's documents, one set per row, and their optimizer.
class AdapterSet {
 public:
  // Draws A from `generator`, on the CPU.
  AdapterSet(const Gpt& model, const PhasedTttConfig& config, std::int64_t rows,
             at::Generator& generator);

  const LoraAdapters& adapters() const { return adapters_; }
  // Resets the set for a batch's documents: B is zero, the optimizer state is reset, and A is kept
  // from the previous batch or, with TTT_WARM_START_A=0, redrawn.
  void restart(at::Generator& generator);
  // Redraws A for later batches; restart() resets the rest.
  void redraw(at::Generator& generator) { adapters_.draw_a(generator); }
  // Until restart(), only the last `rows` rows get gradients: the other rows' documents have ended.
  void learn_in_last(std::int64_t rows);
  // Updates all rows by the gradient of the adapters' parameters, which is zero for ended rows.
  void step() { optimizer_.step(); }

 private:
  const bool warm_start_;
  LoraAdapters adapters_;
  AdapterOptimizer optimizer_;
  std::int64_t learning_rows_ = adapters_.rows();
};

// Scores the documents of a batch chunk by chunk; each document has its own adapters, which train
// on a chunk after it is scored. Does not change the model's parameters.
class DocumentScorer {
 public:
  // All references must outlive this object.
  DocumentScorer(const Gpt& model, const SplitTokens& tokens, const PhasedTttConfig& config,
                 at::Device device);

  ChunkOptions chunks() const { return chunks_; }
  // Also writes each later scored token's nll to its index in `nll` [predictions] fp32.
  void save_token_losses(at::Tensor nll) { saved_ = std::move(nll); }
  // Adds the scores of the documents' chunk `chunk` to `sums`, then trains the set, which must have
  // one row per document, on it. Call it for a batch's chunks in order, from 0. Does not wait for
  // the device.
  void score_chunk(const DocumentBatch& batch, std::int64_t chunk, AdapterSet& set,
                   ScoreSums& sums);
  // Adds the number of text bytes of the documents' scored tokens.
  void add_bytes(const DocumentBatch& batch, ScoreSums& sums) const;

 private:
  struct Rows;
  std::int64_t rows_with(const DocumentBatch& batch, std::int64_t chunk) const;
  Rows rows_of(const DocumentBatch& batch, std::int64_t chunk) const;
  at::Tensor token_losses(const Rows& rows, const AdapterSet& set) const;  // [B, C]
  void learn(at::Tensor losses_bc, const Rows& rows, AdapterSet& set) const;

  const Gpt& model_;
  const SplitTokens& tokens_;
  const PhasedTttConfig& config_;
  const ChunkOptions chunks_;
  const at::Device device_;
  at::Tensor saved_;
};

}  // namespace tg
