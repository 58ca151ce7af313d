#pragma once
#include <cstdint>

namespace tg {

// How often: a number of steps, or of minutes of training time. As text "100" or "5m".
struct Every {
  std::int64_t count = 0;  // 0: never
  bool minutes = false;
};

}  // namespace tg
