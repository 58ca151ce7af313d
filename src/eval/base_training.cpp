#include "eval/base_training.h"

#include <algorithm>
#include <vector>

#include "base/elapsed.h"
#include "base/log.h"
#include "data/segments.h"
#include "eval/ttt_chunks.h"
#include "eval/ttt_parameters.h"

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
        device_(device),
        communicator_(communicator),
        parameters_(
            table, /*frozen_blocks=*/0, options.config.global_ttt_momentum,
            /*record_quirks=*/false,
            options.scale_loss ? options.config.global_ttt_batch_seqs * options.seq_len : 0) {
    parameters_.zero_gradients();
  }

  void run() {
    const auto began = Clock::now();
    const auto& config = options_.config;
    const auto predictions = std::ssize(tokens_) - 1;
    const auto chunks =
        (predictions + config.global_ttt_chunk_tokens - 1) / config.global_ttt_chunk_tokens;
    for (std::int64_t chunk = 0; chunk + 1 < chunks; ++chunk) {
      const double lr = base_lr(config, chunk, chunks);
      for (std::int64_t epoch = 0; epoch < config.global_ttt_epochs; ++epoch) train_on(chunk, lr);
      log_info("tttg: c{}/{} lr:{:.6f} t:{:.1f}s", chunk + 1, chunks, lr, seconds_since(began));
    }
  }

 private:
  void train_on(std::int64_t chunk, double lr) {
    const auto batch = options_.config.global_ttt_batch_seqs;
    const int world = communicator_.world_size();
    const auto share_of = [&](int rank) {
      return share_of_chunk(std::ssize(tokens_) - 1, chunk, options_.config.global_ttt_chunk_tokens,
                            options_.seq_len, rank, world);
    };
    const auto share = share_of(communicator_.rank());
    for (std::int64_t row = 0; row < share.most_rows; row += batch) {
      std::int64_t contributing = 0;
      for (int rank = 0; rank < world; ++rank) contributing += row < share_of(rank).rows;
      const auto rows = std::min(batch, share.rows - row);
      if (rows > 0) add_gradients(share.begin + row * options_.seq_len, rows);
      parameters_.step(communicator_, contributing, options_.config.global_ttt_grad_clip, lr);
      parameters_.zero_gradients();
      model_.cast_weights();
      communicator_.progress();
    }
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
  const at::Device device_;
  Communicator& communicator_;
  TttParameters parameters_;
};

}  // namespace

void train_base(Gpt& model, const ParameterTable& table, std::span<const std::uint16_t> tokens,
                const BaseTrainingOptions& options, at::Device device, Communicator& communicator) {
  if (tokens.empty()) return;
  BasePhase(model, table, tokens, options, device, communicator).run();
}

}  // namespace tg
