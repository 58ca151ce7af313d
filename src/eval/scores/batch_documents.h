#pragma once
#include <optional>

#include "data/feeder.h"
#include "eval/scores/split_tokens.h"
#include "model/micro_step.h"

namespace tg {

// Documents for passes that measure memory: each row of ids [B, T] is one document; nullopt if
// `tokens` have no documents.
std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt);

// Copies the segments of another batch of the same shape to `batch.segments`, padded with empty
// segments. Returns true if that needed a larger buffer, which has another address.
bool hold_segments(const at::Tensor& segments, DeviceBatch& batch);

}  // namespace tg
