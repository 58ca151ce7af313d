#pragma once
#include "config/settings.h"
#include "eval/window_scorer.h"

namespace tg {

// The score with a sliding window of `length` tokens every `stride`: nearly every token has at
// least length − stride tokens of context. Rank r scores windows ⌊n·r/W⌋ to ⌊n·(r+1)/W⌋. With
// `record_quirks` the reference implementation's windows (WindowOptions::rescore_tail). Collective:
// the same score on every rank. `nll` may be undefined, see WindowScorer::save_token_losses().
Score sliding_window_score(Gpt& model, const SplitTokens& tokens, const WindowOptions& options,
                           at::Device device, EvalMode mode, Communicator& communicator,
                           const at::Tensor& nll = {});

}  // namespace tg
