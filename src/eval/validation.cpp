#include "eval/validation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/log.h"
#include "config/check.h"
#include "data/feeder.h"
#include "data/token_order.h"

namespace tg {

namespace {

constexpr int kRanks = 1;

// Adds up batches; the losses stay on the device until the end.
class Tally {
 public:
  Tally(const Gpt& model, const std::optional<ByteTable>& bytes, at::Device device,
        std::int64_t batches, std::int64_t progress_every)
      : model_(model),
        bytes_table_(bytes),
        device_(device),
        batches_(batches),
        progress_every_(progress_every),
        loss_sum_(at::zeros({}, at::TensorOptions(device).dtype(at::kDouble))) {}

  // tokens [sequences·seq_len + 1]
  void add(std::span<const std::uint16_t> tokens, std::int64_t seq_len) {
    const auto batch = to_device(tokens, seq_len, device_);
    const auto loss = model_.loss(batch.inputs, batch.targets, {});
    const auto predictions = static_cast<std::int64_t>(tokens.size()) - 1;
    loss_sum_ += loss.to(at::kDouble) * predictions;
    predictions_ += predictions;
    if (bytes_table_) {
      const auto count = static_cast<std::size_t>(predictions);
      byte_count_ += count_bytes(*bytes_table_, tokens.first(count), tokens.last(count));
    }
  }

  void batch_done() {
    ++done_;
    if (progress_every_ > 0 && (done_ % progress_every_ == 0 || done_ == batches_)) {
      log_info("val_progress:all batch {}/{} partial_mean_loss:{:.4f} tokens_seen:{}", done_,
               batches_, mean_loss(), predictions_);
    }
  }

  Score score() const {
    Score score{.loss = mean_loss(), .bpb = {}};
    if (bytes_table_) {
      score.bpb = score.loss / std::numbers::ln2 * static_cast<double>(predictions_) /
                  static_cast<double>(byte_count_);
    }
    return score;
  }

 private:
  double mean_loss() const { return loss_sum_.item<double>() / static_cast<double>(predictions_); }

  const Gpt& model_;
  const std::optional<ByteTable>& bytes_table_;
  at::Device device_;
  std::int64_t batches_, progress_every_;
  at::Tensor loss_sum_;
  std::int64_t predictions_ = 0, byte_count_ = 0, done_ = 0;
};

}  // namespace

Validation::Validation(const Settings& settings, std::optional<ByteTable> bytes, at::Device device)
    : settings_(settings), bytes_(std::move(bytes)), device_(device) {
  const auto& data = settings.data;
  const auto vocab = static_cast<int>(settings.model.vocab_size);
  if (data.loader_order == LoaderOrder::stream) {
    tokens_ =
        std::make_unique<ValidationTokens>(data.data_path, vocab, settings.run.train_seq_len,
                                           settings.run.eval_seq_len, settings.run.val_tokens);
  } else {
    shards_ = std::make_unique<ShardSet>(data.data_path, "val", vocab);
  }
}

const std::string& Validation::pattern() const {
  return tokens_ ? tokens_->shards().pattern() : shards_->pattern();
}

std::int64_t Validation::tokens() const {
  return tokens_ ? tokens_->predictions() : settings_.run.val_tokens;
}

Score Validation::score(const Gpt& model, std::int64_t seq_len) const {
  const at::NoGradGuard no_grad;
  return tokens_ ? score_stream(model, seq_len) : score_strided(model, seq_len);
}

Score Validation::score_stream(const Gpt& model, std::int64_t seq_len) const {
  const auto sequences = tokens_->sequences(seq_len);
  // A validation batch is the size of a rank's share of one micro-step, as the scripts have it.
  const auto batch_tokens = settings_.run.val_batch_size / micro_batches(settings_, kRanks);
  const auto at_once = std::max<std::int64_t>(1, batch_tokens / seq_len);
  const auto batches = (sequences + at_once - 1) / at_once;
  Tally tally(model, bytes_, device_, batches, settings_.io.val_progress_log_every);
  std::vector<std::uint16_t> tokens;
  for (std::int64_t first = 0; first < sequences; first += at_once) {
    const auto count = std::min(at_once, sequences - first);
    tokens.resize(static_cast<std::size_t>(count * seq_len + 1));
    tokens_->read_sequences(first, count, seq_len, tokens);
    tally.add(tokens, seq_len);
    tally.batch_done();
  }
  return tally.score();
}

Score Validation::score_strided(const Gpt& model, std::int64_t seq_len) const {
  const auto at_once = settings_.run.val_batch_size / seq_len;
  const auto batches = settings_.run.val_tokens / settings_.run.val_batch_size;
  StridedOrder order(*shards_, at_once, seq_len, /*rank=*/0, kRanks, /*repeat_first=*/false);
  Tally tally(model, bytes_, device_, batches, settings_.io.val_progress_log_every);
  std::vector<std::uint16_t> tokens(static_cast<std::size_t>(order.span_tokens()));
  // A batch may be many times a micro-batch, and its logits would not fit: it is scored in parts.
  const auto part = std::max<std::int64_t>(1, micro_batch_tokens(settings_, kRanks) / seq_len);
  for (std::int64_t batch = 0; batch < batches; ++batch) {
    order.next(tokens);
    for (std::int64_t first = 0; first < at_once; first += part) {
      const auto count = std::min(part, at_once - first);
      tally.add(std::span(tokens).subspan(first * seq_len, count * seq_len + 1), seq_len);
    }
    tally.batch_done();
  }
  return tally.score();
}

}  // namespace tg
