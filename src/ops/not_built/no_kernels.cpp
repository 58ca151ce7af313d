// Stand-ins for the kernels in a build without CUDA. They are never called, since use_kernels()
// (fused.h) is false.
#include <cstdlib>

#include "ops/attention/kernels/attention_kernel.h"
#include "ops/attention/kernels/composed_attention_kernel.h"
#include "ops/attention/kernels/token_weights_kernel.h"
#include "ops/embedding/embedding_kernel.h"
#include "ops/gemm/algorithm_choice.h"
#include "ops/gemm/fp8_kernel.h"
#include "ops/loss/linear_cross_entropy_kernel.h"
#include "ops/loss/softcap_cross_entropy_kernel.h"
#include "ops/mlp/leaky_relu_squared_kernel.h"
#include "ops/norm/mix_norm_kernel.h"
#include "ops/norm/residual_norm_kernel.h"
#include "ops/optim/optim_kernels.h"
#include "ops/quantize/gptq_kernel.h"

// Each is an alias of one function: never called, they need no parameters.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
extern "C" void no_kernels() {
  std::abort();
}

namespace tg::cuda {

decltype(qk_norm_rope_forward) qk_norm_rope_forward [[gnu::alias("no_kernels")]];
decltype(qk_norm_rope_in_place) qk_norm_rope_in_place [[gnu::alias("no_kernels")]];
decltype(copy_heads) copy_heads [[gnu::alias("no_kernels")]];
decltype(qk_norm_rope_backward) qk_norm_rope_backward [[gnu::alias("no_kernels")]];
decltype(exclusive_attention_forward) exclusive_attention_forward [[gnu::alias("no_kernels")]];
decltype(exclusive_attention_backward) exclusive_attention_backward [[gnu::alias("no_kernels")]];
decltype(composed_attention_forward) composed_attention_forward [[gnu::alias("no_kernels")]];
decltype(composed_attention_backward) composed_attention_backward [[gnu::alias("no_kernels")]];
decltype(weighted_heads_forward) weighted_heads_forward [[gnu::alias("no_kernels")]];
decltype(weighted_heads_backward) weighted_heads_backward [[gnu::alias("no_kernels")]];
decltype(scaled_heads_forward) scaled_heads_forward [[gnu::alias("no_kernels")]];
decltype(scaled_heads_backward) scaled_heads_backward [[gnu::alias("no_kernels")]];
decltype(gated_values_forward) gated_values_forward [[gnu::alias("no_kernels")]];
decltype(gated_values_backward) gated_values_backward [[gnu::alias("no_kernels")]];
decltype(add_to_first_columns) add_to_first_columns [[gnu::alias("no_kernels")]];
decltype(embedding_gradient) embedding_gradient [[gnu::alias("no_kernels")]];
decltype(token_embedding_forward) token_embedding_forward [[gnu::alias("no_kernels")]];
decltype(token_embedding_sums) token_embedding_sums [[gnu::alias("no_kernels")]];
decltype(token_embedding_backward) token_embedding_backward [[gnu::alias("no_kernels")]];
decltype(learned_scale_forward) learned_scale_forward [[gnu::alias("no_kernels")]];
decltype(learned_scale_backward) learned_scale_backward [[gnu::alias("no_kernels")]];
decltype(fp8_round) fp8_round [[gnu::alias("no_kernels")]];
decltype(fp8_round_bank) fp8_round_bank [[gnu::alias("no_kernels")]];
decltype(fp8_transpose) fp8_transpose [[gnu::alias("no_kernels")]];
decltype(softmax_gradient) softmax_gradient [[gnu::alias("no_kernels")]];
decltype(finish_rows) finish_rows [[gnu::alias("no_kernels")]];
decltype(scale_inputs) scale_inputs [[gnu::alias("no_kernels")]];
decltype(scale_inputs_to_fp8) scale_inputs_to_fp8 [[gnu::alias("no_kernels")]];
decltype(scale_target_inputs) scale_target_inputs [[gnu::alias("no_kernels")]];
decltype(finish_input_gradient) finish_input_gradient [[gnu::alias("no_kernels")]];
decltype(softcap_nll) softcap_nll [[gnu::alias("no_kernels")]];
decltype(softcap_nll_and_gradient) softcap_nll_and_gradient [[gnu::alias("no_kernels")]];
decltype(scale_in_place) scale_in_place [[gnu::alias("no_kernels")]];
decltype(leaky_relu_squared_forward) leaky_relu_squared_forward [[gnu::alias("no_kernels")]];
decltype(leaky_relu_squared_backward) leaky_relu_squared_backward [[gnu::alias("no_kernels")]];
decltype(activate) activate [[gnu::alias("no_kernels")]];
decltype(activation_backward) activation_backward [[gnu::alias("no_kernels")]];
decltype(activate_in_fp8) activate_in_fp8 [[gnu::alias("no_kernels")]];
decltype(activation_backward_in_fp8) activation_backward_in_fp8 [[gnu::alias("no_kernels")]];
decltype(residual_norm_forward) residual_norm_forward [[gnu::alias("no_kernels")]];
decltype(residual_norm_backward) residual_norm_backward [[gnu::alias("no_kernels")]];
decltype(mix_norm_forward) mix_norm_forward [[gnu::alias("no_kernels")]];
decltype(mix_norm_backward) mix_norm_backward [[gnu::alias("no_kernels")]];
decltype(nesterov_momentum) nesterov_momentum [[gnu::alias("no_kernels")]];
decltype(averaged_momentum) averaged_momentum [[gnu::alias("no_kernels")]];
decltype(decayed_step) decayed_step [[gnu::alias("no_kernels")]];
decltype(normalize_variance) normalize_variance [[gnu::alias("no_kernels")]];
decltype(adam_update) adam_update [[gnu::alias("no_kernels")]];
decltype(add_and_clear) add_and_clear [[gnu::alias("no_kernels")]];
decltype(gptq_block) gptq_block [[gnu::alias("no_kernels")]];

}  // namespace tg::cuda

namespace tg {

decltype(launch_chosen) launch_chosen [[gnu::alias("no_kernels")]];

}  // namespace tg
