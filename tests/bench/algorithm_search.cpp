#include "algorithm_search.h"

#include <ATen/cuda/CUDAContext.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "algorithm_text.h"
#include "base/error.h"
#include "device/event.h"

namespace tg {

namespace {

constexpr int kAlgorithms = 40;  // requested from the heuristic
constexpr std::size_t kKept = 3;
// Ten times the L2 size, so that no launch finds the previous launch's operands in L2.
constexpr std::int64_t kRotatedBytes = 512 << 20;
// Fractions of the time: to bring the GPU to its power limit, and the maximum for the short
// timings.
constexpr double kWarmShare = 0.05, kShortShare = 0.375;
constexpr int kShortLaunches = 10, kTurns = 2;
constexpr double kGraphMs = 20;

const at::Device kGpu(at::kCUDA, 0);

double relative_error(const at::Tensor& got, const at::Tensor& expected) {
  const auto wanted = expected.to(at::kFloat);
  return ((got.to(at::kFloat) - wanted).norm() / wanted.norm()).item<double>();
}

}  // namespace

AlgorithmSearch::AlgorithmSearch(const TrainingGemm& gemm, double seconds,
                                 const at::Tensor& workspace)
    : gemm_(gemm), seconds_(seconds), workspace_(workspace) {
  std::int64_t bytes = 0;
  while (bytes < kRotatedBytes) {
    const auto& made = buffers_.emplace_back(gemm.make_tensors(kGpu));
    for (const auto& tensor : {made.a, made.b, made.out})
      bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  const auto& first = buffers_.front();
  start_ = first.out.clone();
  lt_ = std::make_unique<LtGemm>(gemm.problem(), first.scale_a, first.scale_b);
}

BestGemm AlgorithmSearch::run() {
  time_today();
  time_algorithms();
  keep_best();
  time_on_end();
  return print();
}

double AlgorithmSearch::mean_ms(const Launch& launch, std::size_t first, int count) {
  const auto stream = compute_stream(kGpu);
  const Event before(stream);
  for (int i = 0; i < count; ++i) launch(first + static_cast<std::size_t>(i));
  const Event after(stream);
  stream.synchronize();
  return before.ms_until(after) / count;
}

AlgorithmSearch::Launch AlgorithmSearch::launch_of(const LtAlgorithm& algorithm) const {
  return [this, &algorithm](std::size_t i) {
    REQUIRE(lt_->launch(algorithm, buffers_[i % buffers_.size()], workspace_), ExitCode::internal,
            "cublasLt refuses what it has accepted: {}", text_of(algorithm));
  };
}

std::size_t AlgorithmSearch::libtorch_workspace() const {
  return gemm_.fp8 ? at::cuda::getCUDABlasLtWorkspaceSize() : at::cuda::getChosenWorkspaceSize();
}

void AlgorithmSearch::time_today() {
  const Launch today = [this](std::size_t i) { gemm_.call(buffers_[i % buffers_.size()]); };
  mean_ms(today, 0, 1);  // creates handles, loads the kernel
  double ms = 0;
  while (ms == 0 || watch_.seconds() < kWarmShare * seconds_)
    ms = mean_ms(today, 0, kShortLaunches);
  contenders_.push_back({.launch = today, .short_ms = ms});
}

void AlgorithmSearch::time_algorithms() {
  algorithms_ = lt_->algorithms(kAlgorithms, workspace_.nbytes());
  for (const auto& choice : lt_->algorithms(1, libtorch_workspace())) {
    const auto found = std::find(algorithms_.begin(), algorithms_.end(), choice);
    libtorch_first_ = static_cast<std::size_t>(found - algorithms_.begin());
    if (found == algorithms_.end()) algorithms_.push_back(choice);
  }
  short_ms_.assign(algorithms_.size(), kNever);
  // LibTorch's algorithm is timed first, because the time may not suffice for all.
  std::vector<std::size_t> order(algorithms_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return i == libtorch_first_; });

  const double from = watch_.seconds();
  const double slice_ms = 1e3 * kShortShare * seconds_ / static_cast<double>(order.size() + 1);
  double best_ms = kNever;
  for (const auto i : order) {
    if (watch_.seconds() - from > kShortShare * seconds_) break;
    ++tried_;
    // The first launch loads the kernel.
    if (!lt_->launch(algorithms_[i], buffers_.front(), workspace_)) continue;
    compute_stream(kGpu).synchronize();
    const auto launch = launch_of(algorithms_[i]);
    double ms = mean_ms(launch, 1, 1);
    const int more = std::clamp(static_cast<int>(slice_ms / ms) - 2, 1, kShortLaunches);
    if (ms < 1.5 * best_ms) ms = mean_ms(launch, 2, more);
    short_ms_[i] = ms;
    best_ms = std::min(best_ms, ms);
  }
}

void AlgorithmSearch::keep_best() {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < algorithms_.size(); ++i)
    if (short_ms_[i] < kNever) order.push_back(i);
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return short_ms_[a] < short_ms_[b]; });
  order.resize(std::min(kKept, order.size()));

  const auto with_out = [&](const at::Tensor& out) {
    auto tensors = buffers_.front();
    tensors.out = out;
    return tensors;
  };
  const auto expected = gemm_.call(with_out(start_.clone()));
  for (const auto i : order) {
    // Elements that the GEMM does not write stay NaN.
    const auto out = gemm_.problem().accumulates
                         ? start_.clone()
                         : at::full_like(start_, std::numeric_limits<float>::quiet_NaN());
    lt_->launch(algorithms_[i], with_out(out), workspace_);
    contenders_.push_back({.launch = launch_of(algorithms_[i]),
                           .short_ms = short_ms_[i],
                           .algorithm = &algorithms_[i],
                           .error = relative_error(out, expected)});
  }
}

// The bound on the error of the whole matrix between two orders of summation. bf16 rounds by up to
// 2^-9; fp32 accumulation differs by far less, but FP8's tensor cores keep 14 bits, within a block
// of k or over all k.
bool AlgorithmSearch::agrees(double error) const {
  const auto p = gemm_.problem();
  const double bound = p.fast ? 0x1p-6 : p.out_dtype == at::kBFloat16 ? 0x1p-8 : 0x1p-10;
  return error < bound;  // false for NaN
}

// Times CUDA graphs, as in a training step: launching FP8 calls takes the host longer than the GPU
// runs.
void AlgorithmSearch::time_on_end() {
  const double left = std::max(1 - kWarmShare - kShortShare, 1 - watch_.seconds() / seconds_);
  const double slice_ms =
      1e3 * left * seconds_ / (kTurns * static_cast<double>(contenders_.size()));
  const auto sets = static_cast<int>(buffers_.size());
  for (auto& contender : contenders_) {
    const double wanted = std::min(kGraphMs, slice_ms / 3) / contender.short_ms;
    contender.graph_launches = std::max(1, static_cast<int>(wanted) / sets) * sets;
    contender.graph = std::make_unique<GpuGraphs>();
    const auto error = contender.graph->capture({[&] {
      for (int i = 0; i < contender.graph_launches; ++i)
        contender.launch(static_cast<std::size_t>(i));
    }});
    REQUIRE(error.empty(), ExitCode::internal, "capture of {}: {}", gemm_.name, error);
  }
  for (int turn = 0; turn < kTurns; ++turn) {
    for (auto& contender : contenders_) {
      const Launch replay = [&](std::size_t) { contender.graph->replay(0); };
      // A third of the slice is untimed warm-up, until the clock is stable.
      const double graph_ms = contender.short_ms * contender.graph_launches;
      const int untimed = std::max(1, static_cast<int>(slice_ms / 3 / graph_ms));
      for (int i = 0; i < untimed; ++i) replay(0);
      contender.ms += mean_ms(replay, 0, 2 * untimed) / contender.graph_launches / kTurns;
    }
  }
}

BestGemm AlgorithmSearch::print() const {
  const auto p = gemm_.problem();
  const auto& today = contenders_.front();
  const auto rate = [&](double ms) { return gemm_.flops() / ms / 1e9; };
  const auto short_text = [&](std::size_t i) {
    return i < short_ms_.size() && short_ms_[i] < kNever ? fmt::format("{:.4f}", short_ms_[i])
                                                         : std::string("none");
  };
  fmt::print("{:4} {:21} {:6} {:6} {:6}  today {:.4f} ms {:4.0f} TFLOP/s", gemm_.fp8 ? "FP8" : "",
             gemm_.name, p.m, p.n, p.k, today.ms, rate(today.ms));
  fmt::print("; short timings: today {:.4f}, cublasLt's first {} at {} MiB, {} at {}; {} of {}\n",
             today.short_ms, short_text(libtorch_first_), libtorch_workspace() >> 20, short_text(0),
             workspace_.nbytes() >> 20, tried_, algorithms_.size());
  double best_ms = today.ms;
  for (const auto& contender : contenders_) {
    if (contender.algorithm == nullptr) continue;
    const bool good = agrees(contender.error);
    if (good) best_ms = std::min(best_ms, contender.ms);
    const auto& algorithm = *contender.algorithm;
    const bool is_first = algorithm == algorithms_[0];
    const bool is_libtorch_first =
        libtorch_first_ < algorithms_.size() && algorithm == algorithms_[libtorch_first_];
    fmt::print(
        "       {:.4f} ms {:.3f}x {:5.0f} TFLOP/s  {} {:.1e}  #{}{}{}: {}\n", contender.ms,
        today.ms / contender.ms, rate(contender.ms), good ? "agrees" : "DIFFERS", contender.error,
        &algorithm - algorithms_.data() + 1,
        is_first ? fmt::format(", first at {} MiB", workspace_.nbytes() >> 20) : "",
        is_libtorch_first ? fmt::format(", first at {} MiB", libtorch_workspace() >> 20) : "",
        text_of(algorithm));
  }
  std::fflush(stdout);
  return {&gemm_, today.ms, best_ms};
}

}  // namespace tg
