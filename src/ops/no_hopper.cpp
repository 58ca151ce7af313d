#include "ops/built.h"

namespace tg {

bool hopper_built() {
  return false;
}

}  // namespace tg
