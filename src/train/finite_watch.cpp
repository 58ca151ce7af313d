#include "train/finite_watch.h"

#include "base/error.h"

namespace tg {

std::optional<StepSkipped> FiniteWatch::after_step(std::int64_t step, const StepMetrics& metrics) {
  const double loss = metrics.loss, norm = metrics.grad_norm;
  if (!metrics.skipped) {
    in_a_row_ = 0;
    return {};
  }
  if (metrics.loss_scale && *metrics.loss_scale > 1) {
    return StepSkipped{step, loss, norm, ++overflows_, metrics.loss_scale};
  }
  REQUIRE(config_.on_nonfinite == OnNonfinite::skip, ExitCode::internal,
          "step {}: loss {} and gradient norm {} must be finite; the update was skipped and "
          "nothing was written. Lower MATRIX_LR, SCALAR_LR and TIED_EMBED_LR, set GRAD_CLIP_NORM, "
          "or use ON_NONFINITE=skip",
          step, loss, norm);
  ++skipped_;
  REQUIRE(++in_a_row_ < config_.nonfinite_limit, ExitCode::internal,
          "step {}: loss {} and gradient norm {} must be finite, and were not in {} steps in a row "
          "(NONFINITE_LIMIT={}); no model was written. Lower MATRIX_LR, SCALAR_LR and "
          "TIED_EMBED_LR, set GRAD_CLIP_NORM, or start from finite weights",
          step, loss, norm, in_a_row_, config_.nonfinite_limit);
  return StepSkipped{step, loss, norm, skipped_, {}};
}

}  // namespace tg
