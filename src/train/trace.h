#pragma once
// A trace of some steps for Perfetto: LibTorch's operations and the GPU's work from Kineto, the
// prefetch workers, and arrows from a batch's read over its copy to its forward pass.
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
  // Traces PROFILE_STEPS steps from PROFILE_START on. Throws ExitCode::cannot_create if no file can
  // be written at `path`.
  Trace(std::string path, const RuntimeConfig& config, at::Device device, SpanLog& spans);

  // Returns whether the trace begins or ends before step `step` (from 0); `last`: the run ends
  // there.
  bool changes_at(std::int64_t step, bool last) const;
  // Begins the trace, or ends it and writes the file. Waits for the device. If the file cannot be
  // written, the result says so, and nothing is thrown.
  std::optional<TraceWritten> change();

 private:
  void start();
  TraceWritten stop();

  std::string path_;
  std::int64_t first_step_, steps_;
  at::Device device_;
  SpanLog& spans_;
  bool running_ = false;
};

// Adds this program's spans to a Kineto trace (Chrome's trace format, times in µs since its
// baseTimeNanoseconds): each "read" span as a slice on its thread's track, and for each batch an
// arrow from its "read" over its copy to its "forward" span. The copy is the GPU's if the trace has
// one that was launched within the batch's "copy" span, else that span.
void merge_spans(nlohmann::json& trace, const std::vector<Span>& spans, std::int64_t process);

}  // namespace tg
