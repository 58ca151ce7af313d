#include "eval/validation.h"

#include <algorithm>
#include <numbers>

#include "config/derived.h"
#include "data/feeder.h"
#include "data/prefetch.h"

namespace tg {

namespace {

// Sums over batches, on the device until they are asked for: Σnll, predictions, bytes.
class Tally {
 public:
  explicit Tally(at::Device device)
      : sums_(at::zeros({3}, at::TensorOptions(device).dtype(at::kDouble))) {}

  void add(const at::Tensor& mean_loss, std::int64_t predictions) {
    sums_[0] += mean_loss.to(at::kDouble) * predictions;
    sums_[1] += predictions;
  }
  void add_bytes(std::int64_t count) { sums_[2] += count; }
  void add_bytes(const at::Tensor& count) { sums_[2] += count; }
  void add_other_ranks(Communicator& communicator) { communicator.sum(sums_).wait(); }

  struct Sums {
    double loss, predictions, bytes;
    double mean_loss() const { return loss / predictions; }
  };
  Sums sums() const {
    const auto host = sums_.cpu();
    const auto* values = host.const_data_ptr<double>();
    return {values[0], values[1], values[2]};
  }

 private:
  at::Tensor sums_;
};

std::int64_t count_predictions(const Settings& settings, const TokenSource& tokens) {
  const auto& run = settings.run;
  if (settings.data.loader_order == LoaderOrder::strided) return run.val_tokens;
  return trimmed_predictions(tokens, run.train_seq_len, run.eval_seq_len, run.val_tokens);
}

}  // namespace

Validation::Validation(const Settings& settings, std::shared_ptr<const TokenSource> tokens,
                       std::optional<ByteTable> bytes, at::Device device,
                       Communicator& communicator)
    : settings_(settings),
      io_(effective_io(settings)),
      tokens_(std::move(tokens)),
      bytes_(std::move(bytes)),
      device_(device),
      communicator_(communicator),
      batch_loss_(device, settings.runtime.graphs),
      predictions_(count_predictions(settings, *tokens_)) {
  if (bytes_ && io_.val_bytecount_device == CountDevice::cuda) {
    device_bytes_ = to_device(*bytes_, device);
  }
}

ValidationPlan Validation::plan(std::int64_t seq_len) const {
  const auto& run = settings_.run;
  const int rank = communicator_.rank(), world = communicator_.world_size();
  if (settings_.data.loader_order == LoaderOrder::stream) {
    // A validation batch is the size of a rank's share of one micro-step, as in the reference
    // implementation.
    const auto shares = world * micro_steps(settings_, world);
    const auto at_once = run.val_batch_size / shares / seq_len;
    return plan_stream(predictions_, seq_len, std::max<std::int64_t>(1, at_once), rank, world);
  }
  const auto at_once = micro_batch_tokens(settings_, world) / seq_len;
  return plan_strided(*tokens_, run.val_tokens / run.val_batch_size,
                      run.val_batch_size / world / seq_len, seq_len,
                      std::max<std::int64_t>(1, at_once), rank, world);
}

Score Validation::score(Gpt& model, std::int64_t seq_len, const OnValidationProgress& on_progress) {
  const at::NoGradGuard no_grad;
  model.set_fake_quant(false);
  model.cast_weights();
  const auto plan = this->plan(seq_len);
  const bool host_counts = bytes_ && !device_bytes_;
  std::optional<PrefetchOptions> ahead;
  if (io_.val_prefetch) ahead = {.queue = static_cast<int>(io_.val_prefetch_queue), .workers = 1};
  Feeder feeder(make_source(std::make_unique<ListedOrder>(*tokens_, plan.places, plan.count),
                            {.seq_len = seq_len, .bytes = host_counts ? &*bytes_ : nullptr}, ahead,
                            token_allocator(device_)),
                device_, io_.val_copy_stream);

  const auto batches = plan.count / plan.places_in_batch;
  const auto every = on_progress ? io_.val_progress_log_every : 0;
  Tally tally(device_);
  const auto next = [&] {
    const PeerWatch::Work reading(communicator_.watch(), "reading tokens for validation");
    return feeder.next();
  };
  for (std::int64_t done = 1; done <= plan.count; ++done) {
    const auto batch = next();
    tally.add(batch_loss_(model, batch), batch.targets.numel());
    if (host_counts) tally.add_bytes(batch.text_bytes);
    if (device_bytes_) tally.add_bytes(count_bytes(*device_bytes_, batch.inputs, batch.targets));
    communicator_.progress();
    const auto number = done / plan.places_in_batch;
    if (every > 0 && done % plan.places_in_batch == 0 &&
        (number % every == 0 || number == batches)) {
      const auto so_far = tally.sums();
      on_progress({number, batches, so_far.mean_loss(), so_far.predictions});
    }
  }
  tally.add_other_ranks(communicator_);
  const PeerWatch::Scope waiting(communicator_.watch());
  const auto sums = tally.sums();
  Score score{.loss = sums.mean_loss(), .bpb = {}};
  if (bytes_) score.bpb = sums.loss / std::numbers::ln2 / sums.bytes;
  return score;
}

}  // namespace tg
