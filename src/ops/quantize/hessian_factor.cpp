#include "ops/quantize/hessian_factor.h"

#include <ATen/core/grad_mode.h>

#include <cassert>
#include <optional>

#include "base/error.h"

namespace tg {
namespace {

constexpr double kDampings[] = {0.01, 0.1, 1, 10, 100};

bool on_host(const at::Tensor& flag) {
  return flag.cpu().const_data_ptr<bool>()[0];
}

// U of H⁻¹ = Uᵀ·U, without H⁻¹: reversed in rows and columns H is L·Lᵀ, and U is L⁻¹ reversed. None
// where H is not positive definite.
std::optional<at::Tensor> inverse_factor(const at::Tensor& hessian) {
  const auto [lower, info] = at::linalg_cholesky_ex(hessian.to(at::kDouble).flip({0, 1}));
  if (!on_host(info == 0)) return std::nullopt;
  const at::Tensor identity = at::eye(hessian.size(0), lower.options());
  const at::Tensor reversed = at::linalg_solve_triangular(lower, identity, /*upper=*/false);
  return reversed.flip({0, 1}).to(at::kFloat).contiguous();  // LAPACK's is stored by columns
}

}  // namespace

HessianFactor factor_hessian(const at::Tensor& hessian, std::string_view name) {
  const at::NoGradGuard no_grad;
  assert(hessian.dim() == 2 && hessian.size(0) == hessian.size(1));
  assert(hessian.scalar_type() == at::kFloat);
  REQUIRE(
      on_host(hessian.isfinite().all()), ExitCode::internal,
      "{}: its Hessian is not finite (expected finite numbers, found NaN or infinity); its "
      "inputs overflow on the calibration rows: look at the validation loss before quantisation",
      name);
  const at::Tensor dead = hessian.diagonal() == 0;
  const at::Tensor diagonal = hessian.diagonal().masked_fill(dead, 1);
  const at::Tensor mean = diagonal.mean();
  for (const double damping : kDampings) {
    const at::Tensor damped = diagonal + damping * mean;
    const at::Tensor order = damped.argsort(/*stable=*/true, /*dim=*/0, /*descending=*/true);
    at::Tensor ordered = hessian.index_select(0, order).index_select(1, order);
    ordered.diagonal().copy_(damped.index_select(0, order));
    if (const auto upper = inverse_factor(ordered)) return {*upper, order, dead, damping};
  }
  fail(
      ExitCode::internal,
      "{}: its Hessian is not positive definite (expected a sum of x·xᵀ, found one to which {:.0f} "
      "times its mean diagonal cannot be added to make it so); look at its inputs",
      name, *std::rbegin(kDampings));
}

}  // namespace tg
