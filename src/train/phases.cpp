#include "train/phases.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>

#include "device/gpu.h"

namespace tg {

namespace {

constexpr std::array<const char*, phase_count> phase_names = {"batch",  "forward",   "backward",
                                                              "reduce", "grad_clip", "optimizer"};

const char* name_of(Phase phase) {
  return phase_names[static_cast<std::size_t>(phase)];
}

c10::Stream host_clock() {
  return c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCPU));
}

}  // namespace

StepTimes StepRecord::times() const {
  std::array<double, phase_count> phases{};
  const auto spent = [&](Phase phase) -> double& {
    return phases[static_cast<std::size_t>(phase)];
  };
  for (const auto& interval : intervals) {
    spent(interval.phase) += interval.began.ms_until(interval.ended);
  }
  double comm = 0;
  for (const auto& [phase, wait] : waits) {
    const double waited = wait.first.ms_until(wait.second);
    spent(phase) -= waited;
    comm += waited;
  }
  StepTimes times{
      .batch_cpu = batch_cpu,
      .batch_h2d = 0,
      .data_wait = spent(Phase::batch),
      .forward = spent(Phase::forward),
      .backward = spent(Phase::backward),
      .reduce = spent(Phase::reduce),
      .grad_clip = spent(Phase::grad_clip),
      .optimizer = spent(Phase::optimizer),
      .comm = comm,
      .host = host,
      .explicit_sync = explicit_sync,
      .step = intervals.empty() ? 0 : intervals.front().began.ms_until(intervals.back().ended)};
  for (const auto& [began, ended] : copies) times.batch_h2d += began.ms_until(ended);
  return times;
}

PhaseRecorder::PhaseRecorder(TimingBreakdown mode, bool nvtx, at::Device device, SpanLog* spans,
                             std::function<void()> wait_for_device)
    : mode_(mode),
      nvtx_(nvtx),
      device_(device),
      spans_(spans),
      wait_for_device_(std::move(wait_for_device)) {
  if (!wait_for_device_ && device.is_cuda()) wait_for_device_ = wait_for_gpu;
}

PhaseRecorder::Scope::Scope(PhaseRecorder& recorder, Phase phase, std::int64_t batch)
    : recorder_(recorder),
      phase_(phase),
      span_(recorder.spans_, name_of(phase), batch),
      range_(at::RecordScope::USER_SCOPE) {
  recorder_.throw_failure();
  if (range_.isActive()) range_.before(name_of(phase));
  if (recorder_.nvtx_) begin_gpu_range(name_of(phase));
  if (recorder_.mode_ == TimingBreakdown::off) return;
  const Event before(host_clock());
  recorder_.wait_for_device();
  if (recorder_.mode_ == TimingBreakdown::sync) {
    recorder_.record_.explicit_sync += before.ms_until(Event(host_clock()));
  }
  began_.emplace(recorder_.timeline());
}

PhaseRecorder::Scope::~Scope() {
  try {
    if (began_) {
      recorder_.wait_for_device();
      recorder_.record_.intervals.push_back(
          {phase_, std::move(*began_), Event(recorder_.timeline())});
    }
  } catch (...) {
    recorder_.failure_ = std::current_exception();
  }
  if (recorder_.nvtx_) end_gpu_range();
}

void PhaseRecorder::begin_step(BatchFeed& feed) {
  if (mode_ == TimingBreakdown::off) return;
  record_ = {};
  feed.time_copies(true);
  feed.take_copy_times();  // discards the copies of the warm-up
  waited_before_ = feed.waited_ms();
  host_began_.emplace(host_clock());
}

void PhaseRecorder::add_waits(Phase phase, std::vector<Communicator::CollectiveWait> waits) {
  for (auto& wait : waits) record_.waits.emplace_back(phase, std::move(wait));
}

std::optional<StepRecord> PhaseRecorder::end_step(BatchFeed& feed) {
  throw_failure();
  if (mode_ == TimingBreakdown::off) return {};
  record_.copies = feed.take_copy_times();
  record_.batch_cpu = feed.waited_ms() - waited_before_;
  record_.host = host_began_->ms_until(Event(host_clock())) - record_.batch_cpu;
  return std::move(record_);
}

c10::Stream PhaseRecorder::timeline() const {
  if (mode_ == TimingBreakdown::sync || device_.is_cpu()) return host_clock();
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

void PhaseRecorder::wait_for_device() const {
  if (mode_ == TimingBreakdown::sync && wait_for_device_) wait_for_device_();
}

}  // namespace tg
