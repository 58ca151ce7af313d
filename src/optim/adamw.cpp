#include "optim/adamw.h"

namespace tg {

namespace {

at::ScalarType own_dtype(const at::Tensor& value) {
  return value.scalar_type();
}

}  // namespace

AdamW::AdamW(ParameterRows rows, const AdamOptions& options, Communicator& communicator)
    : ElementOptimizer(std::move(rows), options, communicator, own_dtype) {}

void AdamW::update(const StepScalars& scalars, const Shards& shards) {
  at::_fused_adamw_(shards.values, shards.gradients, shards.exp_avgs, shards.exp_avg_sqs,
                    /*max_exp_avg_sqs=*/{}, shards.steps, scalars.lr_scale * options_.lr,
                    options_.beta1, options_.beta2, options_.weight_decay, options_.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{},
                    /*found_inf=*/scalars.skip);
}

}  // namespace tg
