#include "ops/attention/gates/xsa_on_tensors.h"

#include "ops/attention/kernels/head_vectors.h"
#include "ops/operands.h"

namespace tg {

namespace {

// `rows`: token_rows().
cuda::HeadGateTensors pointers(const HeadGateInputs& gate, const at::Tensor& rows) {
  if (!gate.defined()) return {};
  return {.x = const_data(rows),
          .token_stride = token_stride(rows),
          .row_scale = const_fp32_data(gate.x.row_scale()),
          .weight = const_fp32_data(gate.weight),
          .window = static_cast<int>(gate.weight.size(1)),
          .scale = static_cast<float>(gate.scale),
          .range = static_cast<float>(gate.range)};
}
// Returns the channels that the gate reads, [B, T, w]: a view if the tokens have one stride, else a
// contiguous copy.
at::Tensor token_rows(const HeadGateInputs& gate) {
  if (!gate.defined()) return {};
  const auto x = gate.x.tensor().detach().narrow(-1, 0, gate.weight.size(1));
  return x.stride(2) == 1 && has_token_stride(x) ? x : x.contiguous();
}

}  // namespace

SavedGate save_gate(const HeadGateInputs& gate, AutogradContext& context) {
  context.saved_data["gate"] =
      in_capsule(HeadGateInputs{.scale = gate.scale, .range = gate.range, .passed = gate.passed});
  auto x = gate.x.tensor();
  // Copies the channels of materialized rows, which nothing else need keep if the projection is in
  // FP8; rows scaled by row are saved by the projection as well.
  if (gate.defined() && gate.x.form() == NormedForm::materialized)
    x = x.detach().narrow(-1, 0, gate.weight.size(1)).contiguous();
  return {x, gate.x.row_scale(), gate.weight};
}

HeadGateInputs saved_gate(const SavedGate& tensors, AutogradContext& context) {
  const auto& [x, row_scale, weight] = tensors;
  auto gate = from_capsule<HeadGateInputs>(context.saved_data["gate"]);
  gate.x = row_scale.defined() ? NormedInput::deferred_scale(x, row_scale) : x;
  gate.weight = weight;
  return gate;
}

at::Tensor exclusive_forward(const at::Tensor& y, const at::Tensor& v, const HeadGateInputs& gate,
                             const Fp8Scaling& rounding) {
  const auto rows = token_rows(gate);
  auto out = at::empty(y.sizes(), y.options());
  cuda::exclusive_attention_forward(
      exclusive_shape(y, v),
      {.y = head_vectors(y), .v = head_vectors(v), .gate = pointers(gate, rows)},
      {mutable_data(out), cached_fp8_copy(out, rounding)}, dtype_of(y), current_stream(y));
  return out;
}

ExclusiveBackward exclusive_backward(const at::Tensor& y, const at::Tensor& v,
                                     const HeadGateInputs& gate, const at::Tensor& d_out,
                                     const cuda::RowDelta& row_delta) {
  const auto shape = exclusive_shape(y, v);
  const auto rows = token_rows(gate);
  ExclusiveBackward d{.dy = at::empty(y.sizes(), y.options()),
                      .dv = v.defined() ? at::empty(v.sizes(), v.options()) : v,
                      .d_gate_weight = {}};
  at::Tensor d_x;
  if (gate.defined()) {
    const auto fp32 = [&](at::IntArrayRef sizes) {
      return at::empty(sizes, y.options().dtype(at::kFloat));
    };
    d.d_gate_weight = fp32(gate.weight.sizes());
    d_x = fp32({shape.tokens, gate.weight.size(1)});
  }
  cuda::exclusive_attention_backward(
      shape, {.y = head_vectors(y), .v = head_vectors(v), .gate = pointers(gate, rows)},
      head_vectors(d_out),
      {.y = mutable_data(d.dy),
       .v = mutable_data(d.dv),
       .row_delta = row_delta,
       .gate = {.x = mutable_fp32_data(d_x), .weight = mutable_fp32_data(d.d_gate_weight)}},
      dtype_of(y), workspace_like(y), current_stream(y));
  if (gate.defined()) gate.passed->gate_x = d_x;
  return d;
}

}  // namespace tg
