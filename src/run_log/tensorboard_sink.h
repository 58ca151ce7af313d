#pragma once
// The objects of metrics.jsonl as TensorBoard's scalars: the field train_loss of the event `train`
// is the tag train/loss, val_bpb of `val` val/bpb, forward_ms of `timing` timing/forward_ms.
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "config/settings.h"
#include "run_log/event_file.h"

namespace tg {

class TensorboardSink {
 public:
  // Adds a file to the folder, which it creates, and writes the settings as text; a run goes on
  // behind step `continues_at`. Errors: cannot_create.
  TensorboardSink(const std::string& folder, const Settings& settings,
                  std::optional<std::int64_t> continues_at);

  // Writes the numbers of an object of metrics.jsonl; beside `train` also the learning rates,
  // tokens per second and MFU.
  void write(const nlohmann::json& event);
  // The folder was renamed.
  void renamed(const std::string& folder) { file_.renamed(folder); }

 private:
  void add_derived(const nlohmann::json& train, EventFile::Scalars& scalars);

  const Settings settings_;
  EventFile file_;
  std::int64_t step_ = 0;          // the last one; of what is measured at the end
  double peak_flops_ = 0;          // of all ranks' GPUs; 0: unknown
  std::optional<double> last_ms_;  // training time at the end of the step before
  double last_tokens_ = 0;         // and all tokens until then
};

// Removes from a run's folder of events what follows step `step`, which is trained again. Errors:
// io.
void cut_tensorboard(const std::string& folder, std::int64_t step);

}  // namespace tg
