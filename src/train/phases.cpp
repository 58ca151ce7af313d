#include "train/phases.h"

#include "device/gpu.h"

namespace tg {

namespace {

struct PhaseRow {
  const char* name;
  double StepTimes::*time;
};
// By phase.
constexpr PhaseRow kPhases[] = {
    {"batch", &StepTimes::data_wait},     {"forward", &StepTimes::forward},
    {"backward", &StepTimes::backward},   {"reduce", &StepTimes::reduce},
    {"grad_clip", &StepTimes::grad_clip}, {"optimizer", &StepTimes::optimizer}};

const PhaseRow& row_of(Phase phase) {
  return kPhases[static_cast<std::size_t>(phase)];
}

}  // namespace

StepTimes StepRecord::times() const {
  auto times = on_host;
  for (const auto& [phase, began, ended] : intervals)
    times.*row_of(phase).time += began.ms_until(ended);
  for (const auto& [phase, wait] : waits) {
    const double waited = wait.first.ms_until(wait.second);
    times.*row_of(phase).time -= waited;
    times.comm += waited;
  }
  for (const auto& [began, ended] : copies) times.batch_h2d += began.ms_until(ended);
  if (!intervals.empty()) times.step = intervals.front().began.ms_until(intervals.back().ended);
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
      span_(recorder.spans_, row_of(phase).name, batch),
      range_(at::RecordScope::USER_SCOPE) {
  recorder_.throw_failure();
  if (range_.isActive()) range_.before(row_of(phase).name);
  if (recorder_.nvtx_) begin_gpu_range(row_of(phase).name);
  if (recorder_.mode_ == TimingBreakdown::off) return;
  const auto before = Clock::now();
  recorder_.wait_for_device();
  if (recorder_.mode_ == TimingBreakdown::sync)
    recorder_.record_.on_host.explicit_sync += milliseconds_since(before);
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
  host_began_ = Clock::now();
}

void PhaseRecorder::add_waits(Phase phase, std::vector<Communicator::CollectiveWait> waits) {
  for (auto& wait : waits) record_.waits.emplace_back(phase, std::move(wait));
}

std::optional<StepRecord> PhaseRecorder::end_step(BatchFeed& feed) {
  throw_failure();
  if (mode_ == TimingBreakdown::off) return {};
  record_.copies = feed.take_copy_times();
  record_.on_host.batch_cpu = feed.waited_ms() - waited_before_;
  record_.on_host.host = milliseconds_since(host_began_) - record_.on_host.batch_cpu;
  return std::move(record_);
}

c10::Stream PhaseRecorder::timeline() const {
  return compute_stream(mode_ == TimingBreakdown::sync ? at::Device(at::kCPU) : device_);
}

void PhaseRecorder::wait_for_device() const {
  if (mode_ == TimingBreakdown::sync && wait_for_device_) wait_for_device_();
}

}  // namespace tg
