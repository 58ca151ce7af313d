#pragma once
#include <ATen/ATen.h>

#include <map>
#include <string>
#include <string_view>

namespace tg {

// H = Σ x·xᵀ over the rows x that a matrix [out, in] multiplies, over the batches and ranks summed
// divided by the number of batches, by the matrix's name in the artifact: [in, in] fp32, in fp64
// where the parameters are. What GPTQ minimises is tr(E·H·Eᵀ), of an error E of the matrix (Frantar
// et al. 2023, who have twice that as the Hessian). Matrices with the same operand have one tensor.
using Hessians = std::map<std::string, at::Tensor>;

// What GPTQ needs of the Hessian H = Σ x·xᵀ [n, n] of a matrix's inputs x: of H after damping, its
// rows and columns in `order`, the factor U of H⁻¹ = Uᵀ·U.
struct HessianFactor {
  at::Tensor upper;  // U [n, n] fp32, upper triangular
  at::Tensor order;  // [n] int64: columns by damped diagonal, descending, the first of equals first
  at::Tensor dead;   // [n] bool: inputs that were always 0
  // Damping of the diagonal, as a fraction of its mean: 0.01, or if that H is not positive definite
  // the least of 0.1, 1, 10 and 100 with which it is. Rounding of H causes that; from 1 on columns
  // hardly correct each other.
  double damping = 0;
};

// `hessian` fp32, symmetric up to rounding. A dead input's diagonal becomes 1 first. The result is
// on its device; computed in fp64, so that it depends on neither that nor the number of threads.
// Errors: internal, a line that begins with `name`, where H is not finite or damping does not help.
HessianFactor factor_hessian(const at::Tensor& hessian, std::string_view name);

}  // namespace tg
