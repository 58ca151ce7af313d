#include "train/events.h"

namespace tg {

std::vector<std::pair<const char*, double>> StepTimed::named_values() const {
  const double n = static_cast<double>(micro_steps);
  return {{"batch_cpu_ms", times.batch_cpu / n},
          {"batch_h2d_ms", times.batch_h2d / n},
          {"forward_ms", times.forward / n},
          {"backward_ms", times.backward / n},
          // The reference implementation reduces the gradients within this phase.
          {"grad_clip_ms", times.reduce + times.grad_clip},
          {"optimizer_ms", times.optimizer},
          {"val_ms", val_ms},
          {"explicit_sync_ms", times.explicit_sync},
          {"data_wait_ms", times.data_wait},
          {"comm_ms", times.comm},
          {"host_ms", times.host},
          {"phases_ms", times.phases()},
          {"step_ms", times.step}};
}

}  // namespace tg
