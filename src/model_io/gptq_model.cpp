#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/progress.h"
#include "model_io/artifact_files.h"
#include "ops/quantize/gptq.h"
#include "weights/artifact/gptq_value.h"

namespace tg {

namespace {

constexpr std::int64_t kMinGate = 32, kMaxGate = 8192;  // elements

bool is_quantized_gate(const ParameterPart& part, const GptqConfig& config) {
  const auto elements = part.value.numel();
  return config.gated_attn_quant_gate && part.name.ends_with(".attn_gate_w") &&
         elements >= kMinGate && elements <= kMaxGate;
}

bool passes_through(const ParameterPart& part) {
  return part.value.numel() <= kMaxUnquantized || part.quantization == Quantization::keep_fp32;
}

GptqOptions options_of(const ParameterPart& part, const GptqConfig& config) {
  if (part.quantization == Quantization::int8)
    return {.clip_sigmas = config.embed_clip_sigmas, .bits = config.embed_bits};
  const auto has = [&](std::string_view word) { return part.name.find(word) != std::string::npos; };
  const auto sigmas = has(".mlp.")    ? config.mlp_clip_sigmas
                      : has(".attn.") ? config.attn_clip_sigmas
                                      : config.matrix_clip_sigmas;
  return {.clip_sigmas = sigmas, .bits = config.matrix_bits};
}

void warn_about_damping(const std::string& name, double damping) {
  constexpr double kUsual = 0.01;
  if (damping > kUsual)
    log_warn(
        "{}: the Hessian of its inputs is positive definite only with a damping of {} times its "
        "mean diagonal (usually {}), so rounding errors are compensated less. More "
        "GPTQ_CALIBRATION_BATCHES may help",
        name, damping, kUsual);
}

// `matrices`: number of those with dead inputs, which are 0 on all calibration rows; `first`: the
// dead inputs of the first.
void warn_about_dead_inputs(std::size_t matrices, const std::string& first, bool zeroed) {
  if (matrices == 0) return;
  log_warn(
      "inputs of {} matrices are 0 on every calibration row ({}), so GPTQ cannot calibrate their "
      "weights: {}. More or other calibration data may help, and more GPTQ_CALIBRATION_BATCHES",
      matrices, first,
      zeroed ? "they become 0, as in the script (RECORD_QUIRKS=1)" : "each is rounded by itself");
}

// Indices of matrices that share a Hessian; a single matrix without a Hessian.
struct Group {
  at::Tensor hessian;
  std::vector<std::size_t> matrices;
};
std::vector<Group> by_hessian(const std::vector<ParameterPart>& matrices,
                              const Hessians& hessians) {
  std::vector<Group> groups;
  std::map<const void*, std::size_t> group_of;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto found = hessians.find(matrices[i].name);
    const auto hessian = found == hessians.end() ? at::Tensor() : found->second;
    auto group = groups.size();
    if (hessian.defined())
      group = group_of.emplace(hessian.unsafeGetTensorImpl(), group).first->second;
    if (group == groups.size()) groups.push_back({hessian, {}});
    groups[group].matrices.push_back(i);
  }
  return groups;
}

// Frees each Hessian and its factor as soon as possible: they may be larger than all matrices of a
// block.
std::vector<GptqWeight> quantize(const std::vector<ParameterPart>& matrices, Hessians hessians,
                                 const GptqConfig& config, bool zero_dead) {
  auto groups = by_hessian(matrices, hessians);
  hessians.clear();
  std::vector<GptqWeight> quantized(matrices.size());
  std::size_t with_dead = 0;
  std::string first_dead;
  for (auto& [hessian, members] : groups) {
    std::optional<HessianFactor> factor;
    if (hessian.defined()) {
      const auto& name = matrices[members.front()].name;
      factor = factor_hessian(hessian, name);
      hessian.reset();
      warn_about_damping(name, factor->damping);
      const auto dead = factor->dead.sum().cpu().const_data_ptr<std::int64_t>()[0];
      if (dead > 0 && with_dead == 0)
        first_dead = fmt::format("{}: {} of {}", name, dead, factor->dead.numel());
      if (dead > 0) with_dead += members.size();
    }
    for (const auto i : members) {
      const auto& matrix = matrices[i];
      auto options = options_of(matrix, config);
      options.zero_dead = zero_dead;
      quantized[i] = factor ? gptq(matrix.value, *factor, options, matrix.name)
                            : round_to_nearest(matrix.value, options, matrix.name);
      report_progress(0);
    }
  }
  warn_about_dead_inputs(with_dead, first_dead, zero_dead);
  return quantized;
}

}  // namespace

GptqModel quantize_by_gptq(const ParameterTable& table, Hessians hessians, const GptqConfig& config,
                           bool record_quirks) {
  const at::NoGradGuard no_grad;
  const auto began = Clock::now();
  std::vector<ParameterPart> matrices;
  GptqModel model;
  for (const auto& part : unbanked(table)) {
    if (is_quantized_gate(part, config)) {
      model.tensors.push_back({part.name, quantize_gate_rows(part.value)});
    } else if (passes_through(part)) {
      model.tensors.push_back({part.name, part.value.to(at::kHalf)});
    } else {
      matrices.push_back(part);
      model.tensors.push_back({part.name, GptqWeight{}});
    }
  }
  auto quantized = quantize(matrices, std::move(hessians), config, record_quirks);
  if (config.lqer_enabled) {
    std::vector<at::Tensor> weights;
    for (const auto& part : matrices) weights.push_back(part.value);
    correct_largest_errors(weights, quantized, config.lqer_top_k,
                           {.rank = config.lqer_rank,
                            .bits = config.lqer_factor_bits,
                            .asymmetric = config.lqer_asym_enabled,
                            .group = config.lqer_asym_group});
  }
  auto next = quantized.begin();
  for (auto& tensor : model.tensors) {
    if (auto* weight = std::get_if<GptqWeight>(&tensor.stored)) *weight = std::move(*next++);
    model.event.names[kind_of(tensor)].push_back(tensor.name);
  }
  model.event.ms = milliseconds_since(began);
  return model;
}

}  // namespace tg
