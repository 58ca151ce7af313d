#include "ops/quantize/hessian_factor.h"

#include <ATen/core/grad_mode.h>

#include <cassert>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "ops/quantize/rounding.h"

namespace tg {
namespace {

constexpr double kDampings[] = {0.01, 0.1, 1, 10, 100};

// Returns U of H⁻¹ = Uᵀ·U without computing H⁻¹: with L·Lᵀ the Cholesky factorization of H with
// rows and columns reversed, U is L⁻¹ reversed. Returns nullopt if H is not positive definite or U
// is not representable in fp32.
std::optional<at::Tensor> inverse_factor(const at::Tensor& hessian) {
  const auto [lower, info] = at::linalg_cholesky_ex(hessian.to(at::kDouble).flip({0, 1}));
  const at::Tensor identity = at::eye(hessian.size(0), lower.options());
  const at::Tensor reversed = at::linalg_solve_triangular(lower, identity, /*upper=*/false);
  // LAPACK's result is column-major.
  const at::Tensor upper = reversed.flip({0, 1}).to(at::kFloat).contiguous();
  const bool usable = info.cpu().const_data_ptr<int>()[0] == 0 && all_finite(upper) &&
                      all_finite(upper.diagonal().reciprocal());
  return usable ? std::optional(upper) : std::nullopt;
}

}  // namespace

HessianFactor factor_hessian(const at::Tensor& hessian, std::string_view name) {
  const at::NoGradGuard no_grad;
  assert(hessian.dim() == 2 && hessian.size(0) == hessian.size(1));
  assert(hessian.scalar_type() == at::kFloat);
  REQUIRE(
      all_finite(hessian), ExitCode::internal,
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
  fail(ExitCode::internal,
       "{}: its Hessian is not positive definite (expected a sum of x·xᵀ; adding {:.0f} times its "
       "mean diagonal does not help); its inputs overflow on the calibration rows",
       name, *std::rbegin(kDampings));
}

}  // namespace tg
