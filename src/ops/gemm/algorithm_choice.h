#pragma once
// Chooses the cublasLt algorithm of a GEMM. LibTorch takes the first one that the heuristic
// returns. With training's shapes on an H100 others are 4 to 15 % faster, and weight gradients (up
// to 1.3 times in FP8) with a workspace for split-k (docs/optimizations.md).
//
// The result never depends on the choice, since a resumed run or another rank may choose
// differently:
// - An overwriting GEMM (beta 0) is bitwise equal to the heuristic's first algorithm. Only
//   algorithms without split-k whose result has the same bits are timed.
// - An accumulating GEMM (a weight gradient) takes the heuristic's first algorithm for a 64 MiB
//   workspace with a deterministic split-k reduction; it is the same in every run, untimed.
// Timing happens at a problem's first call and costs about 24 launches; the choice is cached for
// the process. Not thread-safe; each stream that launches such GEMMs has its own workspace.
#include "ops/gemm/gemm.h"

namespace tg {

constexpr std::int64_t kGemmWorkspaceBytes = 64 << 20;

// Launches the GEMM on the current stream. Returns false, having done nothing, if the caller should
// use LibTorch's GEMM instead: the problem is too small to gain or so large that the power limit
// decides; n or k exceeds 8,191 (the head's logits and input gradient), so that timing would raise
// training's peak memory; the problem is first seen during stream capture; cublasLt has no
// algorithm; or the operands for timing do not fit in memory.
bool launch_chosen(const GemmProblem& problem, const GemmTensors& tensors);

}  // namespace tg
