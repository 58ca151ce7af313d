#pragma once
#include <cstdint>

#include "config/types/schedule.h"

namespace tg {

// A number, or "auto": the program finds out what suits the machine.
struct CountOrAuto {
  std::int64_t count = 0;  // 0 with `automatic`
  bool automatic = false;
};

// A number that may change during the run, or "auto": another setting decides.
struct CountScheduleOrAuto {
  CountSchedule schedule{};  // 0 with `automatic`
  bool automatic = false;
};

// A number, or "auto": another setting decides.
struct NumberOrAuto {
  double number = 0;  // 0 with `automatic`
  bool automatic = false;
};

// How often: a number of steps, or of minutes of training time. As text "100" or "5m".
struct Every {
  std::int64_t count = 0;  // 0: never
  bool minutes = false;
};

}  // namespace tg
