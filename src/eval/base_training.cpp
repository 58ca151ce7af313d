#include "eval/base_training.h"

#include <algorithm>
#include <vector>

#include "base/elapsed.h"
#include "base/log.h"
#include "data/segments.h"
#include "eval/chunk_training.h"

namespace tg {

double base_lr(const PhasedTttConfig& config, std::int64_t chunk, std::int64_t chunks) {
  const auto rising = config.global_ttt_warmup_chunks;
  if (chunk >= rising) return chunk_lr(config.global_ttt_lr, chunk - rising, chunks - rising);
  const auto last = static_cast<double>(std::max<std::int64_t>(rising - 1, 1));
  const double begin = config.global_ttt_warmup_start_lr;
  return begin + (config.global_ttt_lr - begin) * static_cast<double>(chunk) / last;
}

namespace {

class BasePhase {
 public:
  BasePhase(Gpt& model, const ParameterTable& table, std::span<const std::uint16_t> tokens,
            const BaseTrainingOptions& options, at::Device device, Communicator& communicator)
      : model_(model),
        tokens_(tokens),
        options_(options),
        training_{.rows = {.predictions = std::ssize(tokens) - 1,
                           .chunk_tokens = options.config.global_ttt_chunk_tokens,
                           .length = options.seq_len},
                  .batch_rows = options.config.global_ttt_batch_seqs,
                  .epochs = options.config.global_ttt_epochs,
                  .grad_clip = options.config.global_ttt_grad_clip},
        device_(device),
        communicator_(communicator),
        parameters_(
            table, /*frozen_blocks=*/0, options.config.global_ttt_momentum,
            /*record_quirks=*/false,
            options.scale_loss ? options.config.global_ttt_batch_seqs * options.seq_len : 0) {
    parameters_.zero_gradients();
  }

  bool run() {
    const auto began = Clock::now();
    const auto chunks = training_.rows.chunks();
    const auto add = [this](std::int64_t begin, std::int64_t rows) { add_gradients(begin, rows); };
    for (std::int64_t chunk = 0; chunk + 1 < chunks; ++chunk) {
      if (told_to_stop()) return false;
      const double lr = base_lr(options_.config, chunk, chunks);
      train_on_chunk(chunk, lr, training_, add, model_, parameters_, communicator_);
      log_info("tttg: c{}/{} lr:{:.6f} t:{:.1f}s", chunk + 1, chunks, lr, seconds_since(began));
    }
    return true;
  }

 private:
  bool told_to_stop() const {
    return options_.stop_requested &&
           communicator_.first_rank_with(options_.stop_requested()).has_value();
  }
  // Of the mean loss of `rows` sequences from token `begin` on.
  void add_gradients(std::int64_t begin, std::int64_t rows) {
    const at::AutoGradMode with_gradients(true);
    const bool segments = options_.config.global_ttt_respect_doc_boundaries;
    const auto count = rows * options_.seq_len;
    const auto length = segments ? count : options_.seq_len;
    const auto own =
        tokens_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count) + 1);
    const auto host = at::empty({count + 1}, at::kLong);
    std::ranges::copy(own, host.mutable_data_ptr<std::int64_t>());
    const auto ids = host.to(device_);
    std::optional<Documents> documents;
    if (segments) documents = segments_of(own.first(static_cast<std::size_t>(count)));
    model_
        .loss(ids.narrow(0, 0, count).view({-1, length}),
              ids.narrow(0, 1, count).view({-1, length}), {.grad_scale = parameters_.grad_scale()},
              documents)
        .backward();
    model_.collect_gradients();
  }

  Documents segments_of(std::span<const std::uint16_t> row) const {
    const auto length = std::ssize(row);
    const SegmentRule rule{.bos_id = options_.bos_id, .limit = options_.seq_len};
    auto starts = segment_starts(row, length, rule);
    starts.push_back(static_cast<std::int32_t>(length));
    return documents_at(at::tensor(starts, at::kInt).to(device_), 1, length,
                        longest_segment(length, rule));
  }

  Gpt& model_;
  const std::span<const std::uint16_t> tokens_;
  const BaseTrainingOptions& options_;
  const ChunkTraining training_;
  const at::Device device_;
  Communicator& communicator_;
  TttParameters parameters_;
};

}  // namespace

bool train_base(Gpt& model, const ParameterTable& table, std::span<const std::uint16_t> tokens,
                const BaseTrainingOptions& options, at::Device device, Communicator& communicator) {
  if (tokens.empty()) return true;
  return BasePhase(model, table, tokens, options, device, communicator).run();
}

}  // namespace tg
