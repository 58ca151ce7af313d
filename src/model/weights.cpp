#include "model/weights.h"

#include <fmt/format.h>

#include "config/derived.h"
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
at::Tensor layer_of(const at::Tensor& bank, std::int64_t layer) {
  return bank.defined() ? bank[layer] : bank;
}

}  // namespace

WeightCopies::WeightCopies(const ModelConfig& config, const ParameterTable& table,
                           const Numerics& numerics)
    : numerics_(numerics) {
  const auto layers = config.num_layers;
  const auto copy_of_bank = [&](const at::Tensor& bank, std::int64_t first) {
    const auto value =
        at::empty_like(bank.narrow(0, first, layers), at::TensorOptions().dtype(numerics_.compute));
    copies_.push_back({bank.detach().narrow(0, first, layers), value, /*is_bank=*/true});
    return std::pair{value, rows_of(gradient_of(bank), first, layers)};
  };
  const at::NoGradGuard no_grad;
  const auto kv_dim = config.num_kv_heads * head_dim(config);
  // qo_bank is the query matrices, then the output matrices; kv_bank the key, then the value
  // matrices.
  const std::pair<at::Tensor, std::int64_t> parts[] = {
      {table["qo_bank"], 0}, {table["kv_bank"], 0}, {table["kv_bank"], layers}};
  const auto rows = config.model_dim + 2 * kv_dim;
  const auto options = table["qo_bank"].options();
  const auto qkv = at::empty({layers, rows, config.model_dim}, options.dtype(numerics_.compute));
  const bool trains = table["qo_bank"].requires_grad();
  if (trains) qkv_gradient_ = at::zeros(qkv.sizes(), options);
  std::int64_t row = 0;
  for (const auto& [bank, first] : parts) {
    const auto height = bank.size(1);
    copies_.push_back({bank.detach().narrow(0, first, layers), qkv.narrow(1, row, height), true});
    if (trains) {
      gradient_slices_.emplace_back(qkv_gradient_.narrow(1, row, height),
                                    gradient_of(bank).narrow(0, first, layers));
    }
    row += height;
  }
  const auto [out, out_gradient] = copy_of_bank(table["qo_bank"], layers);
  const auto [up, up_gradient] = copy_of_bank(table["mlp_up_bank"], 0);
  const auto [down, down_gradient] = copy_of_bank(table["mlp_down_bank"], 0);
  for (std::int64_t i = 0; i < layers; ++i) {
    layers_.push_back({{qkv[i], layer_of(qkv_gradient_, i)},
                       {out[i], layer_of(out_gradient, i)},
                       {up[i], layer_of(up_gradient, i)},
                       {down[i], layer_of(down_gradient, i)}});
  }
  if (const auto head = table.find("lm_head.weight"); head.defined()) head_ = make_copy(head);
  for (std::int64_t k = 0; k < config.mtp_num_heads; ++k) {
    mtp_heads_.push_back(make_copy(table[fmt::format("mtp_heads.{}.weight", k)]));
  }
  cast();
}

Weight WeightCopies::make_copy(const at::Tensor& parameter) {
  const auto value = at::empty_like(parameter.detach(), numerics_.compute);
  copies_.push_back({parameter.detach(), value, /*is_bank=*/false});
  return {value, gradient_of(parameter)};
}

at::Tensor WeightCopies::rounded(const at::Tensor& parameter, bool is_bank) const {
  // The reference implementation's QAT skips the banks and has one level more than its quantiser
  // (-32).
  const bool rounds = fake_quant_ && !(is_bank && numerics_.record_quirks);
  return rounds ? fake_quant(parameter, numerics_.record_quirks ? -32 : -31) : parameter;
}

void WeightCopies::cast() {
  const at::NoGradGuard no_grad;
  for (const auto& copy : copies_) copy.value.copy_(rounded(copy.parameter, copy.is_bank));
}

void WeightCopies::collect_gradients() {
  const at::NoGradGuard no_grad;
  for (const auto& [from, to] : gradient_slices_) to.add_(from);
  qkv_gradient_.zero_();
}

at::Tensor WeightCopies::small(const at::Tensor& parameter) const {
  return rounded(parameter, /*is_bank=*/false).to(numerics_.compute);
}

}  // namespace tg
