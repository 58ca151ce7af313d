#pragma once
// Events of scores on the validation split.
#include <cstdint>
#include <optional>
#include <string>

#include "run_log/event_schema.h"

namespace tg {

struct Validated {
  static constexpr EventName kEvent{"val", "every validation"};

  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> bpb;
  double elapsed_ms = 0;  // training time
  double val_ms = 0;      // spent on this validation
  std::optional<double> unmasked_loss{};

  void visit(auto&& v) const {
    v("step", step, required(Unit::steps), "");
    v("val_loss", loss, required(Unit::nats), "mean of a token");
    v("val_loss_unmasked", unmasked_loss, Unit::nats,
      "without the mask of VALIDATION_MASK; absent without it");
    v("val_bpb", bpb, Unit::bits_per_byte, "absent without tokenizer and sidecar");
    v("val_time_ms", val_ms, Unit::ms, "that it took");
  }
};

struct ValidationProgressed {
  static constexpr EventName kEvent{"val_progress", "every VAL_PROGRESS_LOG_EVERY batches"};

  std::int64_t batch = 0, batches = 0;  // batch from 1
  double mean_loss = 0, predictions = 0;

  void visit(auto&& v) const {
    v("batch", batch, Unit::none, "of rank 0, from 1");
    v("batches", batches, Unit::none, "of rank 0");
    v("partial_mean_loss", mean_loss, Unit::nats, "of rank 0 so far");
    v("tokens_seen", predictions, Unit::tokens, "of rank 0 so far");
  }
};

struct ValidationSummary {
  static constexpr EventName kEvent{"val_summary", "end"};

  std::int64_t best_step = 0, last_step = 0;
  double best_loss = 0, last_loss = 0;

  void visit(auto&& v) const {
    v("best_val_loss", best_loss, Unit::nats, "");
    v("best_step", best_step, Unit::steps, "its step");
    v("last_val_loss", last_loss, Unit::nats, "");
    v("last_step", last_step, Unit::steps, "its step");
  }
};

struct FinalScored {
  static constexpr EventName kEvent{"final", "a score of the final weights"};

  std::string line_name;  // name in the log: "DIAGNOSTIC post_ema"
  std::string name;       // name in the metrics: "DIAGNOSTIC_post_ema"
  double loss = 0;
  std::optional<double> unmasked_loss{};
  std::optional<double> bpb{};
  double eval_ms = 0;
  std::int64_t stride = 0;  // stride of sliding windows; 0: none
  int digits = 4;           // decimals of the score in the log
  bool exact_line = false;  // a second line repeats the score in eight digits, under `name`

  void visit(auto&& v) const {
    v("name", name, required(), "of the score, as in log.txt");
    v("val_loss", loss, required(Unit::nats), "mean of a token");
    v("val_loss_unmasked", unmasked_loss, Unit::nats,
      "without the mask of VALIDATION_MASK; absent without it");
    v("val_bpb", bpb, Unit::bits_per_byte, "absent without tokenizer and sidecar");
    v("eval_time_ms", eval_ms, Unit::ms, "that it took");
    v("stride", if_any(stride), Unit::tokens, "of sliding windows; else absent");
  }
};

}  // namespace tg
