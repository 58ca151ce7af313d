#pragma once
// Tables of a run with a row per step or validation.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "report/table.h"

namespace tg {

class StepTables {
 public:
  // Takes defaults of fields that older step events lack from the event `start`.
  void set_defaults(const nlohmann::json& start);
  // Keeps the event `timing` for the next `train` event.
  void add_timing(const nlohmann::json& event) { timing_ = event; }
  // Throws Error(bad_data), beginning with `place`, if the step does not exceed the previous one.
  void add_train(const nlohmann::json& event, const std::string& place);
  void add_val(const nlohmann::json& event);

  // Writes the tables "train", "phases" and "val" that read_run() describes, and the "ms" and
  // "tokens" of the events run["marks"].
  void write_to(nlohmann::json& run) const;

 private:
  // Exponential moving average over some 20 steps, bias-corrected.
  class SmoothLoss {
   public:
    double add(double loss);  // returns the average so far; NaN before the first number

   private:
    double sum_ = 0, weight_ = 0;
  };

  // Parts per table; more than a plot has pixels.
  static constexpr std::size_t kParts = 1000;

  double tokens_per_step_ = 0, flops_per_token_ = 0;
  std::int64_t last_step_ = 0;
  double last_ms_ = 0, last_tokens_ = 0;  // at the end of last_step_
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
