#pragma once
// Searches cublasLt's algorithms for a GEMM and compares them with what the operations call today.
#include <ATen/ATen.h>

#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/elapsed.h"
#include "device/gpu_graphs.h"
#include "ops/gemm/lt_gemm.h"
#include "training_gemms.h"

namespace tg {

class Stopwatch {
 public:
  double seconds() const { return milliseconds_since(start_) / 1000; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct BestGemm {
  const TrainingGemm* gemm;
  double today_ms,
      best_ms;  // best_ms: of the fastest call, among today's and the algorithms that agree with it
};

// Runs on the current GPU, whose current stream must not be the default stream.
class AlgorithmSearch {
 public:
  // `seconds`: the approximate time budget, which starts here.
  AlgorithmSearch(const TrainingGemm& gemm, double seconds, const at::Tensor& workspace);

  // Prints one line for today's call and one for each of the best algorithms.
  BestGemm run();

 private:
  using Launch = std::function<void(std::size_t)>;  // the argument is a buffer index
  struct Contender {
    Launch launch;
    double short_ms;
    const LtAlgorithm* algorithm = nullptr;  // null: today's call
    double error = 0;                        // relative to today's result
    std::unique_ptr<GpuGraphs> graph{};
    int graph_launches = 0;
    double ms = 0;  // per launch, in back-to-back launches
  };

  static double mean_ms(const Launch& launch, std::size_t first, int count);
  Launch launch_of(const LtAlgorithm& algorithm) const;
  // LibTorch's workspace limit for what today's call uses: cublasLt or its cuBLAS handle.
  std::size_t libtorch_workspace() const;
  bool agrees(double error) const;

  void time_today();
  void time_algorithms();
  void keep_best();
  void time_on_end();
  BestGemm print() const;

  static constexpr double kNever = std::numeric_limits<double>::infinity();

  const TrainingGemm& gemm_;
  const double seconds_;
  const at::Tensor& workspace_;
  const Stopwatch watch_;
  std::vector<GemmTensors> buffers_;
  at::Tensor start_;  // the accumulator's initial value
  std::unique_ptr<LtGemm> lt_;
  std::vector<LtAlgorithm>
      algorithms_;  // from the heuristic; LibTorch's is appended if it is not among them
  std::size_t libtorch_first_ = std::numeric_limits<std::size_t>::max();  // index in algorithms_
  std::vector<double> short_ms_;  // one for each of algorithms_; kNever: rejected or not tried
  int tried_ = 0;
  std::vector<Contender> contenders_;  // today's call first
};

}  // namespace tg
