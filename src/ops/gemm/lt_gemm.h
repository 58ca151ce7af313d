#pragma once
// A GEMM through cublasLt, with any of the algorithms that its heuristic offers.
#include <cublasLt.h>

#include <memory>
#include <vector>

#include "base/deleter.h"
#include "ops/gemm/gemm_problem.h"

namespace tg {

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspace_bytes;

  bool operator==(const LtAlgorithm& other) const;
  // Into how many sums, added up afterwards, it splits that over k.
  int split_k() const;
};

// All addresses must be multiples of 256 bytes, which the heuristic assumes.
class LtGemm {
 public:
  LtGemm(const GemmProblem& problem, const at::Tensor& scale_a, const at::Tensor& scale_b);

  // What the heuristic returns, the algorithm it thinks fastest first; where they split k, they add
  // the parts up in the workspace, in a fixed order.
  std::vector<LtAlgorithm> algorithms(int count, std::size_t workspace_bytes) const;
  // Launches on the current stream. Returns whether cublasLt accepts the algorithm, which may be of
  // a problem of another size. Other errors throw. `workspace` has the algorithm's bytes; undefined
  // for none.
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
