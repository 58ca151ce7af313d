// Stand-ins for the *_hopper kernels in a build without sm_90a. They are never called, since
// use_hopper_kernels() (fused.h) is false.
#include <cstdlib>

#include "ops/attention/kernels/attention_backward_hopper.h"
#include "ops/attention/kernels/attention_forward_hopper.h"
#include "ops/attention/kernels/qkv_proj_norm_rope_hopper.h"
#include "ops/loss/linear_cross_entropy_hopper.h"
#include "ops/mlp/mlp_hopper.h"
#include "ops/norm/linear_residual_norm_hopper.h"

// Each is an alias of one function: never called, they need no parameters.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wattribute-alias"
#endif
extern "C" void no_hopper() {
  std::abort();
}

namespace tg::cuda {

decltype(qkv_proj_norm_rope) qkv_proj_norm_rope [[gnu::alias("no_hopper")]];
decltype(attention_forward) attention_forward [[gnu::alias("no_hopper")]];
decltype(attention_backward) attention_backward [[gnu::alias("no_hopper")]];
decltype(linear_softmax_gradient) linear_softmax_gradient [[gnu::alias("no_hopper")]];
decltype(linear_softmax_sums) linear_softmax_sums [[gnu::alias("no_hopper")]];
decltype(mlp_sign_bytes) mlp_sign_bytes [[gnu::alias("no_hopper")]];
decltype(mlp_up) mlp_up [[gnu::alias("no_hopper")]];
decltype(mlp_down_backward) mlp_down_backward [[gnu::alias("no_hopper")]];
decltype(fp8_mlp_sign_bytes) fp8_mlp_sign_bytes [[gnu::alias("no_hopper")]];
decltype(fp8_mlp_up) fp8_mlp_up [[gnu::alias("no_hopper")]];
decltype(fp8_mlp_down_backward) fp8_mlp_down_backward [[gnu::alias("no_hopper")]];
decltype(input_gradient_with_dots) input_gradient_with_dots [[gnu::alias("no_hopper")]];
decltype(linear_residual_norm) linear_residual_norm [[gnu::alias("no_hopper")]];

}  // namespace tg::cuda
