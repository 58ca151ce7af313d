#include "device/launch.h"

namespace tg::cuda {

int blocks_for(std::int64_t, int) {
  return 1;
}
bool is_hopper() {
  return false;
}

}  // namespace tg::cuda
