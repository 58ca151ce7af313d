#pragma once
// Writes the objects of metrics.jsonl as TensorBoard scalars: the field train_loss of the event
// `train` has the tag train/loss, val_bpb of `val` val/bpb, forward_ms of `timing`
// timing/forward_ms.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "config/settings.h"
#include "run_log/event_file.h"

namespace tg {

class TensorboardSink {
 public:
  // Creates the folder if it is missing, adds a file and writes the settings as text.
  // `continues_at`: the step after which the run resumes. Throws Error(cannot_create).
  TensorboardSink(const std::string& folder, const Settings& settings,
                  std::optional<std::int64_t> continues_at);

  // Writes the numbers of an object of metrics.jsonl; beside `train` also the learning rates,
  // tokens per second and MFU.
  void write(const nlohmann::json& event);
  // Follows a rename of the folder.
  void renamed(const std::string& folder) { file_.renamed(folder); }

 private:
  void add_derived(const nlohmann::json& train, EventFile::Scalars& scalars);

  const Settings settings_;
  EventFile file_;
  std::int64_t step_ = 0;          // the last step; step of the events at the end
  double peak_flops_ = 0;          // FLOP/s of all ranks' GPUs; 0: unknown
  std::optional<double> last_ms_;  // training time at the end of the previous step
  double last_tokens_ = 0;         // tokens until then
};

// Removes the events after step `step`, which will be trained again, from a run's folder of events.
// Throws Error(io).
void cut_tensorboard(const std::string& folder, std::int64_t step);

}  // namespace tg
