#include "ops/attention/attention.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/attention/flash_attention.h"
#include "ops/attention/fused_attention.h"
#include "ops/attention/gates/xsa.h"

namespace tg {

namespace {

bool can_run(AttentionKernel kernel, at::Device device, at::ScalarType dtype,
             std::int64_t head_dim) {
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  switch (kernel) {
    case AttentionKernel::cudnn:
      return device.is_cuda() && half && head_dim % 8 == 0 && head_dim <= 128;
    case AttentionKernel::flash:
      return device.is_cuda() ? half && head_dim % 8 == 0 && head_dim <= 256
                              : at::isFloatingType(dtype);
    case AttentionKernel::math:
      return true;
  }
  return false;
}

// Returns the softmax scale for heads of `channels` channels; 0: q's head size.
double scale_of(const at::Tensor& q, std::int64_t channels) {
  return 1 / std::sqrt(static_cast<double>(channels == 0 ? q.size(3) : channels));
}

at::Tensor row_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         double scale, std::int64_t window) {
  const auto length = q.size(1);
  std::optional<at::Tensor> mask;  // [queries, keys]; nullopt: plain causal
  if (window > 0 && window < length)
    mask = at::ones({length, length}, q.options().dtype(at::kBool)).tril().triu(1 - window);
  return at::scaled_dot_product_attention(
             q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask, /*dropout_p=*/0.0,
             /*is_causal=*/!mask, scale, /*enable_gqa=*/q.size(2) != k.size(2))
      .transpose(1, 2);
}

// ATen's math attention with a mask; `hidden` [queries, keys] or [B, 1, queries, keys] bool.
at::Tensor masked_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& hidden, double scale) {
  const auto added = at::zeros(hidden.sizes(), q.options())
                         .masked_fill(hidden, -std::numeric_limits<double>::infinity());
  return std::get<0>(at::_scaled_dot_product_attention_math(
                         q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), added,
                         /*dropout_p=*/0.0, /*is_causal=*/false, /*dropout_mask=*/{}, scale,
                         /*enable_gqa=*/q.size(2) != k.size(2)))
      .transpose(1, 2);
}

bool runs_flash_on_gpu(const at::Tensor& q) {
  return q.is_cuda() && can_run(AttentionKernel::flash, q.device(), q.scalar_type(), q.size(3));
}

// Attention per document: a mask of a long row would not fit in memory. Uses split, whose gradient
// is one cat, while each narrow()'s gradient would have the full length.
at::Tensor attention_by_document(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                 const at::Tensor& v_bthd, double scale, const Documents& documents,
                                 std::int64_t window) {
  const auto lengths = documents.offsets.diff().to(at::kLong);
  const at::IntArrayRef sizes(lengths.const_data_ptr<std::int64_t>(),
                              static_cast<std::size_t>(lengths.numel()));
  const auto split = [&](const at::Tensor& x) { return x.flatten(0, 1).split_with_sizes(sizes); };
  const auto q = split(q_bthd), k = split(k_bthd), v = split(v_bthd);
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    const auto document = [&](const std::vector<at::Tensor>& x) { return x[i].unsqueeze(0); };
    parts.push_back(row_attention(document(q), document(k), document(v), scale, window).squeeze(0));
  }
  return at::cat(parts).view(q_bthd.sizes());
}

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           double scale, const std::optional<Documents>& documents,
                           std::int64_t window) {
  const bool plain_causal = !documents && window == 0;
  if (!plain_causal && hopper_attention_supports(q, k, v))
    return hopper_attention(q, k, v, scale, documents, window).y;
  if (!plain_causal && runs_flash_on_gpu(q))
    return flash_attention(q, k, v, scale, documents, window).y;
  if (!documents) return row_attention(q, k, v, scale, window);
  if (q.is_cpu()) return attention_by_document(q, k, v, scale, *documents, window);
  return masked_attention(q, k, v, hidden_keys(visible_until(k, documents, window)), scale);
}

// Returns the window, or 0 if it hides nothing.
std::int64_t effective_window(const at::Tensor& k, const AttentionOptions& options) {
  const auto longest = options.documents ? options.documents->longest : k.size(1);
  return options.window < longest ? options.window : 0;
}

}  // namespace

std::string attention_name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::cudnn:
      return "cudnn";
    case AttentionKernel::flash:
      return "flash";
    case AttentionKernel::math:
      return "math";
  }
  return "";
}

AttentionKernel choose_attention(const std::string& requested, at::Device device,
                                 at::ScalarType dtype, std::int64_t head_dim, bool deterministic) {
  for (const auto kernel :
       {AttentionKernel::cudnn, AttentionKernel::flash, AttentionKernel::math}) {
    const bool deterministic_kernel = kernel != AttentionKernel::cudnn;  // cuDNN's backward is not
    const bool candidate = requested == attention_name(kernel) ||
                           (requested == "auto" && (deterministic_kernel || !deterministic));
    if (candidate && can_run(kernel, device, dtype, head_dim)) return kernel;
  }
  fail(ExitCode::usage,
       "ATTENTION={} cannot serve {} heads of {} on {}; use ATTENTION=auto, or a head size "
       "(MODEL_DIM/NUM_HEADS) that is a multiple of 8 and COMPUTE_DTYPE=bf16 or fp16",
       requested, c10::toString(dtype), head_dim, device.str());
}

void use_attention(AttentionKernel kernel) {
  auto& context = at::globalContext();
  context.setSDPUseCuDNN(kernel == AttentionKernel::cudnn);
  context.setSDPUseFlash(kernel == AttentionKernel::flash);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseMath(kernel == AttentionKernel::math);
}

at::Tensor causal_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                            const at::Tensor& v_bthd, const AttentionOptions& options) {
  const double scale = scale_of(q_bthd, options.channels);
  auto resolved = options;
  resolved.window = effective_window(k_bthd, options);
  if (fused_attention_supports(q_bthd, k_bthd, v_bthd))
    return fused_attention(q_bthd, k_bthd, v_bthd, scale, resolved);
  const auto y =
      plain_attention(q_bthd, k_bthd, v_bthd, scale, resolved.documents, resolved.window);
  return exclusive_attention(y, resolved.exclusive_v, resolved.gate, resolved.rounding);
}

at::Tensor causal_attention_of_last(const at::Tensor& q_bshd, const at::Tensor& k_bthd,
                                    const at::Tensor& v_bthd, std::int64_t channels,
                                    std::int64_t window) {
  const at::NoGradGuard no_grad;
  const auto queries = q_bshd.size(1), all = k_bthd.size(1);
  // Drops earlier keys, which no query attends to.
  const auto keys = window == 0 ? all : std::min(all, window + queries - 1);
  const auto k = k_bthd.narrow(1, all - keys, keys), v = v_bthd.narrow(1, all - keys, keys);
  if (window >= keys) window = 0;
  const double scale = scale_of(q_bshd, channels);
  if (runs_flash_on_gpu(q_bshd)) return flash_attention(q_bshd, k, v, scale, {}, window).y;
  const auto own_key = keys - queries;  // key position of the first query
  const auto all_true = at::ones({queries, keys}, q_bshd.options().dtype(at::kBool));
  auto hidden = all_true.triu(own_key + 1);
  if (window > 0) hidden = hidden.logical_or_(all_true.tril(own_key - window));
  return masked_attention(q_bshd, k, v, hidden, scale);
}

}  // namespace tg
