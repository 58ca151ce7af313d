#pragma once
#include <optional>

#include "data/feeder.h"
#include "eval/split_tokens.h"
#include "model/micro_step.h"

namespace tg {

// For passes that measure memory: rows of ids [B, T] that are a document each, where `tokens` have
// documents.
std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt);

// Copies another batch's segments into `batch`, which has its shape, and fills the rest with empty
// segments. Returns whether that needed a longer list, which is at another address.
bool hold_segments(const at::Tensor& segments, DeviceBatch& batch);

}  // namespace tg
