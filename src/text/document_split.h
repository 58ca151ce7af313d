#pragma once
// Selects the validation documents, for make_shards and TextCorpus.
#include <cstdint>

namespace tg {

inline constexpr double default_val_fraction = 0.05;

// Returns whether document `index`, from 0, is for validation: the first val_documents are or, if
// that is 0, an evenly spread fraction val_fraction: the documents at which ⌊val_fraction ·
// documents⌋ increases.
bool is_validation_document(std::int64_t index, std::int64_t val_documents = 0,
                            double val_fraction = default_val_fraction);

}  // namespace tg
