#pragma once
// Which of cublasLt's algorithms computes a GEMM. LibTorch takes the first that the heuristic
// offers. With training's shapes on an H100 others are 4 to 15 % faster, and weight gradients, in
// FP8 up to 1.3 times, where there is a workspace to split k in (tests/bench/gemm_search).
//
// A result never depends on the choice, since a resumed run and other ranks may choose otherwise:
// - A GEMM that overwrites has its sums in the order of the heuristic's first algorithm. Only
//   algorithms that do not split k are timed, and of these only such as give that one's bits.
// - One that accumulates, a weight gradient, takes the first for a workspace of 64 MiB that adds up
//   the parts of k in a fixed order; it is the same in every run, and nothing is timed.
// The timing, at a problem's first call, takes as long as some 24 launches; then the choice stays
// for the process. By one thread at a time; each stream that launches such GEMMs has a workspace.
#include "ops/gemm/gemm_problem.h"

namespace tg {

constexpr std::int64_t kGemmWorkspaceBytes = 64 << 20;

// Launches the GEMM on the current stream. Returns false where LibTorch's call must compute it: for
// a problem that is too small to gain or so large that the power limit decides; for k beyond 8,191,
// as in a head's input gradient, whose timing would raise training's peak memory; for a problem
// first met while a stream is captured; and where cublasLt has no algorithm or memory is too short
// for the operands that are timed.
bool launch_chosen(const GemmProblem& problem, const GemmTensors& tensors);

}  // namespace tg
