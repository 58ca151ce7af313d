#pragma once
// The rule of make_shards and of text that is tokenised while training runs.
#include <cstdint>

namespace tg {

inline constexpr double default_val_fraction = 0.05;

// Whether document number `index`, from 0, is of the validation split: the first val_documents are;
// when 0, every document at which another val_fraction of a document is due, so that they are
// spread over the input.
bool is_validation_document(std::int64_t index, std::int64_t val_documents = 0,
                            double val_fraction = default_val_fraction);

}  // namespace tg
