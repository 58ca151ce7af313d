#include "ops/attention/hopper_attention.h"

#include <ATen/Context.h>

#include <limits>

#include "ops/attention/attention_workspace.h"
#include "ops/attention/kernels/attention_forward_hopper.h"
#include "ops/kernels.h"

namespace tg {

AttentionForward hopper_attention(const at::Tensor& q_bthd, const at::Tensor& k_bthd,
                                  const at::Tensor& v_bthd, double scale,
                                  const std::optional<Documents>& documents, std::int64_t window) {
  const auto q = readable_heads(q_bthd), k = readable_heads(k_bthd), v = readable_heads(v_bthd);
  const auto from = visible_from(k, documents, window);
  const auto options = q.options().requires_grad(false);
  auto y = at::empty(q.sizes(), options);
  auto logsumexp = at::empty({q.size(0), q.size(2), q.size(1)}, options.dtype(at::kFloat));
  const auto next_tile = at::empty({}, options.dtype(at::kInt));
  cuda::attention_forward(attention_shape(q, k, scale),
                          {.q = head_vectors(q),
                           .k = head_vectors(k),
                           .v = head_vectors(v),
                           .visible_from = from.const_data_ptr<int>()},
                          {.y = mutable_data(y),
                           .logsumexp = mutable_fp32_data(logsumexp),
                           .next_tile = next_tile.mutable_data_ptr<int>()},
                          dtype_of(q), current_stream(q));
  return {y, logsumexp};
}

bool hopper_attention_supports(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return q.is_cuda() && use_hopper_kernels(q) && at::globalContext().userEnabledCuDNNSDP() &&
         k.scalar_type() == q.scalar_type() && v.scalar_type() == q.scalar_type() &&
         (q.size(3) == 64 || q.size(3) == 128) &&
         q.size(0) * q.size(1) * q.size(2) <
             std::numeric_limits<int>::max() / cuda::kAttentionBlock &&
         q.size(1) > 1;
}

}  // namespace tg
