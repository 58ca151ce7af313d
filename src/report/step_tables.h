#pragma once
// The tables of a run that grow with its steps.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/table.h"

namespace tg {

class StepTables {
 public:
  // The tokens that each of the following steps trains on.
  void set_tokens_per_step(double tokens) { tokens_per_step_ = tokens; }
  // Of the next `train` event.
  void add_timing(const nlohmann::json& event);
  // Errors: bad_data, beginning with `place` (a step that is not above the one before).
  void add_train(const nlohmann::json& event, const std::string& place);
  void add_val(const nlohmann::json& event);

  // Where the run was at the end of that step: {training time in ms, tokens}; {0, 0} before all.
  struct Position {
    double ms = 0, tokens = 0;
  };
  Position at(double step) const;

  // The tables "train", "phases" and "val" as read_run() describes them.
  void write_to(nlohmann::json& run) const;

 private:
  std::int64_t last_step() const;

  double tokens_per_step_ = 0;
  std::optional<nlohmann::json> timing_;
  Table train_ = {{{"step"},
                   {"ms"},
                   {"tokens"},
                   {"loss", true},
                   {"lr_scale", true},
                   {"grad_norm", true},
                   {"tokens_per_s", true},
                   {"data_wait_ms", true}}};
  Table phases_ = {{{"step"},
                    {"ms"},
                    {"tokens"},
                    {"data_wait"},
                    {"forward"},
                    {"backward"},
                    {"grad_clip"},
                    {"optimizer"},
                    {"other"},
                    {"comm"}}};
  Table val_ = {{{"step"}, {"ms"}, {"tokens"}, {"val_loss", true}, {"val_bpb", true}, {"val_ms"}}};
};

}  // namespace tg
