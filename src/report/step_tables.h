#pragma once
// The tables of a run that grow with its steps.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "report/table.h"

namespace tg {

class StepTables {
 public:
  // Takes from the event `start` the defaults of fields that the steps' events may lack.
  void set_defaults(const nlohmann::json& start);
  // Adds the timing of the next `train` event.
  void add_timing(const nlohmann::json& event) { timing_ = event; }
  // Errors: bad_data, beginning with `place` (a step that is not above the one before).
  void add_train(const nlohmann::json& event, const std::string& place);
  void add_val(const nlohmann::json& event);

  // The tables "train", "phases" and "val" as read_run() describes them, and of each of the events
  // run["marks"] its "ms" and "tokens".
  void write_to(nlohmann::json& run) const;

 private:
  // Exponential mean over some 20 steps, in which the first ones have no more weight than others.
  class SmoothLoss {
   public:
    double add(double loss);  // → the mean so far; NaN where there was no number yet

   private:
    double sum_ = 0, weight_ = 0;
  };

  // More than a picture has pixels.
  static constexpr std::size_t kParts = 1000;

  double tokens_per_step_ = 0, flops_per_token_ = 0;
  std::int64_t last_step_ = 0;
  double last_ms_ = 0, last_tokens_ = 0;  // at the end of that step
  SmoothLoss smooth_loss_;
  std::optional<nlohmann::json> timing_;
  ThinnedTable train_ = {{{"step"},
                          {"ms"},
                          {"tokens"},
                          {"loss", true},
                          {"lr_scale", true},
                          {"grad_norm", true},
                          {"tokens_per_s", true},
                          {"flops_per_s", true},
                          {"data_wait_ms", true},
                          {"smooth_loss", true}},
                         kParts};
  AveragedTable phases_ = {{"step", "ms", "tokens", "data_wait", "forward", "backward", "grad_clip",
                            "optimizer", "other", "comm"},
                           kParts};
  // "ms" and "tokens" are filled in by write_to().
  ThinnedTable val_ = {
      {{"step"}, {"ms"}, {"tokens"}, {"val_loss", true}, {"val_bpb", true}, {"val_ms"}}, kParts};
};

}  // namespace tg
