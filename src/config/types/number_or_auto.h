#pragma once

namespace tg {

// A number, or "auto": another setting decides.
struct NumberOrAuto {
  double number = 0;  // 0 with `automatic`
  bool automatic = false;
};

}  // namespace tg
