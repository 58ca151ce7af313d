#include "config/derived.h"

#include <algorithm>

namespace tg {

std::int64_t parts_of_batch(const RunConfig& run, int world_size) {
  if (run.grad_accum_steps.count > 0) return world_size * run.grad_accum_steps.count;
  return std::max(8, world_size);
}

std::int64_t micro_batches(const Settings& settings, int world_size) {
  const bool strided = settings.data.loader_order == LoaderOrder::strided;
  return strided ? micro_steps(settings, world_size) * world_size
                 : parts_of_batch(settings.run, world_size);
}

std::int64_t micro_steps(const Settings& settings, int world_size) {
  return (parts_of_batch(settings.run, world_size) + world_size - 1) / world_size;
}

std::int64_t micro_batch_tokens(const Settings& settings, int world_size) {
  return settings.run.train_batch_tokens / parts_of_batch(settings.run, world_size);
}

std::int64_t tokens_per_step(const Settings& settings, int world_size) {
  return micro_batches(settings, world_size) * micro_batch_tokens(settings, world_size);
}

std::int64_t micro_batch_rows(const Settings& settings, int world_size) {
  return micro_batch_tokens(settings, world_size) / settings.run.train_seq_len;
}

bool measures_memory(const Settings& settings) {
  return settings.run.grad_accum_steps.automatic;
}

bool replays_evaluations(const Settings& settings) {
  return settings.runtime.graphs && !measures_memory(settings);
}

std::int64_t mlp_hidden(const ModelConfig& model) {
  return static_cast<std::int64_t>(model.mlp_mult * static_cast<double>(model.model_dim));
}

std::int64_t head_dim(const ModelConfig& model) {
  return model.model_dim / model.num_heads;
}

bool is_drawn_projection(std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kNarrowest = 64;
  return rows >= kNarrowest && columns >= kNarrowest;
}

std::int64_t eval_length(const Settings& settings) {
  return settings.run.eval_seq_len > 0 ? settings.run.eval_seq_len : settings.run.train_seq_len;
}

IoConfig effective_io(const Settings& settings) {
  IoConfig io = settings.io;
  if (io.training_timing_breakdown == TimingBreakdown::sync) {
    io.train_prefetch = io.train_copy_stream = io.val_prefetch = io.val_copy_stream = false;
  }
  return io;
}

}  // namespace tg
