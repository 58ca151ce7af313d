#pragma once
#include <optional>

#include "data/feeder.h"
#include "eval/split_tokens.h"
#include "model/micro_step.h"

namespace tg {

// For passes that measure memory: rows of ids [B, T] that are a document each, where `tokens` have
// documents.
std::optional<Documents> whole_rows(const SplitTokens& tokens, const at::Tensor& ids_bt);

// Copies another batch's segments to those of `batch`, whose shape it has, with empty ones behind
// them. → whether that needed more room, which is at another address.
bool hold_segments(const at::Tensor& segments, DeviceBatch& batch);

}  // namespace tg
