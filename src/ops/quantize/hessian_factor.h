#pragma once
#include <ATen/ATen.h>

#include <map>
#include <string>
#include <string_view>

namespace tg {

// Hessians by the matrix's name in the artifact: H = Σ x·xᵀ over the input rows x of a matrix [out,
// in], summed over batches and ranks and divided by the number of batches. [in, in] fp32, fp64 if
// the parameters are. GPTQ minimizes tr(E·H·Eᵀ) for the quantization error E (Frantar et al. 2023,
// who define the Hessian as 2·H). Matrices with the same input share one tensor.
using Hessians = std::map<std::string, at::Tensor>;

// Factorization of the Hessian H = Σ x·xᵀ [n, n] for GPTQ: the factor U of H⁻¹ = Uᵀ·U after
// damping, with the rows and columns of H in `order`.
struct HessianFactor {
  at::Tensor upper;  // U [n, n] fp32, upper triangular
  at::Tensor order;  // [n] int64: columns by damped diagonal, descending (stable)
  at::Tensor dead;   // [n] bool: inputs that were always 0
  // Value added to the diagonal, as a fraction of its mean: the first of 0.01, 0.1, 1, 10 and 100
  // with which H is positive definite. Rounding errors in H may require more than 0.01; from 1 on,
  // columns hardly compensate each other's errors.
  double damping = 0;
};

// Damps and factorizes `hessian` (fp32, symmetric up to rounding), with the diagonal of dead inputs
// set to 1. Returns tensors on its device; computes in fp64, so that they depend on neither the
// device nor the number of threads. Throws an internal error that names `name` if H is not finite
// or damping does not make it positive definite.
HessianFactor factor_hessian(const at::Tensor& hessian, std::string_view name);

}  // namespace tg
