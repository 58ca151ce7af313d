#include "ops/xsa.h"

namespace tg {

at::Tensor exclusive_attention(const at::Tensor& y_bthd, const at::Tensor& v_bthd) {
  const auto kv_heads = v_bthd.size(2);
  // [B, T, KV, heads of the group, hd] against [B, T, KV, 1, hd].
  const auto y = y_bthd.unflatten(2, {kv_heads, y_bthd.size(2) / kv_heads});
  const auto v = v_bthd / v_bthd.norm(2, -1, /*keepdim=*/true).clamp_min(1e-12);
  const auto v_unit = v.unsqueeze(3);
  return (y - (y * v_unit).sum(-1, /*keepdim=*/true) * v_unit).flatten(2, 3);
}

}  // namespace tg
