#include "train/trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "device/gpu.h"
#include "files/atomic_file.h"
#include "train/trace_merge.h"

namespace tg {

namespace {

namespace profiler = torch::autograd::profiler;

// Kineto can write to a file only.
nlohmann::json take_kineto_trace(const std::string& scratch) {
  profiler::disableProfiler()->save(scratch);
  std::ifstream file(scratch);
  auto trace = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::filesystem::remove(scratch);
  REQUIRE(trace.is_object() && trace.contains("traceEvents"), ExitCode::io,
          "{}: the profiler's own file could not be written or read back", scratch);
  return trace;
}

}  // namespace

Trace::Trace(std::string path, const RuntimeConfig& config, at::Device device, SpanLog& spans)
    : path_(std::move(path)),
      first_step_(config.profile_start),
      steps_(config.profile_steps),
      device_(device),
      spans_(spans) {
  REQUIRE(!std::filesystem::is_directory(path_), ExitCode::cannot_create,
          "{}: is a folder, expected a file that PROFILE=1 may write; choose another OUTPUT_DIR",
          path_);
  const AtomicFile probe(path_);
}

bool Trace::changes_at(std::int64_t step, bool last) const {
  if (running_) return last || step >= first_step_ + steps_;
  return step == first_step_ && !last;
}

std::optional<TraceWritten> Trace::change() {
  if (running_) return stop();
  start();
  return {};
}

void Trace::start() {
  using torch::profiler::impl::ActivityType;
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device_.is_cuda()) {
    wait_for_gpu();
    activities.insert(ActivityType::CUDA);
  }
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(
      config, activities,
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  spans_.start();
  running_ = true;
}

TraceWritten Trace::stop() {
  if (device_.is_cuda()) wait_for_gpu();
  running_ = false;
  // Before Kineto may fail below, since nothing reads spans logged after this.
  const auto spans = spans_.stop();
  try {
    write(spans);
  } catch (const Error& error) {
    return {path_, error.what()};
  }
  return {path_, ""};
}

void Trace::write(const std::vector<Span>& spans) const {
  auto trace = take_kineto_trace(path_ + ".kineto");
  merge_spans(trace, spans, ::getpid());
  write_file_atomically(path_, trace.dump());
}

}  // namespace tg
