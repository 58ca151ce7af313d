#include "optim/param_groups.h"

namespace tg {

GroupRate rate_of(ParamGroup group, const OptimConfig& optim, bool tied) {
  switch (group) {
    case ParamGroup::muon:
      return {optim.matrix_lr, optim.muon_wd};
    case ParamGroup::embedding:
      return {tied ? optim.tied_embed_lr : optim.embed_lr, optim.adam_wd};
    case ParamGroup::scalar:
      return {optim.scalar_lr, optim.adam_wd};
    case ParamGroup::head:
      return {optim.head_lr, 0.0};
    case ParamGroup::none:
      break;
  }
  return {0.0, 0.0};
}

}  // namespace tg
