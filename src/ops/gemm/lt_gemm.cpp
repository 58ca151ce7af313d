#include "ops/gemm/lt_gemm.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDADataType.h>

#include <cstring>

#include "base/error.h"
#include "ops/kernels.h"

namespace tg {

namespace {

void check(cublasStatus_t status, const char* call) {
  REQUIRE(status == CUBLAS_STATUS_SUCCESS, ExitCode::internal, "{}: {}", call,
          cublasLtGetStatusString(status));
}

template <class T>
void set(cublasLtMatmulDescOpaque_t* operation, cublasLtMatmulDescAttributes_t which, T value) {
  check(cublasLtMatmulDescSetAttribute(operation, which, &value, sizeof(value)),
        "cublasLtMatmulDescSetAttribute");
}

}  // namespace

bool LtAlgorithm::operator==(const LtAlgorithm& other) const {
  return std::memcmp(&algo, &other.algo, sizeof(algo)) == 0;
}

int LtAlgorithm::split_k() const {
  std::int32_t parts = 1;
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts,
                                             sizeof(parts), &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return parts;
}

// cublasLt is column-major: a row-major matrix is its column-major transpose.
LtGemm::Layout LtGemm::layout(at::ScalarType dtype, std::int64_t rows, std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(cublasLtMatrixLayoutCreate(&layout, at::cuda::ScalarTypeToCudaDataType(dtype),
                                   static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate");
  return Layout(layout);
}

// cublasLt computes the column-major outᵀ = bᵀ·aᵀ, so that its A is b. Stored as [k, n], b is
// already bᵀ in column-major order.
LtGemm::LtGemm(const GemmProblem& p, const at::Tensor& scale_a, const at::Tensor& scale_b)
    : handle_(at::cuda::getCurrentCUDABlasLtHandle()),
      beta_(p.accumulates ? 1.F : 0.F),
      a_(p.a_transposed ? layout(p.a_dtype, p.k, p.m) : layout(p.a_dtype, p.m, p.k)),
      b_(p.b_transposed ? layout(p.b_dtype, p.n, p.k) : layout(p.b_dtype, p.k, p.n)),
      out_(layout(p.out_dtype, p.m, p.n)) {
  cublasLtMatmulDesc_t operation = nullptr;
  check(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  operation_.reset(operation);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(p.fast));
  set_scales(scale_a, scale_b);
}

void LtGemm::set_scales(const at::Tensor& scale_a, const at::Tensor& scale_b) const {
  if (!scale_a.defined()) return;
  set(operation_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale_b.const_data_ptr());
  set(operation_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale_a.const_data_ptr());
}

std::vector<LtAlgorithm> LtGemm::algorithms(int count, std::size_t workspace_bytes) const {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  const Preference preference(created);
  check(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &workspace_bytes, sizeof(workspace_bytes)),
        "cublasLtMatmulPreferenceSetAttribute");
  constexpr std::uint32_t in_workspace = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  check(cublasLtMatmulPreferenceSetAttribute(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &in_workspace, sizeof(in_workspace)),
        "cublasLtMatmulPreferenceSetAttribute");
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(count));
  int returned = 0;
  const auto status =
      cublasLtMatmulAlgoGetHeuristic(handle_, operation_.get(), b_.get(), a_.get(), out_.get(),
                                     out_.get(), created, count, results.data(), &returned);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<LtAlgorithm> algorithms;
  results.resize(static_cast<std::size_t>(returned));
  for (const auto& result : results) {
    if (result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back({result.algo, result.workspaceSize});
  }
  return algorithms;
}

bool LtGemm::launch(const LtAlgorithm& algorithm, const GemmTensors& tensors,
                    const at::Tensor& workspace) const {
  set_scales(tensors.scale_a, tensors.scale_b);
  const float alpha = 1;
  const auto status = cublasLtMatmul(
      handle_, operation_.get(), &alpha, tensors.b.const_data_ptr(), b_.get(),
      tensors.a.const_data_ptr(), a_.get(), &beta_, tensors.out.const_data_ptr(), out_.get(),
      tensors.out.mutable_data_ptr(), out_.get(), &algorithm.algo, mutable_data(workspace),
      algorithm.workspace_bytes, at::cuda::getCurrentCUDAStream());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
  check(status, "cublasLtMatmul");
  return true;
}

}  // namespace tg
