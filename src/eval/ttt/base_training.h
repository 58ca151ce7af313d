#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "comm/communicator.h"
#include "config/ttt_config.h"
#include "model/gpt.h"
#include "text/token_id.h"

namespace tg {

struct BaseTrainingOptions {
  PhasedTttConfig config{};    // only its global_ttt_ settings are used
  std::int64_t seq_len = 0;    // EVAL_SEQ_LEN: length of a sequence, and limit of a segment
  std::int64_t bos_id = 0;     // begins a segment
  std::int64_t context = 0;    // of RoPE, as in scoring documents; see Gpt::token_losses()
  bool record_quirks = false;  // each rank has its own batches
  bool scale_loss = false;     // loss scaling, in fp16
  // Whether this rank was told to stop; called before each chunk; empty: never.
  std::function<bool()> stop_requested{};
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
                const BaseTrainingOptions& options, at::Device device, Communicator& communicator);

}  // namespace tg
