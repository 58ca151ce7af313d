#include "model/weights.h"

#include <fmt/format.h>

#include "ops/loss/linear_cross_entropy.h"
#include "ops/quantize/fake_quant.h"

namespace tg {

namespace {

// Undefined where the parameter requires none, as for inference. Allocates the gradient if it is
// not yet there: a captured step needs a fixed address.
at::Tensor gradient_of(const at::Tensor& parameter) {
  if (!parameter.requires_grad()) return {};
  auto& gradient = at::Tensor(parameter).mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(parameter.detach());
  return gradient;
}

// Of an undefined tensor: undefined.
at::Tensor rows_of(const at::Tensor& bank, std::int64_t first, std::int64_t count) {
  return bank.defined() ? bank.narrow(0, first, count) : bank;
}
Weight layer_of(const Weight& bank, std::int64_t layer) {
  return {bank.value[layer], bank.gradient.defined() ? bank.gradient[layer] : bank.gradient};
}
LayerWeights layer_of(const LayerWeights& banks, std::int64_t layer) {
  return {layer_of(banks.qkv, layer), layer_of(banks.out, layer), layer_of(banks.up, layer),
          layer_of(banks.down, layer)};
}

}  // namespace

WeightCopies::Slices WeightCopies::placed(const at::Tensor& whole, const at::Tensor& padded,
                                          const Placement& at) {
  if (whole.sizes() == padded.sizes() && at.runs.size() <= 1) return {{whole, padded}};
  const bool by_head = at.heads > 0;
  const auto from = by_head ? whole.unflatten(at.dim, {at.heads, -1}) : whole;
  auto to = by_head ? padded.unflatten(at.dim, {at.heads, -1}) : padded;
  const auto channels = by_head ? at.dim + 1 : -1;
  for (std::int64_t dim = 0; dim < from.dim(); ++dim) {
    if (dim != channels) to = to.narrow(dim, 0, from.size(dim));
  }
  if (!by_head) return {{from, to}};
  Slices slices;
  for (const auto& run : at.runs) {
    slices.emplace_back(from.narrow(channels, run.from, run.count),
                        to.narrow(channels, run.to, run.count));
  }
  return slices;
}

at::Tensor RowScales::columns() const {
  std::vector<at::Tensor> values;
  for (const auto& parameter : parameters) values.push_back(parameter.value);
  return (offset + factor * at::stack(values)).unsqueeze(-1);
}

RowScales WeightCopies::layer_scales(const ParameterTable& table, std::int64_t layers,
                                     const char* name) {
  RowScales scales;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto scale = table.find(fmt::format("blocks.{}.{}", i, name));
    if (scale.defined()) scales.parameters.push_back({scale.detach(), gradient_of(scale)});
  }
  return scales;
}

RowScales WeightCopies::value_weights(const ParameterTable& table, std::int64_t layers) {
  RowScales scales;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto lambdas = table.find(fmt::format("blocks.{}.attn.vr_lambda", i));
    const auto blend = table.find(fmt::format("blocks.{}.attn.value_blend", i));
    if (lambdas.defined() && i > 0)
      scales.parameters.push_back(
          {lambdas.detach().narrow(0, 1, 1), rows_of(gradient_of(lambdas), 1, 1)});
    if (!blend.defined()) continue;
    scales.offset = 1, scales.factor = -1;
    const auto gradient = gradient_of(blend);  // layer 0's stays 0, and is stepped as such
    const auto as_row = [](const at::Tensor& x) { return x.defined() ? x.view({1}) : x; };
    if (i > 0) scales.parameters.push_back({as_row(blend.detach()), as_row(gradient)});
  }
  return scales;
}

WeightCopies::WeightCopies(const ModelConfig& config, const ParameterTable& table,
                           const Numerics& numerics)
    : numerics_(numerics) {
  const at::NoGradGuard no_grad;
  const auto sizes = compute_sizes(config, numerics.padding);
  const auto layers = config.num_layers;
  const auto matrices = [&](const char* bank, std::int64_t first) {
    return matrices_of(table[bank], first, layers);
  };
  // qo_bank is the query matrices, then the output matrices.
  LayerWeights banks;
  banks.qkv = make_qkv(config, table, sizes);
  banks.out = make_copy(
      matrices("qo_bank", layers), {layers, sizes.dim, config.num_heads * sizes.head_dim},
      {2, config.num_heads, sizes.v_runs}, true, layer_scales(table, layers, "attn_scale"));
  banks.up = make_copy(matrices("mlp_up_bank", 0), {layers, sizes.hidden, sizes.dim}, {}, true);
  banks.down = make_copy(matrices("mlp_down_bank", 0), {layers, sizes.dim, sizes.hidden}, {}, true,
                         layer_scales(table, layers, "mlp_scale"));
  for (std::int64_t i = 0; i < layers; ++i) layers_.push_back(layer_of(banks, i));
  training_layers_ = layers_;
  if (const auto head = table.find("lm_head.weight"); head.defined())
    head_ = make_head(head, sizes);
  training_head_ = head_;
  if (numerics_.fp8.any()) make_fp8(banks, config.logit_softcap);
  for (std::int64_t k = 0; k < config.mtp_num_heads; ++k)
    mtp_heads_.push_back(make_head(table[fmt::format("mtp_heads.{}.weight", k)], sizes));
  cast();
}

WeightSource WeightCopies::matrices_of(const at::Tensor& bank, std::int64_t first,
                                       std::int64_t count) {
  return {bank.detach().narrow(0, first, count), rows_of(gradient_of(bank), first, count)};
}

Weight WeightCopies::make_qkv(const ModelConfig& config, const ParameterTable& table,
                              const ComputeSizes& sizes) {
  const auto layers = config.num_layers, heads = config.num_heads, kv_heads = config.num_kv_heads;
  const auto &queries = table["qo_bank"], &keys_values = table["kv_bank"];
  const auto options = queries.options().requires_grad(false);
  const std::vector<std::int64_t> shape{layers, (heads + 2 * kv_heads) * sizes.head_dim, sizes.dim};
  Weight qkv{at::zeros(shape, options.dtype(numerics_.compute)), {}};
  if (queries.requires_grad()) {
    qkv.gradient = at::zeros(shape, options);
    gradient_buffers_.push_back(qkv.gradient);
  }
  // From `layer` on the rows of `count` heads from `head` on.
  const auto copy = [&](const WeightSource& from, std::int64_t layer, std::int64_t head,
                        std::int64_t count, const std::vector<ChannelRun>& runs,
                        const RowScales& scales = {}) {
    const auto part_of = [&](const at::Tensor& x) {
      if (!x.defined()) return x;
      return x.narrow(0, layer, from.value.size(0))
          .narrow(1, head * sizes.head_dim, count * sizes.head_dim);
    };
    copy_into({part_of(qkv.value), part_of(qkv.gradient)}, from, {1, count, runs}, true, scales);
  };
  copy(matrices_of(queries, 0, layers), 0, 0, heads, sizes.qk_runs);
  // kv_bank is the key matrices, then the value matrices.
  copy(matrices_of(keys_values, 0, layers), 0, heads, kv_heads, sizes.qk_runs);
  const auto weights = value_weights(table, layers);
  const auto weighted = std::ssize(weights.parameters), first_value = heads + kv_heads;
  copy(matrices_of(keys_values, layers, layers - weighted), 0, first_value, kv_heads, sizes.v_runs);
  if (weighted > 0)
    copy(matrices_of(keys_values, 2 * layers - weighted, weighted), layers - weighted, first_value,
         kv_heads, sizes.v_runs, weights);
  return qkv;
}

Weight WeightCopies::make_copy(const WeightSource& source, at::IntArrayRef sizes,
                               const Placement& placement, bool is_bank, const RowScales& scales) {
  const auto& parameter = source.value;
  Weight copy{at::zeros(sizes, parameter.options().dtype(numerics_.compute)), source.gradient};
  const bool padded = parameter.sizes() != sizes;
  if (padded && source.gradient.defined()) {
    copy.gradient = at::zeros(sizes, source.gradient.options());
    gradient_buffers_.push_back(copy.gradient);
  }
  copy_into({copy.value, padded ? copy.gradient : at::Tensor()}, source, placement, is_bank,
            scales);
  return copy;
}

// `target.gradient`: a buffer whose slices are added to the source's gradient, or undefined.
void WeightCopies::copy_into(const Weight& target, const WeightSource& source,
                             const Placement& placement, bool is_bank, const RowScales& scales) {
  copies_.push_back({source, target.value, placement, is_bank, scales});
  if (!target.gradient.defined()) return;
  for (const auto& slices : placed(source.gradient, target.gradient, placement))
    gradient_slices_.push_back(slices);
}

void WeightCopies::make_fp8(const LayerWeights& banks, double logit_softcap) {
  const auto& fp8 = numerics_.fp8;
  const struct {
    bool wanted;
    Weight LayerWeights::*matrix;
  } kinds[] = {{fp8.qkv, &LayerWeights::qkv},
               {fp8.out, &LayerWeights::out},
               {fp8.mlp, &LayerWeights::up},
               {fp8.mlp, &LayerWeights::down}};
  const auto layers = static_cast<std::int64_t>(layers_.size());
  const bool has_head = head_.value.defined();
  const auto of_layers = layers * static_cast<std::int64_t>(std::size(kinds));
  fp8_scales_ =
      Fp8Scales(of_layers + 2 * has_head, numerics_.step_tokens, banks.qkv.value.device());
  if (has_head) guess_head_scales(of_layers, logit_softcap);
  if (!numerics_.has_fp8) return;
  std::int64_t product = 0;
  for (const auto& [wanted, matrix] : kinds) {
    if (!wanted) continue;
    const auto bank = empty_fp8_weights((banks.*matrix).value);
    fp8_banks_.push_back({(banks.*matrix).value, bank});
    for (std::int64_t i = 0; i < layers; ++i, ++product) {
      (training_layers_[static_cast<std::size_t>(i)].*matrix).fp8 = {
          .value = bank.value[i],
          .transposed = bank.transposed[i],
          .scale = bank.scale[i],
          .input = fp8_scales_.input(product),
          .output_gradient = fp8_scales_.output_gradient(product)};
    }
  }
  if (fp8.head && has_head && supports_fp8_head(head_.value, logit_softcap))
    make_fp8_head(of_layers);
}

Fp8Parts WeightCopies::fp8_parts() const {
  auto parts = numerics_.has_fp8 ? numerics_.fp8 : Fp8Parts{};
  parts.head = training_head_.fp8.defined();
  return parts;
}

void WeightCopies::guess_head_scales(std::int64_t product, double logit_softcap) {
  // Of logits near 0: weights e^−cap, of which the gradient has a quarter, a share of 4/(tokens·S),
  // and an input's elements up to 8. A logit that is far from it saturates, or is lost, for one
  // step. Beyond kMaxSoftcap the head is not computed in FP8.
  const double weight = std::exp(-std::min(logit_softcap, cuda::kMaxSoftcap));
  const double sum = weight * static_cast<double>(head_.value.size(0));
  fp8_scales_.set_head(product, weight / 4,
                       8 * 4 / (static_cast<double>(numerics_.step_tokens) * sum));
}

void WeightCopies::make_fp8_head(std::int64_t product) {
  const auto bank = head_.value.unsqueeze(0);
  const auto head = empty_fp8_weights(bank);
  fp8_banks_.push_back({bank, head});
  training_head_.fp8 = {.value = head.value[0],
                        .transposed = head.transposed[0],
                        .scale = head.scale[0],
                        .input = fp8_scales_.input(product),
                        .output_gradient = fp8_scales_.output_gradient(product),
                        .scaled_input = fp8_scales_.input(product + 1)};
}

Weight WeightCopies::make_head(const at::Tensor& parameter, const ComputeSizes& sizes) {
  return make_copy({parameter.detach(), gradient_of(parameter)}, {sizes.vocab, sizes.dim}, {},
                   /*is_bank=*/false);
}

at::Tensor WeightCopies::rounded(const at::Tensor& parameter, bool is_bank) const {
  // The reference implementation's QAT skips the banks and has one level more than its quantiser
  // (-32).
  const bool rounds = fake_quant_ && !(is_bank && numerics_.record_quirks);
  return rounds ? fake_quant(parameter, numerics_.record_quirks ? -32 : -31) : parameter;
}

void WeightCopies::cast() {
  const at::NoGradGuard no_grad;
  for (const auto& copy : copies_) {
    auto parameter = rounded(copy.source.value, copy.is_bank);
    if (!copy.scales.parameters.empty()) parameter = parameter * copy.scales.columns();
    for (const auto& [from, to] : placed(parameter, copy.value, copy.placement)) to.copy_(from);
  }
  for (const auto& [from, to] : fp8_banks_) round_weights(from, to);
}

void WeightCopies::collect_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& [gradient, buffered] : gradient_slices_) gradient.add_(buffered);
  for (const auto& buffer : gradient_buffers_) buffer.zero_();
  for (const auto& copy : copies_) unscale_gradient(copy);
}

void WeightCopies::unscale_gradient(const Copy& copy) {
  const auto& parameters = copy.scales.parameters;
  const auto& [value, gradient] = copy.source;
  if (parameters.empty() || !gradient.defined()) return;
  const auto products = (gradient * rounded(value, copy.is_bank)).sum(-1);  // [matrices, rows]
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto of_matrix = products[static_cast<std::int64_t>(i)];
    const auto& target = parameters[i].gradient;
    target.add_(of_matrix.sum_to_size(target.sizes()), copy.scales.factor);
  }
  gradient.mul_(copy.scales.columns());
}

at::Tensor WeightCopies::small(const at::Tensor& parameter) const {
  return rounded(parameter, /*is_bank=*/false);
}

}  // namespace tg
