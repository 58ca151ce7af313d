#include "eval/validation.h"

#include <algorithm>
#include <numbers>

#include "base/log.h"
#include "config/check.h"
#include "data/feeder.h"
#include "data/prefetch.h"

namespace tg {

namespace {

constexpr int kRank = 0, kRanks = 1;

// Sums over batches; those of the device stay there until they are asked for.
class Tally {
 public:
  explicit Tally(at::Device device)
      : loss_sum_(at::zeros({}, at::TensorOptions(device).dtype(at::kDouble))),
        device_bytes_(at::zeros({}, at::TensorOptions(device).dtype(at::kLong))) {}

  void add(const at::Tensor& mean_loss, std::int64_t predictions) {
    loss_sum_ += mean_loss.to(at::kDouble) * predictions;
    predictions_ += predictions;
  }
  void add_bytes(std::int64_t count) { host_bytes_ += count; }
  void add_bytes(const at::Tensor& count) { device_bytes_ += count; }

  std::int64_t predictions() const { return predictions_; }
  double mean_loss() const { return loss_sum_.item<double>() / static_cast<double>(predictions_); }
  double bits_per_byte() const {
    const auto bytes = host_bytes_ + device_bytes_.item<std::int64_t>();
    return mean_loss() / std::numbers::ln2 * static_cast<double>(predictions_) /
           static_cast<double>(bytes);
  }

 private:
  at::Tensor loss_sum_, device_bytes_;
  std::int64_t predictions_ = 0, host_bytes_ = 0;
};

std::int64_t count_predictions(const Settings& settings, const TokenSource& tokens) {
  const auto& run = settings.run;
  if (settings.data.loader_order == LoaderOrder::strided) return run.val_tokens;
  return trimmed_predictions(tokens, run.train_seq_len, run.eval_seq_len, run.val_tokens);
}

}  // namespace

Validation::Validation(const Settings& settings, std::shared_ptr<const TokenSource> tokens,
                       std::optional<ByteTable> bytes, at::Device device)
    : settings_(settings),
      io_(effective_io(settings)),
      tokens_(std::move(tokens)),
      bytes_(std::move(bytes)),
      device_(device),
      predictions_(count_predictions(settings, *tokens_)) {
  if (bytes_ && io_.val_bytecount_device == CountDevice::cuda) {
    device_bytes_ = to_device(*bytes_, device);
  }
}

ValidationPlan Validation::plan(std::int64_t seq_len) const {
  const auto& run = settings_.run;
  if (settings_.data.loader_order == LoaderOrder::stream) {
    // A validation batch is the size of a rank's share of one micro-step, as the scripts have it.
    const auto at_once = run.val_batch_size / micro_batches(settings_, kRanks) / seq_len;
    return plan_stream(predictions_, seq_len, std::max<std::int64_t>(1, at_once), kRank, kRanks);
  }
  const auto at_once = micro_batch_tokens(settings_, kRanks) / seq_len;
  return plan_strided(*tokens_, run.val_tokens / run.val_batch_size, run.val_batch_size / seq_len,
                      seq_len, std::max<std::int64_t>(1, at_once), kRank, kRanks);
}

Score Validation::score(const Gpt& model, std::int64_t seq_len) const {
  const at::NoGradGuard no_grad;
  const auto plan = this->plan(seq_len);
  const bool host_counts = bytes_ && !device_bytes_;
  std::optional<PrefetchOptions> ahead;
  if (io_.val_prefetch) ahead = {.queue = static_cast<int>(io_.val_prefetch_queue), .workers = 1};
  Feeder feeder(make_source(std::make_unique<ListedOrder>(*tokens_, plan.places),
                            {.seq_len = seq_len, .bytes = host_counts ? &*bytes_ : nullptr}, ahead,
                            token_allocator(device_)),
                device_, io_.val_copy_stream);

  const auto places = std::ssize(plan.places);
  const auto batches = places / plan.places_in_batch;
  const auto every = io_.val_progress_log_every;
  Tally tally(device_);
  for (std::int64_t done = 1; done <= places; ++done) {
    const auto batch = feeder.next();
    tally.add(model.loss(batch.inputs, batch.targets, {}), batch.targets.numel());
    if (host_counts) tally.add_bytes(batch.text_bytes);
    if (device_bytes_) tally.add_bytes(count_bytes(*device_bytes_, batch.inputs, batch.targets));
    const auto number = done / plan.places_in_batch;
    if (every > 0 && done % plan.places_in_batch == 0 &&
        (number % every == 0 || number == batches)) {
      log_info("val_progress:all batch {}/{} partial_mean_loss:{:.4f} tokens_seen:{}", number,
               batches, tally.mean_loss(), tally.predictions());
    }
  }
  Score score{.loss = tally.mean_loss(), .bpb = {}};
  if (bytes_) score.bpb = tally.bits_per_byte();
  return score;
}

}  // namespace tg
