#pragma once
#include "ops/attention/flash_attention.h"

namespace tg {

// flash_attention() of documents or a window by cuDNN's kernel, without a gradient: on Hopper it
// takes half to two thirds of FlashAttention-2's time (docs/optimizations.md). LibTorch offers this
// kernel for whole rows alone, so that cuDNN is called here. None where cuDNN is not in use
// (use_attention) or has no kernel for these; then nothing was computed. The first call of a shape
// builds a plan, some 50 ms of the host, and must not be captured.
std::optional<AttentionForward> cudnn_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                                const at::Tensor& v_bthd, double scale,
                                                const std::optional<Documents>& documents,
                                                std::int64_t window);
// That, or where there is none, and with a gradient, flash_attention().
AttentionForward cudnn_or_flash_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                          const at::Tensor& v_bthd, double scale,
                                          const std::optional<Documents>& documents,
                                          std::int64_t window);

}  // namespace tg
