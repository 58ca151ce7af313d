// Never called: see ops/built.h.
#include "ops/attention/cudnn_attention.h"
#include "ops/attention/kernels/attention_kernel.h"
#include "ops/attention/kernels/composed_attention_kernel.h"
#include "ops/attention/kernels/token_weights_kernel.h"
#include "ops/built.h"

namespace tg::cuda {

void qk_norm_rope_forward(const QkvShape&, const QkNormRopeInputs&, void*, void*, void*, Dtype,
                          Stream) {
  not_built();
}
void qk_norm_rope_in_place(const QkvShape&, QkNormRopeInputs, void*, float*, Dtype, Stream) {
  not_built();
}
void copy_heads(const QkvShape&, const HeadVectors&, int, bool, void*, Dtype, Stream) {
  not_built();
}
void qk_norm_rope_backward(const QkvShape&, const QkNormRopeInputs&, const QkNormRopeUpstream&,
                           const QkNormRopeGradients&, Dtype, Stream) {
  not_built();
}
int qk_norm_rope_backward_blocks(const QkvShape&) {
  not_built();
}
void exclusive_attention_forward(const ExclusiveShape&, const ExclusiveInputs&, const RoundedHeads&,
                                 Dtype, Stream) {
  not_built();
}
int gated_exclusive_backward_blocks(const ExclusiveShape&) {
  not_built();
}
void exclusive_attention_backward(const ExclusiveShape&, const ExclusiveInputs&, const HeadVectors&,
                                  const ExclusiveGradients&, Dtype, Stream) {
  not_built();
}
void composed_attention_forward(const ComposedShape&, const ComposedInputs&, void*, float*, Dtype,
                                Stream) {
  not_built();
}
void composed_attention_backward(const ComposedShape&, const ComposedInputs&, const HeadVectors&,
                                 const float*, const ComposedGradients&, Dtype, Stream) {
  not_built();
}
void weighted_heads_forward(const ExclusiveShape&, const WeightedHeadsInputs&, const RoundedHeads&,
                            Dtype, Stream) {
  not_built();
}
void weighted_heads_backward(const ExclusiveShape&, const WeightedHeadsInputs&, const HeadVectors&,
                             const WeightedHeadsGradients&, Dtype, Stream) {
  not_built();
}
void scaled_heads_forward(const ScaledHeadsShape&, const HeadVectors&, const TokenNumbers&, void*,
                          Dtype, Stream) {
  not_built();
}
void scaled_heads_backward(const ScaledHeadsShape&, const HeadVectors&, const TokenNumbers&,
                           const HeadVectors&, const RowGradient&, void*, Dtype, Stream) {
  not_built();
}
void gated_values_forward(const ScaledHeadsShape&, const HeadVectors&, const ValueGate&, void*,
                          Dtype, Stream) {
  not_built();
}
void gated_values_backward(const ScaledHeadsShape&, const HeadVectors&, const ValueGate&,
                           const HeadVectors&, const ValueGateGradients&, Dtype, Stream) {
  not_built();
}
int gated_values_backward_blocks(const ScaledHeadsShape&) {
  not_built();
}
void add_to_first_columns(const float*, std::int64_t, int, void*, std::int64_t, Dtype, Stream) {
  not_built();
}

}  // namespace tg::cuda

namespace tg {

std::optional<AttentionForward> cudnn_attention(const at::Tensor&, const at::Tensor&,
                                                const at::Tensor&, double,
                                                const std::optional<Documents>&, std::int64_t) {
  not_built();
}

}  // namespace tg
