#include "ops/gemm/algorithm_choice.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "device/event.h"
#include "ops/gemm/lt_gemm.h"

namespace tg {

namespace {

constexpr std::int64_t kWorkspaceBytes = 64 << 20;
constexpr int kCandidates = 8, kRounds = 2;
// m·n·k of what is timed. Below, a launch takes less than some 30 us. Above, launches on end run at
// the power limit, where the largest tiles win, and short timings mislead: for the head of 50,304
// tokens they chose an algorithm that is 6 % slower then.
constexpr double kMinTimed = 0x1p33, kMaxTimed = 0x1p39;
// Of an operand of a sample; least and most of its m and n. Rounded to bf16, one sum in some 10^4
// shows that its order is another.
constexpr std::int64_t kSampleElements = 1 << 20, kMinSample = 256, kMaxSample = 2048;

bool is_worth_timing(const GemmProblem& p) {
  const double size =
      static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return size >= kMinTimed && size <= kMaxTimed;
}

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(at::kCUDA).dtype(dtype);
}

// Captured graphs keep its address.
const at::Tensor& workspace() {
  static const auto bytes = at::empty({kWorkspaceBytes}, on_gpu(at::kByte));
  return bytes;
}

bool splits_k(const LtAlgorithm& algorithm) {
  return algorithm.split_k() > 1 || algorithm.workspace_bytes > 0;
}

// Those that give the first's bits. On a sample with the same k: the call's own operands may be
// zeros, as weights are that training begins with, and its results are large.
std::vector<LtAlgorithm> with_bits_of_first(GemmProblem p, std::vector<LtAlgorithm> algorithms,
                                            bool scaled) {
  const auto most = std::clamp(kSampleElements / p.k / 16 * 16, kMinSample, kMaxSample);
  p.m = std::min(p.m, most);
  p.n = std::min(p.n, most);
  auto generator = at::cuda::detail::createCUDAGenerator();  // the default one's state is the run's
  const auto operand = [&](std::int64_t rows, at::ScalarType dtype) {
    return at::randn({rows * p.k}, generator, on_gpu(at::kFloat)).to(dtype);
  };
  const auto a = operand(p.m, p.a_dtype), b = operand(p.n, p.b_dtype);
  const auto scale = scaled ? at::ones({}, on_gpu(at::kFloat)) : at::Tensor();
  const LtGemm gemm(p, scale, scale);
  const auto product = [&](const LtAlgorithm& algorithm) {
    const auto out = at::empty({p.m, p.n}, on_gpu(p.out_dtype));
    return gemm.launch(algorithm, {a, b, out, scale, scale}, {}) ? out : at::Tensor();
  };
  const auto expected = product(algorithms.front());
  if (!expected.defined()) return {};
  std::erase_if(algorithms, [&](const LtAlgorithm& algorithm) {
    const auto found = product(algorithm);
    return !found.defined() || !at::equal(found, expected);
  });
  return algorithms;
}

// In turns, each by its best time, after a round that is not timed.
std::optional<LtAlgorithm> fastest(const LtGemm& gemm, std::vector<LtAlgorithm> of,
                                   const GemmTensors& tensors) {
  std::erase_if(of,
                [&](const LtAlgorithm& algorithm) { return !gemm.launch(algorithm, tensors, {}); });
  if (of.empty()) return std::nullopt;
  const auto stream = compute_stream(tensors.out.device());
  std::vector<Event> events;
  events.emplace_back(stream);
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& algorithm : of) {
      gemm.launch(algorithm, tensors, {});
      events.emplace_back(stream);
    }
  }
  stream.synchronize();
  std::vector<double> ms(of.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i + 1 < events.size(); ++i)
    ms[i % of.size()] = std::min(ms[i % of.size()], events[i].ms_until(events[i + 1]));
  return of[static_cast<std::size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin())];
}

std::optional<LtAlgorithm> choose(const LtGemm& gemm, const GemmProblem& problem,
                                  const GemmTensors& tensors) {
  auto algorithms = gemm.algorithms(problem.accumulates ? 1 : kCandidates, kWorkspaceBytes);
  if (algorithms.empty()) return std::nullopt;
  if (problem.accumulates) return algorithms.front();
  if (splits_k(algorithms.front())) return std::nullopt;
  std::erase_if(algorithms, splits_k);
  const bool scaled = tensors.scale_a.defined();
  return fastest(gemm, with_bits_of_first(problem, std::move(algorithms), scaled), tensors);
}

}  // namespace

bool launch_chosen(const GemmProblem& problem, const GemmTensors& tensors) {
  struct Chosen {
    LtGemm gemm;
    std::optional<LtAlgorithm> algorithm;
  };
  static std::map<GemmProblem, Chosen> choices;
  if (!problem.accumulates && !is_worth_timing(problem)) return false;
  auto found = choices.find(problem);
  if (found == choices.end()) {
    if (!problem.accumulates && is_capturing()) return false;
    LtGemm gemm(problem, tensors.scale_a, tensors.scale_b);
    const auto algorithm = choose(gemm, problem, tensors);
    found = choices.emplace(problem, Chosen{std::move(gemm), algorithm}).first;
  }
  const auto& [gemm, algorithm] = found->second;
  return algorithm &&
         gemm.launch(*algorithm, tensors, problem.accumulates ? workspace() : at::Tensor());
}

}  // namespace tg
