#pragma once
#include <cstdint>

namespace tg {

// A number, or "auto": the program finds out what suits the machine.
struct CountOrAuto {
  std::int64_t count = 0;  // 0 with `automatic`
  bool automatic = false;
};

}  // namespace tg
