#include "ops/embedding/token_embedding.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>

#include "ops/embedding/embedding_kernel.h"
#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/smear.h"
#include "ops/kernels.h"
#include "ops/norm/rms_norm.h"
#include "ops/operands.h"

namespace tg {

namespace {

at::ScalarType result_dtype(const TokenEmbedding& inputs) {
  return inputs.dtype.value_or(inputs.table_vd.scalar_type());
}

at::Tensor reference(const TokenEmbedding& inputs) {
  auto x =
      embedding_lookup(inputs.table_vd, inputs.ids_bt, inputs.table_gradient_vd, inputs.id_order)
          .to(result_dtype(inputs));
  if (inputs.bigram_btd.defined())
    x = x + inputs.bigram_btd * inputs.bigram_scale.to(x.scalar_type());
  if (inputs.gated_smear.defined()) x = gated_smear(x, inputs.ids_bt, inputs.gated_smear);
  x = rms_norm(x, inputs.channels);
  return inputs.smear_gate_d.defined() ? smear(x, inputs.smear_gate_d, inputs.document_ends_bt) : x;
}

bool fp32_or_none(const at::Tensor& x) {
  return !x.defined() || x.scalar_type() == at::kFloat;
}

bool supported(const SmearGate& gate) {
  return !gate.defined() ||
         (fp32_or_none(gate.weight_1w) && gate.weight_1w.size(1) <= cuda::kMaxSmearWindow);
}

bool supported(const TokenEmbedding& inputs) {
  const auto& table = inputs.table_vd;
  const auto dtype = result_dtype(inputs);
  const auto width = table.size(1);
  return use_kernels(table) && width * at::elementSize(dtype) % 16 == 0 &&
         width <= cuda::kMaxTokenWidth && inputs.ids_bt.numel() > 0 &&
         fp32_or_none(inputs.bigram_scale) && fp32_or_none(inputs.smear_gate_d) &&
         supported(inputs.gated_smear) &&
         (!inputs.bigram_btd.defined() || inputs.bigram_btd.scalar_type() == dtype);
}

// Indices of apply()'s tensors. kScale: bigram_scale; kGate and kEnds: of smear(); kSmear and
// kLambda: of gated_smear().
enum : std::size_t { kTable, kIds, kBigram, kScale, kGate, kSmear, kLambda, kEnds, kTensors };
using Tensors = std::array<at::Tensor, kTensors>;

struct FusedTokenEmbedding : torch::autograd::Function<FusedTokenEmbedding> {
  // Arguments that are not differentiable tensors.
  struct Call {
    GivenInputs<kTensors> inputs;
    std::int64_t channels, bos_id;
    at::ScalarType dtype;
    at::Tensor table_gradient;
    std::shared_ptr<IdOrder> id_order;
  };

  static cuda::TokenEmbeddingArgs kernel_args(const Tensors& in, const Call& call) {
    const auto &table = in[kTable], &ids = in[kIds], &weight = in[kSmear];
    const auto width = table.size(1);
    return {.table = const_data(table),
            .ids = ids.const_data_ptr<std::int64_t>(),
            .bigram = const_data(in[kBigram]),
            .bigram_scale = const_fp32_data(in[kScale]),
            .gate = const_fp32_data(in[kGate]),
            .smear_weight = const_fp32_data(weight),
            .smear_lambda = const_fp32_data(in[kLambda]),
            .document_ends = static_cast<const std::int32_t*>(const_data(in[kEnds])),
            .bos_id = call.bos_id,
            .window = weight.defined() ? static_cast<int>(weight.size(1)) : 0,
            .batch = ids.numel() / ids.size(-1),
            .length = ids.size(-1),
            .width = static_cast<int>(width),
            .channels = static_cast<int>(call.channels == 0 ? width : call.channels),
            .dtype = dtype_of(table)};
  }

  static at::Tensor forward(AutogradContext* context, at::TensorList defined, const Call& call) {
    auto in = call.inputs.spread(defined);
    auto& table = in[kTable];
    table = table.to(call.dtype);
    context->set_materialize_grads(false);
    context->save_for_backward({in.begin(), in.end()});
    context->saved_data["call"] = in_capsule(call);
    auto shape = in[kIds].sizes().vec();
    shape.push_back(table.size(1));
    auto y = at::empty(shape, table.options());
    cuda::token_embedding_forward(kernel_args(in, call), mutable_data(y), current_stream(y));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    const auto call = from_capsule<Call>(context->saved_data["call"]);
    Tensors d;
    if (!upstream[0].defined()) return call.inputs.gradients(*context, d, /*others=*/1);
    const auto in = saved_tensors<kTensors>(*context);
    const auto args = kernel_args(in, call);
    const auto needs = call.inputs.needs_grad(*context);
    const auto dy = aligned_contiguous(upstream[0]);
    at::Tensor dsum, sums;
    if (needs[kTable]) dsum = at::empty_like(dy);
    if (needs[kBigram]) d[kBigram] = at::empty_like(dy);
    const auto columns = cuda::token_embedding_sums(args);
    if (needs[kScale] || needs[kGate] || needs[kSmear] || needs[kLambda])
      sums = at::empty({columns}, dy.options().dtype(at::kFloat));
    cuda::token_embedding_backward(args,
                                   {.dy = const_data(dy),
                                    .dsum = mutable_data(dsum),
                                    .dbigram = mutable_data(d[kBigram]),
                                    .sums = mutable_fp32_data(sums)},
                                   workspace_like(dy), current_stream(dy));
    const auto set_sum = [&](std::size_t i, std::int64_t from) {
      if (needs[i]) d[i] = sums.narrow(0, from, in[i].numel()).view(in[i].sizes());
    };
    set_sum(kScale, columns - 1);
    set_sum(kGate, 0);
    set_sum(kSmear, 0);
    set_sum(kLambda, columns - 2);
    if (needs[kTable] && call.table_gradient.defined())
      accumulate_embedding_gradient(call.table_gradient, dsum, in[kIds], call.id_order.get());
    else if (needs[kTable])
      d[kTable] = embedding_gradient(dsum, in[kIds], in[kTable].size(0), call.id_order.get());
    return call.inputs.gradients(*context, d, /*others=*/1);
  }
};

}  // namespace

at::Tensor token_embedding(const TokenEmbedding& inputs) {
  if (!supported(inputs)) return reference(inputs);
  const auto& gate = inputs.gated_smear;
  // bigram_hash() and gated_smear() handle documents on their own.
  const auto ends = inputs.smear_gate_d.defined() ? inputs.document_ends_bt : at::Tensor();
  Tensors in{inputs.table_vd,     inputs.ids_bt,  inputs.bigram_btd, inputs.bigram_scale,
             inputs.smear_gate_d, gate.weight_1w, gate.lambda_1,     ends};
  std::ranges::transform(in, in.begin(), aligned_contiguous);
  const FusedTokenEmbedding::Call call{
      GivenInputs(in),      inputs.channels,          gate.bos_id,
      result_dtype(inputs), inputs.table_gradient_vd, inputs.id_order};
  return FusedTokenEmbedding::apply(at::TensorList(defined_of(in)), call);
}

}  // namespace tg
