#pragma once
#include <cstdint>

#include "config/setting.h"

namespace tg {

// Test-time training: the model trains on validation tokens after it has scored them.
struct TttConfig {
  bool ttt_enabled = false;
  double ttt_lr = 0.002;
  std::int64_t ttt_epochs = 3;
  std::int64_t ttt_chunk_tokens = 32768;
  std::int64_t ttt_freeze_blocks = 2;
  double ttt_momentum = 0.9;
  std::int64_t ttt_batch_seqs = 32;
  double ttt_grad_clip = 1;

  static void visit(auto& s, const auto& line, const auto&) {
    line("ttt_enabled", s.ttt_enabled, anything, role::free,
         "score validation chunk by chunk, and train on each scored chunk");
    line("ttt_lr", s.ttt_lr, at_least(0), role::free, "learning rate of the first chunk");
    line("ttt_epochs", s.ttt_epochs, at_least(0), role::free, "passes over a scored chunk");
    line("ttt_chunk_tokens", s.ttt_chunk_tokens, within(1, most_tokens), role::free,
         "tokens of a chunk");
    line("ttt_freeze_blocks", s.ttt_freeze_blocks, at_least(0), role::free,
         "first blocks that stay fixed");
    line("ttt_momentum", s.ttt_momentum, fraction, role::free,
         "momentum of SGD, kept across chunks");
    line("ttt_batch_seqs", s.ttt_batch_seqs, at_least(1), role::free,
         "sequences of a batch, per rank");
    line("ttt_grad_clip", s.ttt_grad_clip, at_least(0), role::free,
         "maximum norm of the gradient; 0: no clipping");
  }
};

// PHASED_TTT_ENABLED: documents are scored in batches, chunk by chunk. Each scored chunk trains
// low-rank adapters (LoRA) of its document; after a phase of documents, the scored ones train the
// weights.
struct PhasedTttConfig {
  bool phased_ttt_enabled = false;
  std::int64_t phased_ttt_prefix_docs = 2000;
  std::int64_t phased_ttt_num_phases = 1;
  double val_doc_fraction = 1;
  std::int64_t ttt_lora_rank = 96;
  double ttt_lora_alpha = 144;
  bool ttt_warm_start_a = true;
  double ttt_lora_lr = 1e-4;
  TttOptimizer ttt_optimizer = TttOptimizer::adam;
  double ttt_beta1 = 0;
  double ttt_beta2 = 0.999;
  double ttt_weight_decay = 1;
  std::int64_t ttt_chunk_size = 48;
  std::int64_t ttt_eval_seq_len = 0;
  std::int64_t ttt_batch_size = 64;
  std::int64_t ttt_concurrent_batches = 1;
  std::int64_t ttt_grad_steps = 1;
  bool ttt_k_lora = true;
  bool ttt_mlp_lora = true;
  bool ttt_o_lora = true;
  double global_ttt_lr = 0.001;
  double global_ttt_momentum = 0.9;
  std::int64_t global_ttt_epochs = 1;
  std::int64_t global_ttt_chunk_tokens = 32768;
  std::int64_t global_ttt_batch_seqs = 32;
  double global_ttt_warmup_start_lr = 0;
  std::int64_t global_ttt_warmup_chunks = 0;
  double global_ttt_grad_clip = 1;
  bool global_ttt_respect_doc_boundaries = true;

  static void visit(auto& s, const auto& line, const auto&) {
    line("phased_ttt_enabled", s.phased_ttt_enabled, anything, role::free,
         "phased test-time training after the other final scores: each scored chunk trains "
         "adapters of its document");
    line("phased_ttt_prefix_docs", s.phased_ttt_prefix_docs, at_least(0), role::free,
         "scored documents that also train the weights");
    line("phased_ttt_num_phases", s.phased_ttt_num_phases, within(1, most_parts), role::free,
         "phases: how often the documents scored so far train the weights");
    line("val_doc_fraction", s.val_doc_fraction, {.low = 0, .high = 1, .low_open = true},
         role::free,
         "fraction of the validation split's documents that is scored, from the first on");
    line("ttt_lora_rank", s.ttt_lora_rank, within(1, 4096), role::free, "rank of an adapter");
    line("ttt_lora_alpha", s.ttt_lora_alpha, at_least(0), role::free,
         "an adapter's output is multiplied by this over its rank");
    line("ttt_warm_start_a", s.ttt_warm_start_a, anything, role::free,
         "a batch's adapters begin with the A of the batch before; 0: with a new random A");
    line("ttt_lora_lr", s.ttt_lora_lr, at_least(0), role::free, "learning rate of the adapters");
    line("ttt_optimizer", s.ttt_optimizer, anything, role::free,
         "optimizer of the adapters: adam (AdamW), or sgd with momentum TTT_BETA1");
    line("ttt_beta1", s.ttt_beta1, fraction, role::free, "decay of the gradient's average");
    line("ttt_beta2", s.ttt_beta2, fraction, role::free, "decay of the squared gradient's average");
    line("ttt_weight_decay", s.ttt_weight_decay, at_least(0), role::free,
         "weight decay of the adapters");
    line("ttt_chunk_size", s.ttt_chunk_size, within(1, most_tokens_in_row), role::free,
         "tokens of a document that are scored before they are trained on");
    line("ttt_eval_seq_len", s.ttt_eval_seq_len, within(0, most_tokens_in_row), role::free,
         "longest row, a chunk and its context; 0: the context of training");
    line("ttt_batch_size", s.ttt_batch_size, within(1, most_parts), role::free,
         "documents of a batch, one per row");
    line("ttt_concurrent_batches", s.ttt_concurrent_batches, within(1, 16), role::free,
         "batches that a rank scores at once, each on its own CUDA stream; as with more ranks, "
         "the order decides which A a batch begins with, and so its score");
    line("ttt_grad_steps", s.ttt_grad_steps, within(1, most_parts), role::free,
         "updates of the adapters after each chunk");
    line("ttt_k_lora", s.ttt_k_lora, anything, role::free, "adapters of the keys' projection");
    line("ttt_mlp_lora", s.ttt_mlp_lora, anything, role::free, "adapters of the MLP");
    line("ttt_o_lora", s.ttt_o_lora, anything, role::free, "adapters of attention's output");
    line("global_ttt_lr", s.global_ttt_lr, at_least(0), role::free,
         "learning rate of the weights; it falls over a phase's chunks");
    line("global_ttt_momentum", s.global_ttt_momentum, fraction, role::free, "their momentum");
    line("global_ttt_epochs", s.global_ttt_epochs, within(1, most_parts), role::free,
         "epochs over a chunk");
    line("global_ttt_chunk_tokens", s.global_ttt_chunk_tokens, within(1, most_tokens), role::free,
         "tokens of a chunk, which has one learning rate");
    line("global_ttt_batch_seqs", s.global_ttt_batch_seqs, within(1, most_parts), role::free,
         "sequences of an update, all ranks together; with RECORD_QUIRKS=1 per rank");
    line("global_ttt_warmup_start_lr", s.global_ttt_warmup_start_lr, at_least(0), role::free,
         "learning rate of a phase's first chunk, with GLOBAL_TTT_WARMUP_CHUNKS");
    line("global_ttt_warmup_chunks", s.global_ttt_warmup_chunks, at_least(0), role::free,
         "chunks in which the learning rate rises to GLOBAL_TTT_LR");
    line("global_ttt_grad_clip", s.global_ttt_grad_clip, at_least(0), role::free,
         "maximum norm of the gradient; 0: no clipping");
    line("global_ttt_respect_doc_boundaries", s.global_ttt_respect_doc_boundaries, anything,
         role::free, "attention does not cross the end of a document");
  }
};

}  // namespace tg
