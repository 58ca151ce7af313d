#include "ops/embedding/learned_scale.h"

#include <torch/csrc/autograd/custom_function.h>

#include "ops/attention/kernels/head_vectors.h"
#include "ops/embedding/embedding_kernel.h"
#include "ops/kernels.h"
#include "ops/operands.h"

namespace tg {

namespace {

cuda::ScaledRows rows_of(const at::Tensor& x_btd, const at::Tensor& scale) {
  return {.x = const_data(x_btd),
          .scale = const_fp32_data(scale),
          .rows = x_btd.size(0) * x_btd.size(1),
          .width = static_cast<int>(x_btd.size(2)),
          .dtype = dtype_of(x_btd)};
}

struct LearnedScale : torch::autograd::Function<LearnedScale> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& scale) {
    context->save_for_backward({x, scale});
    const auto out = at::empty_like(x);
    cuda::learned_scale_forward(rows_of(x, scale), mutable_data(out), current_stream(x));
    return out;
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &scale = saved[1];
    const auto dy = readable_heads(upstream[0], /*heads=*/1);
    const auto dx = at::empty_like(x), dscale = at::empty_like(scale);
    cuda::learned_scale_backward(rows_of(x, scale), const_data(dy), token_stride(dy),
                                 mutable_data(dx), mutable_fp32_data(dscale), workspace_like(x),
                                 current_stream(x));
    return {dx, dscale};
  }
};

bool supported(const at::Tensor& x, const at::Tensor& scale) {
  return use_kernels(x) && x.dim() == 3 && x.numel() > 0 && x.size(2) % pack_size(x) == 0 &&
         scale.scalar_type() == at::kFloat && scale.numel() == 1;
}

}  // namespace

at::Tensor learned_scale(const at::Tensor& x_btd, const at::Tensor& scale) {
  if (supported(x_btd, scale)) return LearnedScale::apply(aligned_contiguous(x_btd), scale);
  return (x_btd.to(scale.scalar_type()) * scale).to(x_btd.scalar_type());
}

}  // namespace tg
