#include "training_gemms.h"

#include <cmath>

#include "ops/gemm/gemm.h"
#include "ops/gemm/linear.h"
#include "ops/loss/linear_cross_entropy.h"

namespace tg {

namespace {

using Kind = TrainingGemm::Kind;

constexpr GemmRecipe kRecipes[] = {
    {"record", 98304, 11, 512, 1536, 1024, 1024},
    {"speedrun_124m", 65536, 12, 768, 3072, 2304, 50304},
};
constexpr std::int64_t kMicroBatches = 8;  // per step

at::Tensor random_operand(at::IntArrayRef sizes, at::ScalarType dtype, at::Device device) {
  const auto values = at::randn(sizes, at::TensorOptions(device).dtype(at::kBFloat16));
  if (dtype == at::kBFloat16) return values;
  // e4m3's maximum is seven standard deviations.
  return values.mul_(64).clamp_(-kFp8Max, kFp8Max).to(dtype);
}

at::Tensor scale_of_operand(at::Device device) {
  return at::full({}, 1.0 / 64, at::TensorOptions(device).dtype(at::kFloat));
}

}  // namespace

std::span<const GemmRecipe> gemm_recipes() {
  return kRecipes;
}

GemmProblem TrainingGemm::problem() const {
  const auto a = !fp8 ? at::kBFloat16 : e5m2 ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  const auto b = fp8 ? at::kFloat8_e4m3fn : at::kBFloat16;
  // FP8 operands are read along k: both are stored that way, and b is transposed.
  switch (kind) {
    case Kind::forward:
      return {tokens, out, in, a, b, at::kBFloat16, false, true, false, fast};
    case Kind::input_gradient:
      return {tokens, in, out, a, b, at::kBFloat16, false, fp8, false, fast};
    case Kind::weight_gradient:
      return {out, in, tokens, a, b, at::kFloat, !fp8, fp8, true, fast};
  }
  return {};
}

double TrainingGemm::flops() const {
  return 2.0 * static_cast<double>(tokens) * static_cast<double>(out) * static_cast<double>(in);
}

GemmTensors TrainingGemm::make_tensors(at::Device device) const {
  const auto p = problem();
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool transposed,
                          at::ScalarType dtype) {
    return transposed ? random_operand({columns, rows}, dtype, device)
                      : random_operand({rows, columns}, dtype, device);
  };
  const auto options = at::TensorOptions(device).dtype(p.out_dtype);
  return {.a = matrix(p.m, p.k, p.a_transposed, p.a_dtype),
          .b = matrix(p.k, p.n, p.b_transposed, p.b_dtype),
          .out = at::randn({p.m, p.n}, options).mul_(std::sqrt(static_cast<double>(p.k))),
          .scale_a = fp8 ? scale_of_operand(device) : at::Tensor(),
          .scale_b = fp8 ? scale_of_operand(device) : at::Tensor()};
}

// In bf16 the calls that algorithm_choice leaves to LibTorch 2.11 reach cublasGemmEx (its cublasLt
// path requires a one-dimensional bias).
at::Tensor TrainingGemm::call(const GemmTensors& t) const {
  const bool accumulates = kind == Kind::weight_gradient;
  if (fp8 && accumulates) {
    accumulate_fp8_gemm(t.out, t.a, t.scale_a, t.b, t.scale_b);
    return t.out;
  }
  if (fp8) return fp8_matmul(t.a, t.scale_a, t.b, t.scale_b, fast);
  if (kind == Kind::forward) return gemm(t.a, t.b.t());
  if (kind == Kind::input_gradient) return gemm(t.a, t.b);
  accumulate_gemm(t.out, t.a.t(), t.b);
  return t.out;
}

std::vector<TrainingGemm> training_gemms(const GemmRecipe& r) {
  std::vector<TrainingGemm> gemms;
  // The first GEMM of a fused head is our own kernel's.
  const bool fused_head = r.vocab >= kMinFusedColumns;
  const auto add = [&](Kind kind, const char* matrix, bool fp8, std::int64_t out, std::int64_t in,
                       bool in_bf16, bool in_fp8) -> TrainingGemm& {
    const char* suffix = kind == Kind::forward          ? "forward"
                         : kind == Kind::input_gradient ? "input gradient"
                                                        : "weight gradient";
    const bool is_head = std::string(matrix) == "head";
    const auto tokens = is_head && fused_head ? fused_head_rows(r.tokens, r.vocab) : r.tokens;
    const auto chunks = (r.tokens + tokens - 1) / tokens;
    return gemms.emplace_back(
        TrainingGemm{.kind = kind,
                     .name = std::string(matrix) + " " + suffix,
                     .fp8 = fp8,
                     .in_bf16 = in_bf16,
                     .in_fp8 = in_fp8,
                     .per_step = kMicroBatches * (is_head ? chunks : r.layers),
                     .tokens = tokens,
                     .out = out,
                     .in = in,
                     .fast = fp8 && kind != Kind::weight_gradient});
  };
  const auto in_bf16 = [&](Kind kind, const char* matrix, std::int64_t out, std::int64_t in,
                           bool also_with_fp8 = false) {
    add(kind, matrix, /*fp8=*/false, out, in, true, also_with_fp8);
  };
  in_bf16(Kind::forward, "down", r.dim, r.hidden);
  in_bf16(Kind::input_gradient, "out", r.dim, r.dim);
  in_bf16(Kind::input_gradient, "up", r.hidden, r.dim);
  in_bf16(Kind::input_gradient, "qkv", r.qkv_dim, r.dim);
  in_bf16(Kind::weight_gradient, "qkv", r.qkv_dim, r.dim);
  // The weight gradient of the output projection reads attention's output, which is not transposed
  // in FP8.
  in_bf16(Kind::weight_gradient, "out", r.dim, r.dim, /*also_with_fp8=*/true);
  in_bf16(Kind::weight_gradient, "up", r.hidden, r.dim);
  in_bf16(Kind::weight_gradient, "down", r.dim, r.hidden);
  if (!fused_head) in_bf16(Kind::forward, "head", r.vocab, r.dim, /*also_with_fp8=*/true);
  in_bf16(Kind::input_gradient, "head", r.vocab, r.dim, !fused_head);
  in_bf16(Kind::weight_gradient, "head", r.vocab, r.dim, !fused_head);

  const auto in_fp8 = [&](Kind kind, const char* matrix, std::int64_t out,
                          std::int64_t in) -> TrainingGemm& {
    return add(kind, matrix, /*fp8=*/true, out, in, false, true);
  };
  in_fp8(Kind::forward, "down", r.dim, r.hidden);
  in_fp8(Kind::forward, "out", r.dim, r.dim);
  in_fp8(Kind::input_gradient, "out", r.dim, r.dim);
  in_fp8(Kind::input_gradient, "up", r.hidden, r.dim);
  in_fp8(Kind::input_gradient, "qkv", r.qkv_dim, r.dim);
  in_fp8(Kind::weight_gradient, "qkv", r.qkv_dim, r.dim);
  in_fp8(Kind::weight_gradient, "up", r.hidden, r.dim);
  in_fp8(Kind::weight_gradient, "down", r.dim, r.hidden);
  if (!fused_head) return gemms;
  for (const auto kind : {Kind::input_gradient, Kind::weight_gradient}) {
    auto& head = in_fp8(kind, "head", r.vocab, r.dim);
    head.fast = false;
    head.e5m2 = true;
  }
  return gemms;
}

}  // namespace tg
