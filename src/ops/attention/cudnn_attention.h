#pragma once
#include "ops/attention/documents.h"

namespace tg {

// flash_attention() by cuDNN's kernel, without a gradient: on Hopper it takes half to two thirds of
// FlashAttention-2's time (docs/optimizations.md). LibTorch has this kernel for whole rows alone,
// so that cuDNN is called here. None where cuDNN is not to be used (use_attention) or has no kernel
// for these; then nothing was computed. The first call with such shapes builds a plan, some 50 ms
// of the host, and must not be captured.
std::optional<DocumentAttention> cudnn_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                                 const at::Tensor& v_bthd, double scale,
                                                 const Documents& documents);

}  // namespace tg
