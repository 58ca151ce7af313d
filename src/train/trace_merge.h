#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "base/span_log.h"

namespace tg {

// Adds to a trace of Kineto (Chrome's trace format, times in µs since its baseTimeNanoseconds) what
// our own threads did: each "read" span as a slice on its thread's track, and for every batch an
// arrow from its "read" over its copy to its "forward" span. The copy is the GPU's where the trace
// has one that was launched within the batch's "copy" span, else that span itself.
void merge_spans(nlohmann::json& trace, const std::vector<Span>& spans, std::int64_t process);

}  // namespace tg
