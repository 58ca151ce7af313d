#pragma once
// Identity of a run's data by content, independent of its path.
#include "config/fixed_settings.h"
#include "data/token_source.h"

namespace tg {

// Key of the training data in data_identity(); checkpoints of older programs lack it.
inline const std::string kTrainingData = "training data";

// Returns the identity of the training data and, with TOKENIZER_PATH, of the tokenizer, in the form
// of fixed_settings(), beside which a manifest stores it. Equal on every rank. Throws Error:
// missing_input, bad_data, io.
FixedTexts data_identity(const DataConfig& data, const TokenSource& training);

}  // namespace tg
