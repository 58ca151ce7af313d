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

cuda::TokenEmbeddingArgs kernel_args(const TokenEmbedding& inputs) {
  const auto& gate = inputs.gated_smear;
  return {.table = const_data(inputs.table_vd),
          .ids = inputs.ids_bt.const_data_ptr<std::int64_t>(),
          .bigram = const_data(inputs.bigram_btd),
          .bigram_scale = const_fp32_data(inputs.bigram_scale),
          .gate = const_fp32_data(inputs.smear_gate_d),
          .smear_weight = const_fp32_data(gate.weight_1w),
          .smear_lambda = const_fp32_data(gate.lambda_1),
          .document_ends = inputs.document_ends_bt.defined()
                               ? inputs.document_ends_bt.const_data_ptr<std::int32_t>()
                               : nullptr,
          .bos_id = gate.bos_id,
          .window = gate.defined() ? static_cast<int>(gate.weight_1w.size(1)) : 0,
          .batch = inputs.ids_bt.numel() / inputs.ids_bt.size(-1),
          .length = inputs.ids_bt.size(-1),
          .width = static_cast<int>(inputs.table_vd.size(1)),
          .channels =
              static_cast<int>(inputs.channels == 0 ? inputs.table_vd.size(1) : inputs.channels),
          .dtype = dtype_of(inputs.table_vd)};
}

struct FusedTokenEmbedding : torch::autograd::Function<FusedTokenEmbedding> {
  static TokenEmbedding saved_inputs(const variable_list& saved, std::int64_t channels,
                                     std::int64_t bos_id) {
    return {.table_vd = saved[0],
            .ids_bt = saved[1],
            .bigram_btd = saved[2],
            .bigram_scale = saved[3],
            .smear_gate_d = saved[4],
            .channels = channels,
            .gated_smear = {saved[5], saved[6], bos_id},
            .document_ends_bt = saved[7]};
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& given_table,
                            const at::Tensor& ids, const OptionalTensor& bigram,
                            const OptionalTensor& scale, const OptionalTensor& gate,
                            const OptionalTensor& smear_weight, const OptionalTensor& smear_lambda,
                            std::int64_t channels, at::ScalarType dtype, std::int64_t bos_id,
                            const OptionalTensor& table_gradient,
                            const OptionalTensor& document_ends,
                            const std::shared_ptr<IdOrder>& id_order) {
    const auto table = given_table.to(dtype);
    const variable_list saved{table,
                              ids,
                              or_undefined(bigram),
                              or_undefined(scale),
                              or_undefined(gate),
                              or_undefined(smear_weight),
                              or_undefined(smear_lambda),
                              or_undefined(document_ends)};
    context->set_materialize_grads(false);
    context->save_for_backward(saved);
    context->saved_data["channels"] = channels;
    context->saved_data["bos_id"] = bos_id;
    context->saved_data["table_gradient"] =
        table_gradient;  // not through save_for_backward: it is modified in place
    context->saved_data["id_order"] = in_capsule(id_order);
    auto shape = ids.sizes().vec();
    shape.push_back(table.size(1));
    auto y = at::empty(shape, table.options());
    cuda::token_embedding_forward(kernel_args(saved_inputs(saved, channels, bos_id)),
                                  mutable_data(y), current_stream(y));
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list upstream) {
    if (!upstream[0].defined()) return variable_list(13);
    const auto saved = context->get_saved_variables();
    const auto &table = saved[0], &ids = saved[1];
    auto& data = context->saved_data;
    const auto args =
        kernel_args(saved_inputs(saved, data["channels"].toInt(), data["bos_id"].toInt()));
    const auto needs_grad =
        needed_gradients<7>(*context, [&](std::size_t i) { return saved[i].defined(); });
    const auto needs = [&](std::size_t i) { return needs_grad[i]; };
    const auto dy = aligned_contiguous(upstream[0]);
    const auto fp32 = dy.options().dtype(at::kFloat);
    at::Tensor dsum, dbigram, partials, sums;
    if (needs(0)) dsum = at::empty_like(dy);
    if (needs(2)) dbigram = at::empty_like(dy);
    const auto columns = cuda::token_embedding_sums(args);
    if (needs(3) || needs(4) || needs(5) || needs(6)) {
      partials = at::empty({cuda::token_embedding_blocks(args), columns}, fp32);
      sums = at::empty({columns}, fp32);
    }
    cuda::token_embedding_backward(args,
                                   {.dy = const_data(dy),
                                    .dsum = mutable_data(dsum),
                                    .dbigram = mutable_data(dbigram),
                                    .partials = mutable_fp32_data(partials),
                                    .sums = mutable_fp32_data(sums)},
                                   current_stream(dy));
    const auto sum = [&](std::size_t i, std::int64_t from) {
      return needs(i) ? sums.narrow(0, from, saved[i].numel()).view(saved[i].sizes())
                      : at::Tensor();
    };
    const at::Tensor none;
    at::Tensor dtable;
    if (needs(0)) {
      const auto order = from_capsule<std::shared_ptr<IdOrder>>(data["id_order"]);
      if (const auto sum_so_far = data["table_gradient"].toOptional<at::Tensor>())
        accumulate_embedding_gradient(*sum_so_far, dsum, ids, order.get());
      else
        dtable = embedding_gradient(dsum, ids, table.size(0), order.get());
    }
    return {dtable,
            none,
            dbigram,
            sum(3, columns - 1),
            sum(4, 0),
            sum(5, 0),
            sum(6, columns - 2),
            none,
            none,
            none,
            none,
            none,
            none};
  }
};

}  // namespace

at::Tensor token_embedding(const TokenEmbedding& inputs) {
  if (!supported(inputs)) return reference(inputs);
  const auto optional = [](const at::Tensor& x) { return optional_tensor(aligned_contiguous(x)); };
  // bigram_hash() and gated_smear() handle documents on their own.
  const auto ends = inputs.smear_gate_d.defined() ? inputs.document_ends_bt : at::Tensor();
  return FusedTokenEmbedding::apply(
      aligned_contiguous(inputs.table_vd), inputs.ids_bt.contiguous(), optional(inputs.bigram_btd),
      optional(inputs.bigram_scale), optional(inputs.smear_gate_d),
      optional(inputs.gated_smear.weight_1w), optional(inputs.gated_smear.lambda_1),
      inputs.channels, result_dtype(inputs), inputs.gated_smear.bos_id,
      optional_tensor(inputs.table_gradient_vd), optional(ends), inputs.id_order);
}

}  // namespace tg
