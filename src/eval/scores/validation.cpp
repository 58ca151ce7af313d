#include "eval/scores/validation.h"

#include <algorithm>

#include "config/derived.h"
#include "config/mode.h"
#include "data/prefetch.h"
#include "device/fit_rows.h"
#include "model/micro_step.h"

namespace tg {
namespace {

std::int64_t count_predictions(const Settings& settings, const TokenSource& tokens) {
  const auto& run = settings.run;
  if (settings.data.loader_order == LoaderOrder::strided) return run.val_tokens;
  return trimmed_predictions(tokens, validation_length(settings), run.eval_seq_len, run.val_tokens);
}

}  // namespace

BatchLoss::BatchLoss(at::Device device, bool graphs, const at::Tensor& mask)
    : mask_(mask),
      pass_("validation", {[this] { losses_ = eager(*model_, batch_); }}, device, graphs) {}

BatchLoss::Losses BatchLoss::eager(const Gpt& model, const DeviceBatch& batch) const {
  const at::NoGradGuard no_grad;
  if (!masks()) return {model.loss(batch.inputs, batch.targets, {}, documents_of(batch))};
  const auto of_tokens = this->of_tokens(model, batch);
  return {of_tokens.loss.mean(), of_tokens.unmasked.mean()};
}

BatchLoss::Losses BatchLoss::of_tokens(const Gpt& model, const DeviceBatch& batch) const {
  const auto documents = documents_of(batch);
  if (!masks()) return {model.token_losses(batch.inputs, batch.targets, {}, documents)};
  const auto losses = model.masked_losses(batch.inputs, batch.targets, mask_, documents);
  return {losses.masked, losses.unmasked};
}

void BatchLoss::release_graph() {
  model_ = nullptr;
  losses_ = {};  // may be in the graph's memory pool
  pass_.invalidate();
}

void BatchLoss::hold(const DeviceBatch& batch) {
  const auto like = [](const at::Tensor& x) { return x.defined() ? at::empty_like(x) : x; };
  release_graph();
  batch_ = batch;
  for (auto* x : {&batch_.inputs, &batch_.targets, &batch_.segments}) *x = like(*x);
}

BatchLoss::Losses BatchLoss::operator()(const Gpt& model, const DeviceBatch& batch) {
  if (!pass_.uses_graphs()) return eager(model, batch);
  const auto more_segments = [&] {
    return batch.segments.defined() && batch.segments.numel() != batch_.segments.numel();
  };
  if (model_ != &model || stage_ != model.stage() || more_segments()) {
    hold(batch);
    model_ = &model;
    stage_ = model.stage();
  }
  if (batch.inputs.sizes() != batch_.inputs.sizes()) return eager(model, batch);
  const at::NoGradGuard no_grad;
  batch_.inputs.copy_(batch.inputs);
  batch_.targets.copy_(batch.targets);
  if (batch.segments.defined()) batch_.segments.copy_(batch.segments);
  pass_.run(0);
  return losses_;
}

Validation::Validation(const Settings& settings, std::shared_ptr<const TokenSource> tokens,
                       std::optional<TextBytes> bytes, int bos_id, at::Device device,
                       Communicator& communicator, const at::Tensor& mask)
    : settings_(settings),
      io_(effective_io(settings)),
      tokens_(std::move(tokens)),
      bytes_(std::move(bytes)),
      bos_id_(bos_id),
      device_(device),
      communicator_(communicator),
      batch_loss_(device, replays_evaluations(settings), mask),
      predictions_(count_predictions(settings, *tokens_)),
      unknown_tokens_(read_all()) {
  if (unknown_tokens_ > 0 && bytes_->table->unknown_hide_spaces) bytes_.reset();
  if (bytes_ && bytes_->by_pairs() && io_.val_bytecount_device == CountDevice::cuda)
    device_bytes_ = to_device(*bytes_->table, device);
}

// Returns the number of targets that are unknown pieces of 0 bytes, each position counted once.
std::int64_t Validation::read_all() const {
  const PeerWatch::Work reading(communicator_.watch(), "checking the validation tokens");
  std::vector<TokenId> tokens;
  std::int64_t unknown = 0;
  const auto read = [&](const TokenSpan& place) {
    tokens.resize(static_cast<std::size_t>(place.tokens));
    tokens_->read_at(place.begin, tokens);
    if (!bytes_) return;
    check_sidecar(*bytes_, place.begin, tokens);
    if (!bytes_->sidecar) unknown += count_unknown(*bytes_->table, std::span(tokens).subspan(1));
  };
  if (settings_.data.loader_order != LoaderOrder::strided) {
    constexpr std::int64_t chunk = 1 << 20;
    for (std::int64_t begin = 0; begin < predictions_; begin += chunk)
      read({begin, std::min(chunk, predictions_ - begin) + 1});
    return unknown;
  }
  const auto seq_len = settings_.run.train_seq_len.last();
  for (int rank = 0; rank < communicator_.world_size(); ++rank)
    for (const auto& place : plan(seq_len, batch_rows(seq_len), rank).places) read(place);
  return unknown;
}

// Sequences per batch according to the settings.
std::int64_t Validation::batch_rows(std::int64_t seq_len) const {
  const int world = communicator_.world_size();
  const auto tokens = settings_.data.loader_order != LoaderOrder::strided
                          ? settings_.run.val_batch_size / validation_parts(settings_, world)
                          : micro_batch_tokens(settings_, world);
  return std::max<std::int64_t>(1, tokens / seq_len);
}

std::int64_t Validation::fitting_rows(const Gpt& model, std::int64_t seq_len) {
  const auto wanted = batch_rows(seq_len);
  if (!measures_memory(settings_) || validates_segments_of_rows(settings_)) return wanted;
  auto& rows = fitting_rows_[seq_len];
  if (rows == 0) {
    rows = fit_rows(halves(wanted), kSpareBytes, device_, [&](std::int64_t at_once) {
             const auto ids =
                 at::zeros({at_once, seq_len}, at::TensorOptions(device_).dtype(at::kLong));
             batch_loss_.eager(model, {.inputs = ids, .targets = ids});
           }).rows;
  }
  return rows;
}

std::optional<std::int64_t> Validation::segments_bos() const {
  if (!mode::segments_attention(settings_)) return {};
  return bos_id_;
}

BatchLayout Validation::layout(std::int64_t seq_len) const {
  BatchLayout layout{.seq_len = validates_long_rows(settings_) ? 0 : seq_len,
                     .bytes = bytes_ && !device_bytes_ ? &*bytes_ : nullptr};
  if (const auto bos = segments_bos()) layout.segments = {.bos_id = *bos, .limit = seq_len};
  return layout;
}

ValidationPlan Validation::plan(std::int64_t seq_len, std::int64_t at_once, int rank) const {
  const auto& run = settings_.run;
  const int world = communicator_.world_size();
  if (validates_long_rows(settings_))
    return plan_rows(predictions_, seq_len, at_once, rank, world, settings_.runtime.record_quirks);
  if (settings_.data.loader_order != LoaderOrder::strided)
    return plan_stream(predictions_, seq_len, at_once, rank, world);
  return plan_strided(*tokens_, run.val_tokens / run.val_batch_size,
                      run.val_batch_size / world / seq_len, seq_len, at_once, rank, world);
}

Score Validation::score(Gpt& model, std::int64_t seq_len, const OnValidationProgress& on_progress,
                        const at::Tensor& nll) {
  const at::NoGradGuard no_grad;
  model.set_fake_quant(false);
  model.cast_weights();
  const auto plan = this->plan(seq_len, fitting_rows(model, seq_len), communicator_.rank());
  const bool host_counts = bytes_ && !device_bytes_;
  std::optional<PrefetchOptions> ahead;
  if (io_.val_prefetch) ahead = {.queue = static_cast<int>(io_.val_prefetch_queue), .workers = 1};
  Feeder feeder(make_source(std::make_unique<ListedOrder>(*tokens_, plan.places, plan.count),
                            layout(seq_len), ahead, batch_allocator(device_)),
                device_, io_.val_copy_stream);

  const auto batches = plan.count / plan.places_in_batch;
  const auto every = on_progress ? io_.val_progress_log_every : 0;
  ScoreSums sums(device_), unmasked(device_);
  const auto next = [&] {
    const PeerWatch::Work reading(communicator_.watch(), "reading tokens for validation");
    return feeder.next();
  };
  for (std::int64_t done = 1; done <= plan.count; ++done) {
    const auto batch = next();
    if (nll.defined()) {
      const auto of_tokens = batch_loss_.of_tokens(model, batch);
      const auto losses = of_tokens.loss.flatten();
      const auto begin = plan.places[static_cast<std::size_t>(done - 1) % plan.places.size()].begin;
      const auto known = std::clamp<std::int64_t>(nll.numel() - begin, 0, losses.numel());
      nll.slice(0, begin, begin + known).copy_(losses.narrow(0, 0, known));
      sums.add(losses);
      if (of_tokens.unmasked.defined()) unmasked.add(of_tokens.unmasked);
    } else {
      const auto mean = batch_loss_(model, batch);
      sums.add_mean(mean.loss, batch.targets.numel());
      if (mean.unmasked.defined()) unmasked.add_mean(mean.unmasked, batch.targets.numel());
    }
    if (host_counts) sums.add_bytes(batch.text_bytes);
    if (device_bytes_) sums.add_bytes(count_bytes(*device_bytes_, batch.inputs, batch.targets));
    communicator_.progress();
    const auto number = done / plan.places_in_batch;
    if (every > 0 && done % plan.places_in_batch == 0 &&
        (number % every == 0 || number == batches)) {
      on_progress({number, batches, sums.score().loss, sums.tokens()});
    }
  }
  auto score = sums.score_of_all_ranks(communicator_);
  if (batch_loss_.masks()) score.unmasked_loss = unmasked.score_of_all_ranks(communicator_).loss;
  return score;
}

}  // namespace tg
