#pragma once
// Warnings; `kind` distinguishes them in metrics.jsonl.
#include <cstdint>
#include <string>
#include <string_view>

#include "run_log/event_schema.h"

namespace tg {

struct SettingWarning {
  static constexpr EventName kEvent{"warning", "a setting has no effect, or another"};

  std::string text;

  void visit(auto&& v) const {
    v("kind", std::string_view("settings"), required(), "settings");
    v("text", text, Unit::none, "");
  }
};

struct TokensStalled {
  static constexpr EventName kEvent{"warning", "training waited for tokens"};

  std::int64_t first_step = 0, last_step = 0;
  double waited_ms = 0, elapsed_ms = 0;

  void visit(auto&& v) const {
    v("kind", std::string_view("stall"), required(), "stall");
    v("first_step", first_step, Unit::steps, "in which it waited");
    v("step", last_step, Unit::steps, "the last one");
    v("data_wait_ms", waited_ms, Unit::ms, "that it waited");
    v("elapsed_ms", elapsed_ms, Unit::ms, "of these steps");
  }
};

// A pass over the training tokens began from which on repetition may harm.
struct TokensRepeated {
  static constexpr EventName kEvent{"warning", "the fifth pass over the training tokens begins"};

  std::int64_t step = 0, pass = 0;

  void visit(auto&& v) const {
    v("kind", std::string_view("repetition"), required(), "repetition");
    v("step", step, Unit::steps, "");
    v("pass", pass, Unit::none, "from 1");
  }
};

struct CheckpointFailed {
  static constexpr EventName kEvent{"warning", "a checkpoint failed; training goes on"};

  std::int64_t step = 0;
  std::string error;

  void visit(auto&& v) const {
    v("kind", std::string_view("checkpoint"), required(), "checkpoint");
    v("step", step, Unit::steps, "");
    v("text", error, Unit::none, "why there is none");
  }
};

}  // namespace tg
