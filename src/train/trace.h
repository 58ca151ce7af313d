#pragma once
// A trace of some steps for Perfetto: LibTorch's own operations and the GPU's work from Kineto, the
// prefetch workers beside them, and arrows from a batch's read over its copy to its forward pass.
#include <ATen/ATen.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/span_log.h"
#include "config/runtime_config.h"
#include "run_log/events.h"

namespace tg {

class Trace {
 public:
  // Traces PROFILE_STEPS steps from PROFILE_START on. Throws Error(cannot_create) if there can be
  // no file at `path`.
  Trace(std::string path, const RuntimeConfig& config, at::Device device, SpanLog& spans);

  // Whether the trace begins or ends before step `step` (from 0); `last`: the run ends there.
  bool changes_at(std::int64_t step, bool last) const;
  // Begins the trace, or ends it and writes the file. Waits for the device. A file that cannot be
  // written is no error of the run.
  std::optional<TraceWritten> change();

 private:
  void start();
  TraceWritten stop();
  void write(const std::vector<Span>& spans) const;

  std::string path_;
  std::int64_t first_step_, steps_;
  at::Device device_;
  SpanLog& spans_;
  bool running_ = false;
};

// Adds to a trace of Kineto (Chrome's trace format, times in µs since its baseTimeNanoseconds) what
// our own threads did: each "read" span as a slice on its thread's track, and for every batch an
// arrow from its "read" over its copy to its "forward" span. The copy is the GPU's where the trace
// has one that was launched within the batch's "copy" span, else that span itself.
void merge_spans(nlohmann::json& trace, const std::vector<Span>& spans, std::int64_t process);

}  // namespace tg
