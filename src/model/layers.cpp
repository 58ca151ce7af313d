#include "model/layers.h"

#include <utility>

#include "ops/embedding/embedding_lookup.h"
#include "ops/embedding/learned_scale.h"
#include "ops/mlp/leaky_relu_squared.h"
#include "ops/mlp/mlp.h"
#include "ops/norm/linear_residual_norm.h"
#include "ops/pad.h"

namespace tg {

Layer::Layer(const Layers& layers, const LayerCall& call, const PassInputs& pass,
             const at::Tensor& x)
    : layers_(layers),
      call_(call),
      pass_(pass),
      weights_(layers.weights_.block(call, pass.fp8)),
      kernels_(layers.choose_kernels(call, x, pass)) {}

const BlockPlan& Layer::block() const {
  return layers_.plan_.block(call_);
}

NormOptions Layer::norm(NormedForm form, const Weight& weight) const {
  return {.scale = call_.norm_scale,
          .channels = layers_.plan_.shape.dim,
          .form = form,
          .rounding = weight.fp8.input};
}

ResidualNorm Layer::norm_for_attention(const MixTerms& terms, std::size_t keep) const {
  return residual_norm(terms, norm(kernels_.attention_input, weights_.qkv), keep);
}

ResidualNorm Layer::norm_for_mlp(const MixTerms& terms, std::size_t keep) const {
  return residual_norm(terms, norm(kernels_.mlp_input, weights_.up), keep);
}

NormedLanes Layer::norm_lanes(const LaneTerms& terms) const {
  // Scored rows are sliced from materialized ones.
  const auto mlp_input = pass_.scored(call_) ? NormedForm::materialized : kernels_.mlp_input;
  return residual_norm(
      terms, {norm(kernels_.attention_input, weights_.qkv), norm(mlp_input, weights_.up)});
}

Attention::Output Layer::attention(const NormedInput& n_btd, const at::Tensor& values,
                                   const at::Tensor& first_v,
                                   const TokenHeadWeights& token_weights) const {
  return layers_.attention_.forward(call_, n_btd, weights_, values, first_v, pass_, kernels_.qkv,
                                    token_weights);
}

ResidualNorm Layer::add_attention(const at::Tensor& x_btd,
                                  const Attention::Output& attended) const {
  const auto x = scored(x_btd);
  const bool adapts = pass_.loras != nullptr && pass_.loras->adapts_out(call_);
  const auto adapted = adapts ? pass_.loras->add_out(call_, x.clone(), attended.inner) : x;
  return linear_residual_norm(attended.y, weights_.out, adapted,
                              norm(kernels_.mlp_input, weights_.up), attended.passed, kernels_.out);
}

MixTerm Layer::project(const Attention::Output& attended) const {
  auto projected = linear(attended.y, weights_.out);
  if (pass_.loras != nullptr) projected = pass_.loras->add_out(call_, projected, attended.inner);
  return {.tensor = projected, .gradient_scaling = weights_.out.fp8.output_gradient};
}

MixTerm Layer::mlp(const NormedInput& n_btd) const {
  const auto negative_slope = layers_.plan_.negative_slope;
  if (pass_.observer != nullptr) {
    pass_.observe(Operand::up, call_.block, n_btd);
    const auto activation = leaky_relu_squared(linear(n_btd, weights_.up), negative_slope);
    pass_.observe(Operand::down, call_.block, activation);
    return {.tensor = linear(activation, weights_.down)};
  }
  const bool light = layers_.numerics_.recompute == ActivationRecompute::light;
  const auto y = tg::mlp(n_btd, weights_.up, weights_.down, negative_slope, light, kernels_.mlp);
  return {.tensor = pass_.loras != nullptr ? pass_.loras->add_mlp(call_, y, n_btd) : y,
          .gradient_scaling = weights_.down.fp8.output_gradient};
}

at::Tensor Layer::scored(const at::Tensor& x) const {
  return pass_.scored_rows(x, call_).contiguous();
}

NormedInput Layer::scored(const NormedInput& n) const {
  return pass_.scored(call_) ? NormedInput(scored(n.rows())) : n;
}

Layers::Layers(const Plan& plan, const ComputeSizes& sizes, const ParameterTable& table,
               const WeightCopies& weights, const Numerics& numerics)
    : plan_(plan),
      sizes_(sizes),
      table_(table),
      weights_(weights),
      numerics_(numerics),
      attention_(plan, sizes, table) {}

at::Tensor Layers::widened(const at::Tensor& parameter) const {
  return pad_last(parameter, sizes_.dim);
}

bool Layers::recomputes_blocks() const {
  return numerics_.recompute == ActivationRecompute::block && at::GradMode::is_enabled();
}

LayerKernels Layers::choose_kernels(const LayerCall& call, const at::Tensor& x,
                                    const PassInputs& pass) const {
  const auto& weights = weights_.block(call, pass.fp8);
  const bool observed = pass.observer != nullptr, adapted = pass.loras != nullptr;
  const auto mlp = observed ? Kernel::aten : choose_mlp(x, weights.up, weights.down);
  const auto feeds = mlp_input(mlp);
  if (!call.attends) return {.mlp = mlp, .mlp_input = feeds};
  const auto qkv = attention_.choose_qkv(call, weights, x, pass);
  return {.qkv = qkv,
          .out = choose_linear_residual_norm(x, weights.out, feeds),
          .mlp = mlp,
          .attention_input = observed || adapted ? NormedForm::materialized
                                                 : attention_.input(call, weights, x, pass, qkv),
          .mlp_input = feeds};
}

at::Tensor Layers::embedding(ParameterId table, const at::Tensor& ids,
                             std::shared_ptr<IdOrder> order, const TablePart& part) const {
  if (!table) return {};
  const auto rows_of = [&](const at::Tensor& all) {
    if (!all.defined() || part.count == 1) return all;
    const auto rows = all.size(0) / part.count;
    return all.narrow(0, part.index * rows, rows);
  };
  return embedding_lookup(rows_of(table_[table]), ids, rows_of(weights_.table_gradient(table)),
                          std::move(order))
      .to(numerics_.compute);
}

at::Tensor Layers::as_values(const at::Tensor& x_btd) const {
  const auto& shape = plan_.shape;
  const auto channels = shape.kv_heads * shape.head_dim;
  // narrow()'s gradient is a copy, also if it narrows nothing.
  const auto x = x_btd.size(-1) == channels ? x_btd : x_btd.narrow(-1, 0, channels);
  return pad_heads(x, -1, shape.kv_heads, sizes_.head_dim);
}

at::Tensor Layers::call_values(const LayerCall& call, const at::Tensor& embedded) const {
  if (!call.value_scale) return {};
  const auto& plan = plan_.value_embedding;
  const auto own = table_[call.value_scale];
  const auto scale = plan.scale ? table_[plan.scale] * own : own;
  const auto kv_heads = plan_.shape.kv_heads, head = sizes_.head_dim;
  if (!plan.projection) return as_values(learned_scale(embedded, scale));
  // Scales the small matrix instead of its output for every token.
  const auto weight = pad_heads(weights_.small(table_[plan.projection]) * scale, 0, kv_heads, head);
  return linear(embedded, {weight, {}});
}

NormOptions Layers::head_norm(const PassInputs& pass) const {
  return {.channels = plan_.shape.dim, .rounding = weights_.head(pass.fp8).fp8.input};
}

}  // namespace tg
