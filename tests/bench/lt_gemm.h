#pragma once
// A GEMM through cublasLt, with any of the algorithms that its heuristic offers.
#include <ATen/ATen.h>
#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tg {

// Row-major: out [m, n] = a·b, or += where it accumulates.
struct GemmProblem {
  std::int64_t m, n, k;
  at::ScalarType a_dtype, b_dtype, out_dtype;
  bool a_transposed = false;  // stored as [k, m], else as [m, k]
  bool b_transposed = false;  // stored as [n, k], else as [k, n]
  bool accumulates = false;
  bool fast = false;  // FP8: the tensor cores accumulate with 14 bits
};

// Operands as stored; scales [] fp32 in FP8, else undefined.
struct GemmTensors {
  at::Tensor a, b, out, scale_a, scale_b;
};

struct LtAlgorithm {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspace_bytes;
  int rank;  // in the heuristic's list, from 0

  bool operator==(const LtAlgorithm& other) const;
  // Tile, stages, cluster, split-K and the other attributes.
  std::string text() const;
};

class LtGemm {
 public:
  LtGemm(const GemmProblem& problem, const at::Tensor& scale_a, const at::Tensor& scale_b);

  // What the heuristic returns, the algorithm it thinks fastest first.
  std::vector<LtAlgorithm> algorithms(int count, std::size_t workspace_bytes) const;
  // Launches on the current stream → whether cublasLt accepts the algorithm. Other errors throw.
  bool launch(const LtAlgorithm& algorithm, const GemmTensors& tensors,
              const at::Tensor& workspace) const;

 private:
  template <auto destroy>
  struct Destroy {
    template <class T>
    void operator()(T* descriptor) const {
      destroy(descriptor);
    }
  };
  using Operation = std::unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;
  using Layout =
      std::unique_ptr<cublasLtMatrixLayoutOpaque_t, Destroy<cublasLtMatrixLayoutDestroy>>;
  using Preference =
      std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, Destroy<cublasLtMatmulPreferenceDestroy>>;

  static Layout layout(at::ScalarType dtype, std::int64_t rows, std::int64_t columns);

  cublasLtHandle_t handle_;  // LibTorch's
  float beta_;
  Operation operation_;
  Layout a_, b_, out_;
};

}  // namespace tg
