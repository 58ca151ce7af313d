#include "eval/ttt/scoring_slot.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/StreamGuard.h>

#include <cassert>

#include "device/event.h"

namespace tg {

ScoringSlot::ScoringSlot(const Gpt& model, DocumentScorer& scorer, const PhasedTttConfig& config,
                         std::int64_t seed, at::Device device, bool own_stream)
    : model_(model),
      scorer_(scorer),
      config_(config),
      device_(device),
      generator_(at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(seed))),
      full_(model, config, config.ttt_batch_size, generator_),
      batch_sums_(device),
      sums_(device) {
  if (own_stream && device.is_cuda()) stream_ = stream_from_pool(device);
}

void ScoringSlot::follow_current_stream() {
  if (stream_) order_streams(compute_stream(device_), *stream_);
}

void ScoringSlot::begin(const DocumentBatch& batch) {
  assert(!is_scoring());
  {
    const c10::OptionalStreamGuard on_stream(stream_);
    const auto rows = std::ssize(batch.documents);
    const bool full = rows == config_.ttt_batch_size;
    if (keeps_state_) {
      before_ = {.generator = generator_.get_state(), .a = {}, .inputs = inputs_};
      if (full && config_.ttt_warm_start_a) before_.a = full_.adapters().all_a().clone();
    }
    if (full)
      full_.restart(generator_);
    else
      incomplete_.emplace(model_, config_, rows, generator_);
    batch_ = &batch;
    batch_sums_ = ScoreSums(device_);
    chunk_ = 0;
    chunks_ = chunks_of_document(batch.longest() - 1, scorer_.chunks());
    assert(chunks_ > 0);
  }
  if (stream_)
    order_streams(*stream_,
                  compute_stream(device_));  // saving, on the current stream, reads the copy of A
}

void ScoringSlot::score_next_chunk() {
  assert(is_scoring());
  {
    const c10::OptionalStreamGuard on_stream(stream_);
    scorer_.score_chunk(*batch_, chunk_, set(), batch_sums_);
    inputs_ += row_length(chunk_, scorer_.chunks());
    if (++chunk_ == chunks_) {
      scorer_.add_bytes(*batch_, batch_sums_);
      sums_.add(batch_sums_);
      incomplete_.reset();
    }
  }
  if (stream_) order_streams(*stream_, compute_stream(device_));
}

ScoreSums ScoringSlot::batch_sums_on_host() const {
  const c10::OptionalStreamGuard on_stream(stream_);
  return batch_sums_.on_host();
}

void ScoringSlot::restart() {
  full_.redraw(generator_);
  inputs_ = 0;
}

NamedTensors ScoringSlot::state() const {
  assert(keeps_state_ || !is_scoring());
  const auto now = is_scoring() ? before_ : Before{generator_.get_state(), {}, inputs_};
  NamedTensors state{{"generator", now.generator.to(at::kDouble)},
                     {"sums", sums_.values()},
                     {"inputs", at::full({}, static_cast<double>(now.inputs), at::kDouble)}};
  if (config_.ttt_warm_start_a)
    state.emplace_back("adapters.A", now.a.defined() ? now.a : full_.adapters().all_a());
  return state;
}

void ScoringSlot::resume(const at::Tensor& generator, const at::Tensor& inputs) {
  generator_.set_state(generator.to(at::kByte));
  inputs_ = static_cast<std::int64_t>(inputs.item<double>());
}

}  // namespace tg
