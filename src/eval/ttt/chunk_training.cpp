#include "eval/ttt/chunk_training.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "optim/gradient_norm.h"

namespace tg {

std::vector<std::vector<Window>> windows_of_chunks(std::int64_t predictions,
                                                   const WindowOptions& options,
                                                   std::int64_t chunk_tokens) {
  const auto chunks = (predictions + chunk_tokens - 1) / chunk_tokens;
  std::vector<std::vector<Window>> windows(static_cast<std::size_t>(chunks));
  for (const auto& window : sliding_windows(predictions, options)) {
    const auto chunk = std::min((window.begin + window.from) / chunk_tokens, chunks - 1);
    windows[static_cast<std::size_t>(chunk)].push_back(window);
  }
  return windows;
}

RankRows rank_rows(const ChunkRows& rows, std::int64_t chunk, int rank, int world_size) {
  const auto begin = chunk * rows.chunk_tokens;
  const auto count = (std::min(begin + rows.chunk_tokens, rows.predictions) - begin) / rows.length;
  const auto first_of = [&](std::int64_t r) { return count * r / world_size; };
  return {.begin = begin + first_of(rank) * rows.length,
          .rows = first_of(rank + 1) - first_of(rank),
          .most_rows = (count + world_size - 1) / world_size};
}

double chunk_lr(double lr, std::int64_t chunk, std::int64_t chunks) {
  const auto last = static_cast<double>(std::max<std::int64_t>(chunks - 1, 1));
  return lr * 0.5 * (1 + std::cos(std::numbers::pi * static_cast<double>(chunk) / last));
}

namespace {

// All-reduces the gradients as one packed tensor.
void sum_packed(const std::vector<at::Tensor>& gradients, Communicator& communicator) {
  std::vector<at::Tensor> flat;
  for (const auto& gradient : gradients)
    flat.push_back(gradient.flatten().to(norm_dtype(gradients.front())));
  const auto packed = at::cat(flat);
  communicator.sum(packed).wait();
  std::int64_t begin = 0;
  for (const auto& gradient : gradients) {
    gradient.copy_(packed.narrow(0, begin, gradient.numel()).view(gradient.sizes()));
    begin += gradient.numel();
  }
}

// The rows of a step after `done` rows of the range that rank `rank` of `sharing` ranks has in the
// chunk.
StepRows next_rows(const ChunkTraining& training, std::int64_t chunk, std::int64_t done, int rank,
                   int sharing) {
  const auto range = rank_rows(training.rows, chunk, rank, sharing);
  const auto rows = std::clamp<std::int64_t>(range.rows - done, 0, training.batch_rows);
  return {.begin = range.begin + done * training.rows.length, .rows = rows, .count = rows};
}

}  // namespace

TttParameters::TttParameters(const ParameterTable& table, std::int64_t frozen_blocks,
                             double momentum, bool record_quirks, std::int64_t scaled_tokens)
    : table_(table) {
  if (scaled_tokens > 0) loss_scale_.emplace(table.rows().front().value.device(), scaled_tokens);
  std::vector<at::Tensor> stepped;
  for (const auto& row : table.rows()) {
    if (!row.exported || row.update.rule == UpdateRule::constant) continue;
    const bool bank = row.value.dim() == 3;
    for (const auto& part : row.parts) {
      const bool of_first = part.block >= 0 && part.block < frozen_blocks;
      const bool frozen = of_first && !(bank && record_quirks);
      (frozen ? frozen_ : unfrozen_) += part.value.numel();
      if (frozen) continue;
      parts_.push_back({row.value, part.value});
      stepped.push_back(part.value);
    }
  }
  sgd_.emplace(std::move(stepped), momentum);
}

std::vector<at::Tensor> TttParameters::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const auto& [parameter, value] : parts_) {
    const auto whole = parameter.grad();
    gradients.push_back(whole.as_strided(
        value.sizes(), value.strides(),
        whole.storage_offset() + value.storage_offset() - parameter.storage_offset()));
  }
  return gradients;
}

void TttParameters::zero_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& row : table_.rows()) {
    if (!row.exported || row.update.rule == UpdateRule::constant) continue;
    auto& gradient = at::Tensor(row.value).mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(row.value.detach());
    gradient.zero_();
  }
}

void TttParameters::unscale(const std::vector<at::Tensor>& gradients) {
  loss_scale_->unscale(gradients);
  const auto overflowed = global_norm(gradients).isfinite().logical_not();
  for (const auto& gradient : gradients) at::Tensor(gradient).masked_fill_(overflowed, 0);
  loss_scale_->update(overflowed.to(at::kFloat));
}

void TttParameters::step(Communicator& communicator, std::int64_t means, double max_norm,
                         double lr) {
  const at::NoGradGuard no_grad;
  if (parts_.empty()) return;
  const auto gradients = this->gradients();
  if (communicator.world_size() > 1) {
    sum_packed(gradients, communicator);
    at::_foreach_div_(gradients, static_cast<double>(means));
  }
  if (loss_scale_) unscale(gradients);
  if (max_norm > 0) at::_foreach_mul_(gradients, clip_factor(global_norm(gradients), max_norm));
  sgd_->step(gradients, lr);
}

void train_on_chunk(std::int64_t chunk, double lr, const ChunkTraining& training,
                    const AddGradients& add_gradients, Gpt& model, TttParameters& parameters,
                    Communicator& communicator) {
  const int rank = communicator.rank(), world = communicator.world_size();
  const auto rows_of = [&](std::int64_t done, int r) {
    if (training.per_rank) return next_rows(training, chunk, done, r, world);
    auto rows = next_rows(training, chunk, done, 0, 1);
    rows.first = rows.rows * r / world;
    rows.count = rows.rows * (r + 1) / world - rows.first;
    return rows;
  };
  const int sharing = training.per_rank ? world : 1;
  const auto most = rank_rows(training.rows, chunk, 0, sharing).most_rows;
  for (std::int64_t epoch = 0; epoch < training.epochs; ++epoch) {
    for (std::int64_t done = 0; done < most; done += training.batch_rows) {
      std::int64_t means = 0;  // number of means that the gradient averages
      for (int r = 0; r < sharing; ++r) means += rows_of(done, r).rows > 0;
      const auto rows = rows_of(done, rank);
      if (rows.count > 0) add_gradients(rows);
      parameters.step(communicator, means, training.grad_clip, lr);
      parameters.zero_gradients();
      model.cast_weights();
      communicator.progress();
    }
  }
}

}  // namespace tg
