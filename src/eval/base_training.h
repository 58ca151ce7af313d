#pragma once
#include <cstdint>
#include <functional>
#include <span>

#include "comm/communicator.h"
#include "config/phased_ttt_config.h"
#include "model/gpt.h"

namespace tg {

struct BaseTrainingOptions {
  PhasedTttConfig config{};    // its global_ttt_ settings
  std::int64_t seq_len = 0;    // EVAL_SEQ_LEN: of a sequence, and the most tokens of a segment
  std::int64_t bos_id = 0;     // begins a segment
  std::int64_t context = 0;    // of RoPE, as the documents are scored: Gpt::token_losses()'s
  bool record_quirks = false;  // a batch of each rank
  bool scale_loss = false;     // in fp16
  // Whether this rank was told to stop, asked before each chunk; empty: never.
  std::function<bool()> stop_requested{};
};

// The learning rate of chunk `chunk` of a phase: a linear rise over GLOBAL_TTT_WARMUP_CHUNKS, then
// a cosine over the others, down to 0 at the last one.
double base_lr(const PhasedTttConfig& config, std::int64_t chunk, std::int64_t chunks);

// Trains the weights for one phase of phased test-time training: SGD with momentum over all
// parameters, on `tokens` [N] in chunks of GLOBAL_TTT_CHUNK_TOKENS of their N − 1 predictions, all
// but the last chunk. A step takes GLOBAL_TTT_BATCH_SEQS of a chunk's whole sequences, as one row
// with segments or, with GLOBAL_TTT_RESPECT_DOC_BOUNDARIES=0, as rows, and clips the gradient. The
// ranks divide it by whole segments, so that the weights are equal up to rounding on any number of
// ranks. With record_quirks each rank has its own part of the chunk and its own batches
// (ChunkTraining's of_each_rank). Logs the reference implementation's tttg lines. Collective:
// `tokens` must be equal on every rank. Returns false if any rank was told to stop, which leaves
// the parameters in the middle of the phase.
bool train_base(Gpt& model, const ParameterTable& table, std::span<const std::uint16_t> tokens,
                const BaseTrainingOptions& options, at::Device device, Communicator& communicator);

}  // namespace tg
