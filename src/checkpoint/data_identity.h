#pragma once
// What a run trains on, by content: the same data under another path is the same.
#include "config/frozen_settings.h"
#include "data/token_source.h"

namespace tg {

// The name of the training data in data_identity(), which checkpoints of older programs lack.
inline const std::string kTrainingData = "training data";

// The training data and, with TOKENIZER_PATH, the tokenizer, as a checkpoint's manifest has them
// beside frozen_settings(). The same on every rank. Errors: missing_input, bad_data, io.
FrozenTexts data_identity(const DataConfig& data, const TokenSource& training);

}  // namespace tg
