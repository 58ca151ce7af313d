#include "ops/built.h"

namespace tg {

bool hopper_built() {
  return true;
}

}  // namespace tg
