#include "eval/scores/window_scorer.h"

#include <algorithm>
#include <deque>

#include "device/fit_rows.h"
#include "eval/scores/eta.h"

namespace tg {
namespace {

// Enough rows to fill a large GPU; on a CPU, activations of more rows would exceed its caches.
std::int64_t rows_at_once(std::int64_t length, at::Device device) {
  const std::int64_t tokens = device.is_cuda() ? 131072 : 16384;
  return std::max<std::int64_t>(1, tokens / length);
}

// Keeps the host at most a few batches ahead of the device, so that progress is known.
class RunAhead {
 public:
  explicit RunAhead(at::Device device) : device_(device) {}
  void launched() {
    if (device_.is_cpu()) return;
    constexpr std::size_t kBatches = 4;
    events_.emplace_back(device_.type(), c10::EventFlag::PYTORCH_DEFAULT);
    events_.back().record(compute_stream(device_));
    if (events_.size() <= kBatches) return;
    events_.front().synchronize();
    events_.pop_front();
  }

 private:
  at::Device device_;
  std::deque<c10::Event> events_;
};

}  // namespace

std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt) {
  if (!tokens.has_documents()) return {};
  const auto rows = ids_bt.size(0), length = ids_bt.size(1);
  const auto offsets = at::arange(rows + 1, ids_bt.options().dtype(at::kInt)) * length;
  return documents_at(offsets, rows, length, length);
}

bool hold_segments(const at::Tensor& segments, DeviceBatch& batch) {
  if (!segments.defined()) return false;
  const auto inputs = batch.inputs.numel(), count = segments.numel() - 1;
  const auto before = batch.segments.defined() ? batch.segments.numel() - 1 : 0;
  if (count > before) {
    const auto capacity =
        std::max(usual_segments(inputs, batch.inputs.size(1), {}), more_segments(count));
    batch.segments = at::empty({capacity + 1}, segments.options());
  }
  batch.segments.narrow(0, 0, count + 1).copy_(segments);
  batch.segments.slice(0, count + 1).fill_(inputs);
  return count > before;
}

WindowScorer::WindowScorer(const Gpt& model, const SplitTokens& tokens, std::int64_t length,
                           std::int64_t stride, at::Device device, EvalMode mode,
                           Communicator& communicator)
    : model_(model),
      tokens_(tokens),
      length_(length),
      stride_(stride),
      device_(device),
      most_rows_(mode.measure_memory ? fitting_rows(rows_at_once(length, device))
                                     : rows_at_once(length, device)),
      communicator_(communicator),
      batch_{.inputs = at::zeros({most_rows_, length}, at::TensorOptions(device).dtype(at::kLong)),
             .targets = at::zeros({most_rows_, stride}, at::TensorOptions(device).dtype(at::kLong)),
             .longest_segment = length},
      pass_("the sliding window", {[this] {
              losses_ =
                  model_.token_losses(batch_.inputs, batch_.targets,
                                      Positions{length_ - stride_, length_}, documents_of(batch_));
            }},
            device, mode.graphs) {}

std::int64_t WindowScorer::fitting_rows(std::int64_t wanted) const {
  return fit_rows(halves(wanted), kSpareBytes, device_,
                  [this](std::int64_t rows) {
                    const auto ids =
                        at::zeros({rows, length_}, at::TensorOptions(device_).dtype(at::kLong));
                    model_.token_losses(ids, ids.narrow(1, 0, stride_),
                                        Positions{length_ - stride_, length_},
                                        whole_rows(tokens_, ids));
                  })
      .rows;
}

at::Tensor WindowScorer::token_losses(const WindowBatch& batch) {
  const auto& [first, rows] = batch;
  const auto count = first.to - first.from;
  const DeviceBatch own{.inputs = tokens_.inputs(first.begin, rows, length_, stride_),
                        .targets = tokens_.targets(first.begin + first.from, rows, count, stride_),
                        .segments = tokens_.segments(first.begin, rows, length_, stride_),
                        .longest_segment = length_};
  const bool usual = rows == most_rows_ && first.from == length_ - stride_ && first.to == length_;
  if (!usual || !pass_.uses_graphs()) {
    std::optional<Positions> only;
    if (count < length_) only = {first.from, first.to};
    return model_.token_losses(own.inputs.to(at::kLong), own.targets.to(at::kLong), only,
                               documents_of(own));
  }
  batch_.inputs.copy_(own.inputs);
  batch_.targets.copy_(own.targets);
  if (hold_segments(own.segments, batch_)) {
    losses_ = at::Tensor();  // may be in the graph's memory pool
    pass_.invalidate();
  }
  pass_.run(0);
  return losses_;
}

void WindowScorer::add(const WindowBatch& batch, ScoreSums& sums) {
  const auto& [first, rows] = batch;
  const auto begin = first.begin + first.from, count = first.to - first.from;
  const auto losses = token_losses(batch);
  sums.add(losses);
  if (saved_.defined()) saved_.as_strided({rows, count}, {stride_, 1}, begin).copy_(losses);
  if (tokens_.has_bytes()) sums.add_bytes(tokens_.target_bytes(begin, rows, count, stride_).sum());
}

void WindowScorer::score(std::span<const Window> windows, ScoreSums& sums,
                         const OnBatch& on_batch) {
  const at::NoGradGuard no_grad;
  const auto batches = batch_windows(windows, stride_, most_rows_);
  RunAhead run_ahead(device_);
  std::int64_t done = 0;
  for (const auto& batch : batches) {
    add(batch, sums);
    run_ahead.launched();
    communicator_.progress();
    if (on_batch) on_batch(++done, std::ssize(batches));
  }
}

Score sliding_window_score(Gpt& model, const SplitTokens& tokens, const WindowOptions& options,
                           at::Device device, EvalMode mode, Communicator& communicator,
                           const at::Tensor& nll) {
  model.set_fake_quant(false);
  model.cast_weights();
  const auto windows = sliding_windows(tokens.predictions(), options);
  const auto own = rank_range(windows, communicator.rank(), communicator.world_size());
  ScoreSums sums(device);
  WindowScorer scorer(model, tokens, options.length, options.stride, device, mode, communicator);
  scorer.save_token_losses(nll);
  const EtaLine eta("sliding window");
  scorer.score(own, sums, std::cref(eta));
  return sums.score_of_all_ranks(communicator);
}

}  // namespace tg
