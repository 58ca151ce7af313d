#include "eval/ttt/test_time_training.h"

#include <algorithm>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/python_format.h"
#include "device/fit_rows.h"

namespace tg {

TestTimeTraining::TestTimeTraining(Gpt& model, const ParameterTable& table,
                                   const SplitTokens& tokens, const TttOptions& options,
                                   at::Device device, Communicator& communicator)
    : model_(model),
      tokens_(tokens),
      options_(options),
      communicator_(communicator),
      training_{.rows = {.predictions = tokens.predictions(),
                         .chunk_tokens = options.config.ttt_chunk_tokens,
                         .length = options.windows.length},
                .batch_rows = options.config.ttt_batch_seqs,
                .per_rank = true,
                .epochs = options.config.ttt_epochs,
                .grad_clip = options.config.ttt_grad_clip},
      parameters_(table, options.config.ttt_freeze_blocks, options.config.ttt_momentum,
                  options.record_quirks,
                  options.scale_loss ? options.config.ttt_batch_seqs * options.windows.length : 0),
      chunks_(windows_of_chunks(tokens.predictions(), options.windows,
                                options.config.ttt_chunk_tokens)),
      scorer_(model, tokens, options.windows.length, options.windows.stride, device, options.mode,
              communicator),
      sums_(device),
      mode_{.grad_scale = parameters_.grad_scale()},
      micro_step_(model, mode_, device, options.mode.graphs) {
  const auto length = options.windows.length;
  const auto whole = rank_rows(training_.rows, 0, communicator.rank(), communicator.world_size());
  batch_.inputs = at::zeros({std::min(options.config.ttt_batch_seqs, whole.rows), length},
                            at::TensorOptions(device).dtype(at::kLong));
  batch_.targets = at::zeros_like(batch_.inputs);
  batch_.longest_segment = length;
  const auto rows = batch_.inputs.size(0);  // 0: this rank has no rows of any chunk
  rows_at_once_ = options.mode.measure_memory && rows > 0 ? fitting_rows() : rows;
  micro_step_.set_size({.parts = rows > 0 ? rows / rows_at_once_ : 1});
}

// The most sequences of a batch whose passes fit in memory.
std::int64_t TestTimeTraining::fitting_rows() {
  const auto fit = fit_rows(divisors(batch_.inputs.size(0)), kSpareBytes, batch_.inputs.device(),
                            [this](std::int64_t rows) {
                              const at::AutoGradMode with_gradients(true);
                              const auto ids = batch_.inputs.narrow(0, 0, rows);
                              model_.loss(ids, ids, {}, whole_rows(tokens_, ids)).backward();
                              model_.collect_gradients();
                              parameters_.zero_gradients();
                            });
  return fit.rows;
}

Score TestTimeTraining::run() {
  const auto began = Clock::now();
  const auto& ttt = options_.config;
  std::size_t windows = 0;
  for (const auto& chunk : chunks_) windows += chunk.size();
  log_info(
      "ttt_sliding:start chunks={} chunk_tokens={} total_windows={} stride={} ttt_lr={} "
      "ttt_epochs={} freeze_blocks={}",
      chunks_.size(), ttt.ttt_chunk_tokens, windows, options_.windows.stride, py_repr(ttt.ttt_lr),
      ttt.ttt_epochs, ttt.ttt_freeze_blocks);
  log_info("ttt_sliding:params unfrozen={} frozen={}", parameters_.unfrozen(),
           parameters_.as_constants());
  model_.set_fake_quant(false);
  model_.cast_weights();
  parameters_.zero_gradients();
  for (std::int64_t chunk = 0; chunk < std::ssize(chunks_); ++chunk) {
    scorer_.score(rank_range(chunks_[static_cast<std::size_t>(chunk)], communicator_.rank(),
                             communicator_.world_size()),
                  sums_);
    const bool last = chunk + 1 == std::ssize(chunks_);
    if (!last) train_on(chunk);
    if (chunk % 10 == 0 || last) {
      const auto [loss, bpb, unmasked] = sums_.score();
      log_info("  ttt_chunk [{}/{}] {} time={:.1f}s", chunk + 1, chunks_.size(),
               bpb ? fmt::format("bpb={:.6f}", *bpb) : fmt::format("loss={:.6f}", loss),
               seconds_since(began));
    }
  }
  const auto score = sums_.score_of_all_ranks(communicator_);
  log_info("ttt_sliding:done val_loss={:.6f} val_bpb={} elapsed={:.1f}s", score.loss,
           score.bpb ? fmt::format("{:.6f}", *score.bpb) : "none", seconds_since(began));
  return score;
}

void TestTimeTraining::train_on(std::int64_t chunk) {
  const double lr = chunk_lr(options_.config.ttt_lr, chunk, std::ssize(chunks_));
  const auto add = [this](const StepRows& rows) { add_gradients(rows.begin, rows.count); };
  const auto set_fake_quant = [this](bool on) {
    if (!options_.fake_quant) return;
    model_.set_fake_quant(on);
    model_.cast_weights();
  };
  set_fake_quant(true);
  train_on_chunk(chunk, lr, training_, add, model_, parameters_, communicator_);
  set_fake_quant(false);
}

void TestTimeTraining::add_gradients(std::int64_t begin, std::int64_t rows) {
  const at::AutoGradMode with_gradients(true);
  const auto length = options_.windows.length;
  const auto inputs = tokens_.inputs(begin, rows, length, length);
  const auto targets = tokens_.targets(begin, rows, length, length);
  if (rows == batch_.inputs.size(0)) {
    batch_.inputs.copy_(inputs);
    batch_.targets.copy_(targets);
    hold_segments(tokens_.segments(begin, rows, length, length), batch_);
    for (std::int64_t part = 0; part < micro_step_.size().parts; ++part) {
      micro_step_.forward(batch_, part);
      micro_step_.backward();
    }
  } else {
    for (std::int64_t row = 0; row < rows; row += rows_at_once_) {
      const auto count = std::min(rows_at_once_, rows - row);
      const auto of_part = [&](const at::Tensor& x) {
        return x.narrow(0, row, count).to(at::kLong);
      };
      const DeviceBatch part{
          .inputs = of_part(inputs),
          .targets = of_part(targets),
          .segments = tokens_.segments(begin + row * length, count, length, length),
          .longest_segment = length};
      auto mode = mode_;
      mode.scale = static_cast<double>(count) / static_cast<double>(rows);
      model_.loss(part.inputs, part.targets, mode, documents_of(part)).backward();
    }
  }
  model_.collect_gradients();
}

}  // namespace tg
