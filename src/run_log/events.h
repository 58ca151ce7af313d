#pragma once
// Events of a run, as plain structs with a schema. LogSink renders an event as a log line,
// MetricsSink as an object of metrics.jsonl. A new event compiles only with a LogSink overload and
// a schema; MetricsSink, the reader and docs/metrics.md follow from the schema.
#include <concepts>
#include <cstddef>
#include <utility>
#include <variant>

#include "run_log/end_events.h"
#include "run_log/event_schema.h"
#include "run_log/score_events.h"
#include "run_log/start_events.h"
#include "run_log/step_events.h"
#include "run_log/warning_events.h"

namespace tg {

template <EventType... Events>
using OneEvent = std::variant<Events...>;
using RunEvent =
    OneEvent<RanksJoined, RunStarted, SizePadded, MicroBatchCut, StageWarmUpBegan, WarmUpStepEnded,
             Resumed, FirstStepEnded, StepEnded, StepTimed, StepSkipped, CheckpointSaved,
             BatchesChanged, LateQatStarted, StageStarted, SwaStarted, SettingWarning,
             TokensStalled, TokensRepeated, CheckpointFailed, Validated, ValidationProgressed,
             ValidationSummary, TraceWritten, StoppedEarly, LoopEnded, MemoryMeasured,
             AverageApplied, FinalScored, ModelWritten, HessiansCollected, WeightsQuantized,
             ArtifactWritten, RunEnded>;

// Calls f with each object that the event writes to metrics.jsonl: two for RunStarted, else one.
template <EventType E, class F>
void for_each_object(const E& event, F&& f) {
  if constexpr (std::same_as<E, RunStarted>) f(event.data());
  f(event);
}

// Calls f with a default-constructed event of every kind in metrics.jsonl.
void for_each_event(auto&& f) {
  const auto each = [&]<std::size_t... i>(std::index_sequence<i...>) {
    (for_each_object(std::variant_alternative_t<i, RunEvent>{}, f), ...);
  };
  each(std::make_index_sequence<std::variant_size_v<RunEvent>>{});
}

}  // namespace tg
