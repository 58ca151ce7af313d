#pragma once
// Events as objects of metrics.jsonl, one a line, numbers in full precision; docs/metrics.md lists
// them. A number that is not finite becomes null, so that every line stays JSON.
#include <functional>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "store/jsonl.h"
#include "train/events.h"

namespace tg {

class MetricsSink {
 public:
  // Creates the file. `also` gets every object that is written. Errors: cannot_create.
  explicit MetricsSink(const std::string& path,
                       std::function<void(const nlohmann::json&)> also = {})
      : file_(path), also_(std::move(also)) {}
  // The file was renamed.
  void renamed(std::string path) { file_.renamed(std::move(path)); }

  void operator()(const RanksJoined& event);
  void operator()(const RunStarted& event);
  void operator()(const SizePadded& event);
  void operator()(const MicroBatchCut& event);
  void operator()(const WarmUpStepEnded& event);
  void operator()(const FirstStepEnded& event);
  void operator()(const StepEnded& event);
  void operator()(const StepTimed& event);
  void operator()(const StepSkipped& event);
  void operator()(const Resumed& event);
  void operator()(const CheckpointSaved& event);
  void operator()(const CheckpointFailed& event);
  void operator()(const BatchesChanged& event);
  void operator()(const LateQatStarted& event);
  void operator()(const SwaStarted& event);
  void operator()(const SettingWarning& event);
  void operator()(const TokensStalled& event);
  void operator()(const TokensRepeated& event);
  void operator()(const Validated& event);
  void operator()(const ValidationProgress& event);
  void operator()(const ValidationSummary& event);
  void operator()(const TraceWritten& event);
  void operator()(const StoppedEarly& event);
  void operator()(const LoopEnded& event);
  void operator()(const MemoryMeasured& event);
  void operator()(const AverageApplied& event);
  void operator()(const FinalScored& event);
  void operator()(const ModelWritten& event);
  void operator()(const ArtifactWritten& event);
  // Any thread may call it; what other threads write afterwards is dropped.
  void operator()(const RunEnded& event);

 private:
  void write(const nlohmann::json& event);

  std::mutex mutex_;
  JsonLines file_;
  bool ended_ = false;
  std::function<void(const nlohmann::json&)> also_;
};

}  // namespace tg
