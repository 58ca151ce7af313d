#pragma once
// A cublasLt GEMM that can run with any of the heuristic's algorithms.
#include <cublasLt.h>

#include <memory>
#include <vector>

#include "base/deleter.h"
#include "ops/gemm/gemm.h"

namespace tg {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspace_bytes;

  bool operator==(const LtAlgorithm& other) const;
  // The algorithm's split-k factor.
  int split_k() const;
};

// Precondition: all operands are 256-byte aligned, as the heuristic assumes.
class LtGemm {
 public:
  LtGemm(const GemmProblem& problem, const at::Tensor& scale_a, const at::Tensor& scale_b);

  // Returns the heuristic's algorithms, the estimated fastest first. Algorithms with split-k reduce
  // in the workspace, in a fixed order.
  std::vector<LtAlgorithm> algorithms(int count, std::size_t workspace_bytes) const;
  // Launches on the current stream. Returns whether cublasLt supports the algorithm, which may come
  // from a problem of another size; throws on other errors. `workspace` has the algorithm's
  // workspace_bytes; undefined if 0.
  bool launch(const LtAlgorithm& algorithm, const GemmTensors& tensors,
              const at::Tensor& workspace) const;

 private:
  using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Deleter<cublasLtMatmulDescDestroy>>;
  using Layout =
      std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Deleter<cublasLtMatrixLayoutDestroy>>;
  using Preference =
      std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Deleter<cublasLtMatmulPreferenceDestroy>>;

  static Layout layout(at::ScalarType dtype, std::int64_t rows, std::int64_t columns);
  void set_scales(const at::Tensor& scale_a, const at::Tensor& scale_b) const;

  cublasLtHandle_t handle_;  // LibTorch's
  float beta_;
  Operation operation_;
  Layout a_, b_, out_;
};

}  // namespace tg
