#include "train/trace.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "device/gpu.h"
#include "files/atomic_file.h"

namespace tg {

namespace {

namespace profiler = torch::autograd::profiler;

// Kineto can only write to a file.
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
  if (device_.is_cuda()) wait_for_gpu();
  if (running_) return stop();
  start();
  return {};
}

void Trace::start() {
  using torch::profiler::impl::ActivityType;
  std::set<ActivityType> activities{ActivityType::CPU};
  if (device_.is_cuda()) activities.insert(ActivityType::CUDA);
  const profiler::ProfilerConfig config(profiler::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(
      config, activities,
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  spans_.start();
  running_ = true;
}

TraceWritten Trace::stop() {
  running_ = false;
  // Stops logging first, since Kineto may throw below and nothing reads later spans.
  const auto spans = spans_.stop();
  try {
    auto trace = take_kineto_trace(path_ + ".kineto");
    merge_spans(trace, spans, ::getpid());
    write_file_atomically(path_, trace.dump());
  } catch (const Error& error) {
    return {path_, error.what()};
  }
  return {path_, ""};
}

namespace {

using Json = nlohmann::json;

// A point on a track; the viewer attaches an arrow to the slice around it.
struct Anchor {
  Json process, thread;
  double at_us;
};

// Host-to-GPU copies by launch time.
class Copies {
 public:
  explicit Copies(const Json& events) {
    for (const auto& event : events) {
      const std::string category = event.value("cat", "");
      if (category != "cuda_runtime" && category != "gpu_memcpy") continue;
      const auto correlation = event.value("/args/correlation"_json_pointer, std::int64_t{-1});
      if (category == "gpu_memcpy") {
        done_.emplace(correlation, Anchor{event["pid"], event["tid"], event["ts"]});
      } else if (event.value("name", "").starts_with("cudaMemcpyAsync")) {
        launched_.emplace(event["ts"], correlation);
      }
    }
  }

  std::optional<Anchor> launched_within(double begin_us, double end_us) const {
    const auto launch = launched_.lower_bound(begin_us);
    if (launch == launched_.end() || launch->first > end_us) return {};
    const auto copy = done_.find(launch->second);
    if (copy == done_.end()) return {};
    return copy->second;
  }

 private:
  std::map<double, std::int64_t> launched_;
  std::map<std::int64_t, Anchor> done_;
};

// The spans of one batch; some may be missing at either end of a trace.
struct BatchSpans {
  const Span *read = nullptr, *copy = nullptr, *forward = nullptr;
};

Json arrow_part(const char* phase, std::int64_t batch, const Anchor& anchor) {
  Json part{{"ph", phase},           {"cat", "batch"},       {"name", "batch"},   {"id", batch},
            {"pid", anchor.process}, {"tid", anchor.thread}, {"ts", anchor.at_us}};
  if (*phase == 'f') part["bp"] = "e";  // binds to the enclosing slice, not to the next one
  return part;
}

}  // namespace

void merge_spans(Json& trace, const std::vector<Span>& spans, std::int64_t process) {
  auto& events = trace["traceEvents"];
  const auto base_ns = trace.value("baseTimeNanoseconds", std::int64_t{0});
  const auto us = [&](std::int64_t ns) { return static_cast<double>(ns - base_ns) / 1000; };
  const Copies copies(events);

  std::map<std::int64_t, BatchSpans> batches;
  std::map<std::int64_t, std::size_t> readers;  // thread → index
  for (const Span& span : spans) {
    const std::string_view name = span.name;
    auto& batch_spans = batches[span.batch];
    if (name == "copy") batch_spans.copy = &span;
    if (name == "forward") batch_spans.forward = &span;
    if (name != "read") continue;
    batch_spans.read = &span;
    readers.emplace(span.thread, readers.size());
    events.push_back({{"ph", "X"},
                      {"cat", "prefetch"},
                      {"name", "read"},
                      {"pid", process},
                      {"tid", span.thread},
                      {"ts", us(span.begin_ns)},
                      {"dur", us(span.end_ns) - us(span.begin_ns)},
                      {"args", {{"batch", span.batch}}}});
  }
  for (const auto& [thread, number] : readers) {
    const bool own = std::none_of(spans.begin(), spans.end(), [&, t = thread](const Span& span) {
      return span.thread == t && std::string_view(span.name) == "forward";
    });
    if (!own) continue;  // without prefetch, the training thread reads
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", process},
                      {"tid", thread},
                      {"args", {{"name", "prefetch worker " + std::to_string(number)}}}});
  }

  for (const auto& [batch, batch_spans] : batches) {
    if (batch < 0 || batch_spans.read == nullptr || batch_spans.forward == nullptr) continue;
    const auto anchor = [&](const Span& span) {
      return Anchor{process, span.thread, (us(span.begin_ns) + us(span.end_ns)) / 2};
    };
    events.push_back(arrow_part("s", batch, anchor(*batch_spans.read)));
    if (batch_spans.copy != nullptr) {
      const auto on_gpu =
          copies.launched_within(us(batch_spans.copy->begin_ns), us(batch_spans.copy->end_ns));
      events.push_back(arrow_part("t", batch, on_gpu.value_or(anchor(*batch_spans.copy))));
    }
    events.push_back(arrow_part("f", batch, anchor(*batch_spans.forward)));
  }
}

}  // namespace tg
