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

constexpr int kCandidates = 8, kRounds = 2;
// Range of m·n·k that is timed. Smaller launches take less than about 30 us. Larger ones, when
// launched back to back, run at the power limit, where the largest tiles win and short timings
// mislead: for the head of 50,304 tokens they chose an algorithm that is 6 % slower there.
constexpr double kMinTimed = 0x1p33, kMaxTimed = 0x1p39;
// Largest n and k that are timed. A larger one is mostly the vocabulary of a head: timing would
// allocate matrices as large as the logits while all activations are alive.
constexpr std::int64_t kMaxTimedWidth = 8191;

bool is_worth_timing(const GemmProblem& p) {
  const double size =
      static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return size >= kMinTimed && size <= kMaxTimed && std::max(p.n, p.k) <= kMaxTimedWidth;
}

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(at::kCUDA).dtype(dtype);
}

// Returns the current stream's workspace: GEMMs of two streams may run concurrently. Captured
// graphs keep its address.
const at::Tensor& workspace() {
  static std::map<c10::StreamId, at::Tensor> workspaces;
  auto& bytes = workspaces[compute_stream(at::kCUDA).id()];
  if (!bytes.defined()) bytes = at::empty({kGemmWorkspaceBytes}, on_gpu(at::kByte));
  return bytes;
}

// Operands for timing. The call's own operands may be zeros (zero-initialized weights), with which
// every algorithm gives the same bits and runs faster than on real data.
GemmTensors random_tensors(const GemmProblem& p, bool scaled) {
  auto generator =
      at::cuda::detail::createCUDAGenerator();  // leaves the default generator's state unchanged
  const auto operand = [&](std::int64_t rows, std::int64_t columns, at::ScalarType dtype) {
    return at::randn({rows, columns}, generator, on_gpu(at::kBFloat16)).to(dtype);
  };
  const auto scale = scaled ? at::ones({}, on_gpu(at::kFloat)) : at::Tensor();
  return {operand(p.m, p.k, p.a_dtype), operand(p.n, p.k, p.b_dtype),
          at::empty({p.m, p.n}, on_gpu(p.out_dtype)), scale, scale};
}

// Removes algorithms whose result differs in any bit from the first algorithm's.
void keep_bits_of_first(std::vector<LtAlgorithm>& algorithms, const LtGemm& gemm,
                        const GemmTensors& tensors) {
  const auto launch = [&](const LtAlgorithm& algorithm) {
    return gemm.launch(algorithm, tensors, workspace());
  };
  if (!launch(algorithms.front())) return algorithms.clear();
  const auto expected = tensors.out.clone();
  std::erase_if(algorithms, [&](const LtAlgorithm& algorithm) {
    return !launch(algorithm) || !at::equal(tensors.out, expected);
  });
}

// Times the algorithms in alternation and compares their best times.
LtAlgorithm fastest(const std::vector<LtAlgorithm>& algorithms, const LtGemm& gemm,
                    const GemmTensors& tensors) {
  const auto stream = compute_stream(tensors.out.device());
  std::vector<Event> events;
  events.emplace_back(stream);
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& algorithm : algorithms) {
      gemm.launch(algorithm, tensors, workspace());
      events.emplace_back(stream);
    }
  }
  stream.synchronize();
  std::vector<double> ms(algorithms.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i + 1 < events.size(); ++i)
    ms[i % algorithms.size()] =
        std::min(ms[i % algorithms.size()], events[i].ms_until(events[i + 1]));
  return algorithms[static_cast<std::size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin())];
}

std::optional<LtAlgorithm> choose(const LtGemm& gemm, const GemmProblem& problem, bool scaled) {
  auto algorithms = gemm.algorithms(problem.accumulates ? 1 : kCandidates, kGemmWorkspaceBytes);
  if (algorithms.empty()) return std::nullopt;
  if (problem.accumulates) return algorithms.front();
  const auto splits_k = [](const LtAlgorithm& algorithm) { return algorithm.split_k() > 1; };
  if (splits_k(algorithms.front())) return std::nullopt;
  std::erase_if(algorithms, splits_k);
  try {
    const auto tensors = random_tensors(problem, scaled);
    keep_bits_of_first(algorithms, gemm, tensors);
    if (algorithms.empty()) return std::nullopt;
    return fastest(algorithms, gemm, tensors);
  } catch (const c10::OutOfMemoryError&) {
    return std::nullopt;  // timing must not make a run fail that otherwise just fits in memory
  }
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
    const auto algorithm = choose(gemm, problem, tensors.scale_a.defined());
    found = choices.emplace(problem, Chosen{std::move(gemm), algorithm}).first;
  }
  const auto& [gemm, algorithm] = found->second;
  return algorithm && gemm.launch(*algorithm, tensors, workspace());
}

}  // namespace tg
