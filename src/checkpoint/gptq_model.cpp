#include "checkpoint/gptq_model.h"

#include <map>
#include <string>
#include <variant>

#include "base/elapsed.h"
#include "base/log.h"
#include "base/progress.h"
#include "ops/quantize/gptq.h"
#include "weights/gptq_value.h"
#include "weights/write_artifact.h"

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

void warn_of_damping(const std::string& name, double damping) {
  constexpr double kUsual = 0.01;
  if (damping > kUsual)
    log_warn(
        "{}: the Hessian of its inputs is positive definite only with {} times its mean diagonal "
        "added to it (usually {}); its weights make up less for each other's errors. More "
        "GPTQ_CALIBRATION_BATCHES may help",
        name, damping, kUsual);
}

// The factor of each Hessian, computed once for the matrices that share it.
class Factors {
 public:
  explicit Factors(const Hessians& hessians) : hessians_(hessians) {}

  // Null where the matrix has no Hessian.
  const HessianFactor* of(const std::string& name) {
    const auto hessian = hessians_.find(name);
    if (hessian == hessians_.end()) return nullptr;
    const auto [factor, is_new] = factors_.try_emplace(hessian->second.unsafeGetTensorImpl());
    if (is_new) {
      factor->second = factor_hessian(hessian->second, name);
      warn_of_damping(name, factor->second.damping);
    }
    return &factor->second;
  }

 private:
  const Hessians& hessians_;
  std::map<const void*, HessianFactor> factors_;
};

}  // namespace

GptqModel quantize_by_gptq(const ParameterTable& table, const Hessians& hessians,
                           const GptqConfig& config) {
  const at::NoGradGuard no_grad;
  const auto began = Clock::now();
  Factors factors(hessians);
  std::vector<ParameterPart> matrices;
  std::vector<GptqWeight> quantized;
  GptqModel model;
  for (const auto& part : unbanked(table)) {
    if (is_quantized_gate(part, config)) {
      model.tensors.push_back({part.name, quantize_gate_rows(part.value)});
    } else if (passes_through(part)) {
      model.tensors.push_back({part.name, part.value.to(at::kHalf)});
    } else {
      const auto options = options_of(part, config);
      const auto* factor = factors.of(part.name);
      quantized.push_back(factor ? gptq(part.value, *factor, options, part.name)
                                 : round_to_nearest(part.value, options, part.name));
      matrices.push_back(part);
      model.tensors.push_back({part.name, GptqWeight{}});
    }
    report_progress(0);
  }
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
