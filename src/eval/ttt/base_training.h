#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "comm/communicator.h"
#include "config/ttt_config.h"
#include "eval/ttt/phased_ttt_state.h"
#include "model/gpt.h"
#include "text/token_id.h"

namespace tg {

struct PhasedTttOptions {
  PhasedTttConfig config{};
  std::int64_t seed = 0;     // for drawing the adapters' A
  std::int64_t bos_id = 0;   // begins a document, and a segment of base training
  std::int64_t seq_len = 0;  // EVAL_SEQ_LEN: base training's sequences, and limit of its segments
  // Joined documents have two BOS between them, and base training has separate batches per rank.
  bool record_quirks = false;
  bool scale_loss = false;  // loss scaling, in fp16
  // Whether this rank was told to stop; called before each chunk; empty: never.
  std::function<bool()> stop_requested{};
  // This rank's state files; null: state is not saved. Required with stop_requested.
  std::shared_ptr<const TttStateFiles> state_files{};
  // Settings that the scores depend on, by name, besides the tensors and numbers here.
  Metadata settings{};
  // Largest fraction of the time spent on saving between batches; a huge value saves after each
  // batch.
  double saving_fraction = 0.02;
};

// Learning rate of chunk `chunk` of a phase: linear warm-up over GLOBAL_TTT_WARMUP_CHUNKS, then
// cosine decay to 0 at the last chunk.
double base_lr(const PhasedTttConfig& config, std::int64_t chunk, std::int64_t chunks);

// One phase of phased test-time training: SGD with its own momentum over all of the model's
// parameters, on `tokens` [N], in chunks of GLOBAL_TTT_CHUNK_TOKENS of their N − 1 predictions,
// without the last chunk. A step takes GLOBAL_TTT_BATCH_SEQS of a chunk's whole sequences, as one
// row with segments or, with GLOBAL_TTT_RESPECT_DOC_BOUNDARIES=0, as rows; its gradient is clipped.
// The ranks split a step by whole segments, so that the weights are equal up to rounding on any
// number of ranks. With record_quirks each rank has its own range of the chunk and its own batches
// (ChunkTraining::per_rank). Logs the reference implementation's tttg lines. Collective;
// requires the same `tokens` on every rank. Returns false if any rank was told to stop, which
// leaves the parameters in the middle of the phase.
bool train_base(Gpt& model, const ParameterTable& table, std::span<const TokenId> tokens,
                const PhasedTttOptions& options, at::Device device, Communicator& communicator);

}  // namespace tg
