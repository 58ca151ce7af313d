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
// m·n·k of what is timed. Below, a launch takes less than some 30 us. Above, launches on end run at
// the power limit, where the largest tiles win, and short timings mislead: for the head of 50,304
// tokens they chose an algorithm that is 6 % slower then.
constexpr double kMinTimed = 0x1p33, kMaxTimed = 0x1p39;
// And k, which beyond is mostly the columns of a head: the operand that timing would add is as
// large as the gradient of its logits, at a moment when all activations are there.
constexpr std::int64_t kMaxTimedK = 8191;

bool is_worth_timing(const GemmProblem& p) {
  const double size =
      static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return size >= kMinTimed && size <= kMaxTimed && p.k <= kMaxTimedK;
}

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
}

at::TensorOptions on_gpu(at::ScalarType dtype) {
  return at::TensorOptions(at::kCUDA).dtype(dtype);
}

// The current stream's: GEMMs of two streams may run at once. Captured graphs keep its address.
const at::Tensor& workspace() {
  static std::map<c10::StreamId, at::Tensor> of_streams;
  auto& bytes = of_streams[compute_stream(at::kCUDA).id()];
  if (!bytes.defined()) bytes = at::empty({kGemmWorkspaceBytes}, on_gpu(at::kByte));
  return bytes;
}

// Operands for the choice: the call's own may be zeros, as weights are that training begins with,
// which every algorithm multiplies alike, and faster than others.
GemmTensors random_tensors(const GemmProblem& p, bool scaled) {
  auto generator = at::cuda::detail::createCUDAGenerator();  // the default one's state is the run's
  const auto operand = [&](std::int64_t rows, std::int64_t columns, at::ScalarType dtype) {
    return at::randn({rows, columns}, generator, on_gpu(at::kBFloat16)).to(dtype);
  };
  const auto scale = scaled ? at::ones({}, on_gpu(at::kFloat)) : at::Tensor();
  return {operand(p.m, p.k, p.a_dtype), operand(p.n, p.k, p.b_dtype),
          at::empty({p.m, p.n}, on_gpu(p.out_dtype)), scale, scale};
}

// Leaves those that give the first's bits.
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

// In turns, each by its best time.
LtAlgorithm fastest(const std::vector<LtAlgorithm>& of, const LtGemm& gemm,
                    const GemmTensors& tensors) {
  const auto stream = compute_stream(tensors.out.device());
  std::vector<Event> events;
  events.emplace_back(stream);
  for (int round = 0; round < kRounds; ++round) {
    for (const auto& algorithm : of) {
      gemm.launch(algorithm, tensors, workspace());
      events.emplace_back(stream);
    }
  }
  stream.synchronize();
  std::vector<double> ms(of.size(), std::numeric_limits<double>::infinity());
  for (std::size_t i = 0; i + 1 < events.size(); ++i)
    ms[i % of.size()] = std::min(ms[i % of.size()], events[i].ms_until(events[i + 1]));
  return of[static_cast<std::size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin())];
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
    return std::nullopt;  // what just fits into the GPU without the choice must not fail by it
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
